"""Signals that arrive while a command ends."""

from __future__ import annotations

import signal
from concurrent import futures
from typing import Any

import pytest

from headlight import Client
from headlight.bulk.signals import NOTICED_SECONDS, result_of
from headlight.cli.commands import parser
from headlight.cli.shared_options import connect


def test_signals_do_not_interrupt_closing_the_client_of_a_command(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupted close would make gRPC wait for ever."""
    signals, close = (signal.SIGINT, signal.SIGTERM), Client.close
    found: list[Any] = []

    def closing(client: Client) -> None:
        found.extend(map(signal.getsignal, signals))
        close(client)

    monkeypatch.setattr(Client, "close", closing)
    before = [*map(signal.getsignal, signals)]
    with (
        pytest.raises(KeyboardInterrupt),
        connect(parser().parse_args(["info", "--target", target])),
    ):
        raise KeyboardInterrupt
    assert found == [signal.SIG_IGN] * 2
    assert [*map(signal.getsignal, signals)] == before


def test_a_long_wait_is_split_so_that_signals_are_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python notices a signal that arrives as it begins to wait only after the wait."""
    future, waited, wait = futures.Future[int](), list[float | None](), futures.wait

    def waiting(some: Any, seconds: float | None) -> Any:
        waited.append(seconds)
        if len(waited) == 3:
            future.set_result(7)
        return wait(some, 0)

    monkeypatch.setattr(futures, "wait", waiting)
    assert result_of(future, None) == 7
    assert waited == [NOTICED_SECONDS] * 3


def test_a_split_wait_returns_the_result_of_the_future() -> None:
    done, failed = futures.Future[int](), futures.Future[int]()
    done.set_result(1)
    failed.set_exception(ValueError("no"))
    assert result_of(done, 0) == result_of(done, None) == 1
    with pytest.raises(ValueError, match="no"):
        result_of(failed, 5)
    with pytest.raises(TimeoutError):
        result_of(futures.Future[int](), 0.01)

"""Signals that come while a command ends."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from headlight import Client
from headlight.cli import parser
from headlight.options import connect


def test_no_signal_disturbs_the_end_of_a_commands_client(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """gRPC would wait for ever."""
    signals, close = (signal.SIGINT, signal.SIGTERM), Client.close
    found: list[Any] = []

    def closing(client: Client) -> None:
        found.extend(map(signal.getsignal, signals))
        close(client)

    monkeypatch.setattr(Client, "close", closing)
    before = [*map(signal.getsignal, signals)]
    with pytest.raises(KeyboardInterrupt), connect(parser().parse_args(["info", "--target", target])):
        raise KeyboardInterrupt
    assert found == [signal.SIG_IGN] * 2
    assert [*map(signal.getsignal, signals)] == before

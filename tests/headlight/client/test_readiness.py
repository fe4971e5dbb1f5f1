"""A service that is still starting is waited for, and not for ever."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from headlight import AsyncClient, Client, InvalidInput, Overloaded, Unavailable
from headlight.client.call_flow import ReadyRetries
from headlight.errors import MixedWeights
from headlight.reasons import Reason
from tests.headlight.fake_model import DIM
from tests.headlight.fake_server import FakeServicer, default_limits, serving
from tests.ports import free_port


class Starting(Client):
    """Starts its service when it has found none."""

    def begin(self, stack: ExitStack, port: int) -> None:
        self._stack, self._port, self.pauses = stack, port, 0

    def _pause(self, seconds: float) -> None:
        self.pauses += 1
        if self.pauses == 1:
            self._stack.enter_context(serving(FakeServicer(default_limits()), self._port))
        super()._pause(seconds)


def test_a_service_that_is_starting_is_waited_for_by_the_first_call() -> None:
    port = free_port()
    with ExitStack() as stack, Starting(f"127.0.0.1:{port}", wait_for_ready=60) as client:
        client.begin(stack, port)
        assert client.encode("text").shape == (DIM,)
        assert client.pauses >= 1


async def test_so_it_is_with_asyncio() -> None:
    port = free_port()
    with ExitStack() as stack:
        async with AsyncClient(f"127.0.0.1:{port}", wait_for_ready=60) as client:
            pause = client._pause

            async def begin(seconds: float) -> None:
                client._pause = pause  # type: ignore[method-assign]
                stack.enter_context(serving(FakeServicer(default_limits()), port))

            client._pause = begin  # type: ignore[method-assign]
            assert (await client.encode("text")).shape == (DIM,)


def test_a_service_that_was_ready_is_not_waited_for_again() -> None:
    """Its own retries bridge a restart; a long absence is the caller's to know."""
    port = free_port()
    with (
        ExitStack() as stack,
        Starting(f"127.0.0.1:{port}", wait_for_ready=60) as client,
    ):
        with serving(FakeServicer(default_limits()), port):
            client.begin(stack, port)
            client.pauses = 1
            client.model()
        with pytest.raises(Unavailable):
            client.model()
        assert client.pauses == 1


def test_the_wait_ends_and_is_not_begun_where_it_cannot_help(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr("headlight.client.call_flow.time.monotonic", lambda: now[0])
    gone = Unavailable("no answer from 127.0.0.1:1 (last error: Connection refused)")
    loading = Unavailable(Reason.LOADING)
    retries = ReadyRetries(None, 5.0)
    assert retries.delay(gone) is not None
    assert retries.delay(loading) is not None
    for other in ("WRONG_VERSION_NUMBER", "Socket closed", "Domain name not found", "draining"):
        assert retries.delay(Unavailable(other)) is None
    assert retries.delay(MixedWeights("different weights")) is None
    assert retries.delay(Overloaded("the queue is full", 3.0)) is not None
    assert ReadyRetries(None, 0.0).delay(gone) is None
    assert ReadyRetries(100.01, 5.0).delay(gone) is None  # the timeout passes before
    now[0] = 105.0
    assert retries.delay(gone) is None


@pytest.mark.parametrize("seconds", [-1, float("nan"), "5", None])
def test_a_wait_that_is_no_number_of_seconds_is_refused(seconds: float) -> None:
    with pytest.raises(InvalidInput, match=r"^wait_for_ready: is .*; must be a number of seconds"):
        Client("127.0.0.1:1", wait_for_ready=seconds)


def test_a_client_without_a_target_calls_the_one_of_the_environment(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADLIGHT_TARGET", target)
    with Client() as client:
        assert client.model().name == "fake"
    monkeypatch.setenv("HEADLIGHT_TARGET", "http://there")
    with pytest.raises(InvalidInput, match=r"^target: is 'http://there'; name a service"):
        Client()
    monkeypatch.setenv("HEADLIGHT_TARGET", "")  # as if it were not set
    with Client() as client:
        assert client._target == "127.0.0.1:50051"

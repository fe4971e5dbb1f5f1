"""Reply timeouts of answers that share a connection.

All reach their reader, or none does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

from headlight_service.frontends import stall_timeout
from headlight_service.frontends.grpc import peer_timeouts
from headlight_service.frontends.grpc.peer_timeouts import Replies
from headlight_service.frontends.grpc.transport.grpc_call import Call
from tests.service.calls import request, text_of, until
from tests.service.conftest import Serve
from tests.service.frontends.grpc.test_encode_stream import LARGE
from tests.service.frontends.grpc.test_slow_readers import handled, rejected
from tests.service.raw import ClosedWindow, closed_window

pytestmark = pytest.mark.usefixtures("steady")


async def test_each_answer_on_a_reset_connection_is_counted_once(serve: Serve) -> None:
    async with serve(stall_seconds=1) as service, closed_window(service.target) as client:
        for _ in range(16):
            client.ask("GetModel", b"")
        await until(
            lambda: len(service.servicer._replies._waiting) == 16 or client.hung_up.is_set()
        )
        await client.hung_up.wait()
        await service.in_flight.idle()
        assert rejected(service, "stalled_reader") == 16
        assert handled(service, "GetModel", "RESOURCE_EXHAUSTED") == 16
        assert not service.servicer._replies._waiting


async def take(client: ClosedWindow, size: int, times: int) -> None:
    """Take so many bytes more of each answer, so many times, every tenth of a second."""
    for _ in range(times):
        client.make_room(size)
        pause = asyncio.Event()
        asyncio.get_running_loop().call_later(0.1, pause.set)
        await pause.wait()


async def test_concurrent_answers_share_the_time_of_their_total_size(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten of 200 kB over a link of 1 MB/s.

    All arrive after two seconds, and one alone may take 1.5.
    """
    monkeypatch.setattr(stall_timeout, "PACE_BYTES", 1 << 17)
    message = request(text_of(160), outputs=LARGE).SerializeToString()
    async with serve(stall_seconds=0.6) as service, closed_window(service.target) as client:
        for _ in range(10):
            client.ask("Encode", message)
        await until(
            lambda: len(service.servicer._replies._waiting) == 10 or client.hung_up.is_set()
        )
        await take(client, 10_000, 21)
        await service.in_flight.idle()
        assert not client.hung_up.is_set()
        assert rejected(service, "stalled_reader") == 0
        assert handled(service, "Encode", "OK") == 10


async def test_answers_that_join_later_extend_the_time_of_earlier_ones(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most of two answers is read when twenty more share the link.

    Their last bytes arrive after the time limit of two.
    """
    monkeypatch.setattr(stall_timeout, "PACE_BYTES", 1 << 17)
    message = request(text_of(160), outputs=LARGE).SerializeToString()
    async with serve(stall_seconds=0.6) as service, closed_window(service.target) as client:
        for _ in range(2):
            client.ask("Encode", message)
        await until(lambda: len(service.servicer._replies._waiting) == 2 or client.hung_up.is_set())
        await take(client, 30_000, 5)
        for _ in range(20):
            client.ask("Encode", message)
        await take(client, 2_000, 28)
        await take(client, 10_000, 20)
        await service.in_flight.idle()
        assert not client.hung_up.is_set()
        assert handled(service, "Encode", "OK") == 22


async def test_a_stalled_reader_is_disconnected_though_more_answers_are_pending(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stall_timeout, "PACE_BYTES", 1 << 17)
    message = request(text_of(160), outputs=LARGE).SerializeToString()
    async with serve(stall_seconds=0.6) as service, closed_window(service.target) as client:
        begun = asyncio.get_running_loop().time()
        for _ in range(10):
            client.ask("Encode", message)
        await client.hung_up.wait()
        assert asyncio.get_running_loop().time() - begun < 0.6 * (1 + 10 * 200 / 131) / 2, (
            "all ten might take twice that"
        )
        await service.in_flight.idle()
        assert rejected(service, "stalled_reader") == 10


class Reader:
    """Call, as far as its answer is watched."""

    def __init__(self, peer: str) -> None:
        self.context = SimpleNamespace(peer=lambda: peer)
        self.acts = list[Callable[[], object]]()


async def test_each_answer_is_checked_at_its_own_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first has an hour once it was checked; the second starts after that."""
    looked = list[None]()

    def bytes_moved() -> dict[str, tuple[int, int]]:
        looked.append(None)
        return {}

    monkeypatch.setattr(peer_timeouts, "bytes_moved", bytes_moved)
    replies = Replies(0.1)
    replies.add(cast(Call, Reader("first")), 36_000 * stall_timeout.PACE_BYTES)
    await until(lambda: len(looked) == 1)
    replies.add(cast(Call, Reader("second")), 36_000 * stall_timeout.PACE_BYTES)
    await until(lambda: len(looked) == 2)
    assert [waited.moved for waited in replies._waiting.values()] == [0, 0], (
        "each was looked at once"
    )

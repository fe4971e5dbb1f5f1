"""A service that goes away for a while in the middle of a list, and comes back."""

from __future__ import annotations

import dataclasses
import threading

import grpc
import numpy as np
import pytest

from headlight import AsyncClient, Client, Unavailable
from headlight.channel import Retries
from headlight.pb import headlight_pb2 as pb
from tests.headlight.fake_server import FakeServicer, Refusal, default_limits

TEXTS = [f"text {number}" for number in range(24)]  # three requests of eight
AT_ONCE = (("grpc-retry-pushback-ms", "-1"),)  # gRPC is not to try again by itself


@dataclasses.dataclass
class Leaving(FakeServicer):
    """Serves requests that begin with certain texts; refuses so many of the others, then serves all."""

    serves: tuple[str, ...] = (TEXTS[0],)
    refuses: int = 0
    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    def serve(self, request: pb.EncodeRequest) -> pb.EncodeResponse:
        with self.lock:  # calls are served at once
            if self.refuses and request.inputs[0].text not in self.serves:
                self.refuses -= 1
                raise Refusal(grpc.StatusCode.UNAVAILABLE, "gone", AT_ONCE)
        return super().serve(request)


@pytest.fixture
def servicer() -> Leaving:
    return Leaving(default_limits())


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Told as 1 ns by `Retries.delay`; each was asked for."""
    found: list[float] = []

    def told(self: Retries, error: Exception) -> float:
        found.append(0.0)
        return 1e-9

    monkeypatch.setattr(Retries, "delay", told)
    return found


def test_what_was_answered_is_not_lost(target: str, servicer: Leaving, waits: list[float]) -> None:
    with Client(target, concurrency=1) as client:
        expected = client.encode(TEXTS)
        servicer.encoded.clear()
        servicer.refuses = 3
        np.testing.assert_array_equal(client.encode(TEXTS), expected)
    assert (len(servicer.encoded), len(waits)) == (3, 3)


async def test_nor_with_asyncio(target: str, servicer: Leaving, waits: list[float]) -> None:
    async with AsyncClient(target, concurrency=1) as client:
        expected = await client.encode(TEXTS)
        servicer.encoded.clear()
        servicer.refuses = 3
        np.testing.assert_array_equal(await client.encode(TEXTS), expected)
    assert (len(servicer.encoded), len(waits)) == (3, 3)


def test_all_that_were_on_their_way_are_sent_again(target: str, servicer: Leaving, waits: list[float]) -> None:
    with Client(target, concurrency=3) as client:
        expected = client.encode(TEXTS)
        servicer.encoded.clear()
        servicer.refuses = 6
        np.testing.assert_array_equal(client.encode(TEXTS), expected)
    assert len(servicer.encoded) == 3


async def test_who_has_no_answer_yet_is_told_at_once(target: str, servicer: Leaving, waits: list[float]) -> None:
    servicer.refuses = 2
    with Client(target) as client, pytest.raises(Unavailable, match="gone"):
        client.encode("text")
    async with AsyncClient(target) as aclient:
        with pytest.raises(Unavailable, match="gone"):
            await aclient.encode("text")
    assert waits == []

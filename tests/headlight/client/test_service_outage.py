"""An outage of the service in the middle of a list, and its recovery."""

from __future__ import annotations

import dataclasses
import threading

import grpc
import numpy as np
import pytest

from headlight import Client, Unavailable
from headlight.client.call_flow import Retries
from headlight.pb import headlight_pb2 as pb
from tests.headlight.conftest import Open
from tests.headlight.fake_server import FakeServicer, Refusal, default_limits, shed

TEXTS = [f"text {number}" for number in range(24)]  # three requests of eight texts
AT_ONCE = (("grpc-retry-pushback-ms", "-1"),)  # gRPC is not to try again by itself


@dataclasses.dataclass
class Leaving(FakeServicer):
    """Fake that serves requests that begin with certain texts.

    It refuses a number of the others, then serves all.
    """

    serves: tuple[str, ...] = (TEXTS[0],)
    refuses: int = 0
    asked: list[str] = dataclasses.field(default_factory=list)
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
    """Replace the delays of `Retries.delay` with 1 ns; return the requested ones."""
    found: list[float] = []

    def told(self: Retries, error: Exception) -> float:
        found.append(0.0)
        return 1e-9

    monkeypatch.setattr(Retries, "delay", told)
    return found


def test_received_answers_survive_an_outage(
    open_client: Open, servicer: Leaving, waits: list[float]
) -> None:
    client = open_client(concurrency=1)
    expected = client.encode(TEXTS)
    servicer.encoded.clear()
    servicer.refuses = 3
    np.testing.assert_array_equal(client.encode(TEXTS), expected)
    assert (len(servicer.encoded), len(waits)) == (3, 3)


def test_all_requests_in_flight_are_sent_again(
    target: str, servicer: Leaving, waits: list[float]
) -> None:
    with Client(target, concurrency=3) as client:
        expected = client.encode(TEXTS)
        servicer.encoded.clear()
        servicer.refuses = 6
        np.testing.assert_array_equal(client.encode(TEXTS), expected)
    assert len(servicer.encoded) == 3


def test_an_outage_before_the_first_answer_is_reported_at_once(
    either: Client, servicer: Leaving, waits: list[float]
) -> None:
    servicer.refuses = 1
    with pytest.raises(Unavailable, match="gone"):
        either.encode("text")
    assert waits == []


def test_a_shed_request_keeps_its_delay_during_an_outage(
    target: str, servicer: Leaving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second request is lost, the third shed for a minute.

    Neither is sent again before its own time.
    """
    first = threading.Event()
    waits: list[float] = []

    def serve(request: pb.EncodeRequest) -> pb.EncodeResponse:
        text = request.inputs[0].text
        servicer.asked.append(text)
        if text == TEXTS[16] and servicer.asked.count(text) == 1:
            first.set()
            raise shed(60_000)
        return Leaving.serve(servicer, request)

    def pause(seconds: float) -> None:
        if seconds:
            assert first.wait(30)
            waits.append(seconds)

    with Client(target, concurrency=3) as client:
        expected = client.encode(TEXTS)
        servicer.refuses, servicer.asked = 1, []
        monkeypatch.setattr(servicer, "serve", serve)
        monkeypatch.setattr(client, "_pause", pause)
        np.testing.assert_array_equal(client.encode(TEXTS), expected)
    assert [seconds >= 60 for seconds in waits] == [False, True]
    assert sorted(servicer.asked) == sorted([TEXTS[0], TEXTS[8], TEXTS[8], TEXTS[16], TEXTS[16]])

"""Interactive before bulk, in the real service with a real queue.

Measured by the order of answers.
"""

from __future__ import annotations

import contextlib
import functools
import queue
import threading
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from headlight import Client
from headlight.outputs.contract import numbers_of
from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from headlight.spec import Priority
from tests.system.conftest import bundle_of
from tests.system.processes import Service

REQUESTS, TEXTS = 120, 16  # of the flood; texts per request: a queue of seconds anywhere
TEXT = "def read(path): return json.loads(open(path).read()) "
SECONDS = 300  # for the flood to end
TRIES = 5  # floods, until this process kept up with one
ONE = pytest.mark.parametrize("service", ["1"], indirect=True)  # stream


@pytest.fixture(scope="module")
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    """Return a service of as many streams as a test is parametrised with."""
    with Service(bundle_of("docs-rope"), "--streams", request.param, "--threads", "1") as running:
        yield running


def message(place: int, count: int, priority: Priority) -> pb.EncodeRequest:
    inputs = [pb.Input(text=TEXT * (1 + (place + at) % 3)) for at in range(count)]
    return pb.EncodeRequest(inputs=inputs, priority=numbers_of("Priority")[priority])


def share_answered_before(service: Service, priority: Priority) -> float:
    """Return the share of waiting bulk requests answered before a single later request.

    If this process stood still and most of the flood passed meanwhile, that flood does not count,
    and another one is sent.
    """
    for _ in range(TRIES):
        if (share := of_one_flood(service, priority)) is not None:
            return share
    pytest.fail(f"{TRIES} floods went by before a single request could be sent behind them")


def of_one_flood(service: Service, priority: Priority) -> float | None:
    """Return the share for one flood; None if too little of it waited, or it cannot be measured."""
    with contextlib.ExitStack() as stack:
        flooding, asking = (
            stack.enter_context(
                grpc.insecure_channel(service.target, [("grpc.use_local_subchannel_pool", 1)])
            )
            for _ in range(2)
        )
        stub: Any = pb_grpc.HeadlightServiceStub(flooding)
        other: Any = pb_grpc.HeadlightServiceStub(asking)
        messages = [message(place, TEXTS, "bulk") for place in range(REQUESTS)]
        kinds = [
            other.Tokenize(pb.TokenizeRequest(inputs=messages[place].inputs)) for place in range(3)
        ]
        sizes = [sum(len(item.ids) for item in kind.items) for kind in kinds]
        expected = service.counted("headlight_tokens_total") + sum(
            sizes[at % 3] for at in range(REQUESTS)
        )
        # Recorded in order, whenever this thread runs.
        ended: queue.Queue[str] = queue.Queue()
        flood = [stub.Encode.future(each, timeout=SECONDS) for each in messages]
        for call in flood:
            call.add_done_callback(lambda _: ended.put("bulk"))
        # Two connections have no common order: before the last of the flood has arrived, a
        # single one might overtake it.
        while (
            service.counted("headlight_tokens_total") + service.counted("headlight_queue_tokens")
            < expected
        ):
            if ended.qsize() == REQUESTS:
                break
        done = ended.qsize()
        single = other.Encode.future(message(0, 1, priority), timeout=SECONDS)
        single.add_done_callback(lambda _: ended.put("single"))
        missed = ended.qsize() - done  # while it was sent
        for call in (*flood, single):
            call.result()  # none is refused, none lost
        before = [ended.get(timeout=SECONDS) for _ in range(REQUESTS + 1)].index("single")
    waiting = REQUESTS - done
    return (before - done) / waiting if waiting >= REQUESTS / 2 and missed <= waiting / 10 else None


@pytest.mark.parametrize("service", ["1", "2"], indirect=True)
def test_an_interactive_request_is_answered_before_most_earlier_bulk(
    service: Service,
) -> None:
    assert share_answered_before(service, "interactive") < 0.5


@ONE
def test_bulk_is_answered_after_earlier_bulk(service: Service) -> None:
    """For comparison: the wait that interactive requests avoid."""
    assert share_answered_before(service, "bulk") > 0.5


@ONE
def test_bulk_is_answered_under_continuous_interactive_load(service: Service) -> None:
    """The flood renews itself on gRPC's threads, so it goes on while this thread waits."""
    with contextlib.closing(grpc.insecure_channel(service.target)) as channel:
        stub: Any = pb_grpc.HeadlightServiceStub(channel)
        flood, over = set[Any](), threading.Event()

        def send(place: int) -> None:
            call = stub.Encode.future(message(place, TEXTS, "interactive"), timeout=SECONDS)
            flood.add(call)
            call.add_done_callback(functools.partial(renew, place))

        def renew(place: int, call: Any) -> None:
            flood.discard(call)
            if not over.is_set():
                send(place)

        for place in range(40):
            send(place)
        bulk = stub.Encode.future(message(1, 1, "bulk"), timeout=SECONDS)
        bulk.result()
        going_on = len(flood)
        over.set()
        for call in list(flood):
            call.cancel()
    assert going_on >= 20


@ONE
def test_vectors_do_not_depend_on_priority(service: Service) -> None:
    with Client(service.target) as client:
        one, other = (
            client.encode([TEXT], priority=priority) for priority in ("interactive", "bulk")
        )
    assert abs(one - other).max() <= 1e-6

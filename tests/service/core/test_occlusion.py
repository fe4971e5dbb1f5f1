"""Occlusion over a real socket.

Its limits, its reservations, and its behaviour beside other requests.
"""

from __future__ import annotations

import asyncio
import math
import time
import tracemalloc
from collections.abc import Sequence

import grpc
import numpy as np
import pytest

from headlight.errors import DeadlineExceeded, InvalidInput
from headlight.pb import headlight_pb2 as pb
from headlight.runtime.encode_items import EncodeItem, ItemResult
from headlight.runtime.values import Floats
from headlight_service.core.admission.admission_control import Admission
from headlight_service.core.admission.estimates import WaitEstimate
from headlight_service.core.admission.shed_error import Shed, Shortage
from headlight_service.core.requests.request import OcclusionRequest
from headlight_service.frontends.contract.answer_forms import OccludedForm
from headlight_service.frontends.contract.request_decoding import OCCLUSION, decode_occlude
from tests.service.calls import details_of, refused, request, text_of, until
from tests.service.conftest import Serve, Service
from tests.service.fakes import DIM, MAX_LENGTH, FakeEngine, FakeRuntime

EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED


def of(length: int) -> pb.OccludeRequest:
    return pb.OccludeRequest(input=text_of(length))


def admission_of(service: Service) -> Admission:
    return service.model.admission


def holes(engine: FakeEngine) -> list[int]:
    """Return the hidden tokens of all batches; -1: none."""
    return [token for batch in engine.batches for item in batch for token in item.occluded or (-1,)]


def naming(count: int) -> pb.OccludeRequest:
    """Return a request that names so many tokens, all the same."""
    return pb.OccludeRequest(
        input=text_of(3), tokens=pb.TokenSelector(indices=pb.TokenIndices(indices=[300] * count))
    )


@pytest.mark.parametrize(
    ("ids", "problem"),
    [
        (pb.TokenIds(ids=[1] * 20_000), f"input.ids: has 20000 ids; give 1 to {MAX_LENGTH}"),
        (
            pb.TokenIds(ids=[1], segments=[1] * 20_000),
            "input.ids.segments: has 20000 entries for 1 ids; give one of each, or none",
        ),
    ],
    ids=["ids", "segments"],
)
async def test_ids_longer_than_any_input_are_refused_uncopied(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, ids: pb.TokenIds, problem: str
) -> None:
    # It copies the ids.
    monkeypatch.setattr("headlight_service.frontends.contract.request_decoding.has_unknown", None)
    async with serve(max_request_tokens=10_000) as service:
        request = pb.OccludeRequest(input=pb.Input(ids=ids))
        error = await refused(service.stub.Occlude(request), grpc.StatusCode.INVALID_ARGUMENT)
    assert error.details() == problem


async def test_too_many_tokens_are_refused_by_their_number(service: Service) -> None:
    error = await refused(
        service.stub.Occlude(naming(MAX_LENGTH + 1)), grpc.StatusCode.INVALID_ARGUMENT
    )
    told = (
        f"tokens: has {MAX_LENGTH + 1} entries, and the model has at most {MAX_LENGTH}; "
        "name each once"
    )
    assert error.details() == told
    assert details_of(error)["BadRequest"].field_violations[0].field == "tokens"
    error = await refused(
        service.stub.Occlude(naming(MAX_LENGTH)), grpc.StatusCode.INVALID_ARGUMENT
    )
    assert "this input has 3" in (error.details() or "")


async def test_millions_of_tokens_are_refused_without_becoming_objects(service: Service) -> None:
    many, model = naming(1_000_000), service.model
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput):
            decode_occlude(many, model, math.inf, "")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


class Moving(FakeEngine):
    """Fake engine with vectors of some width that depend on the hidden token."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def vector(self, *hidden: int) -> Floats:
        return np.random.default_rng(1 + sum(hidden) if hidden else 0).standard_normal(
            self.width, np.float32
        )

    def run(self, items: Sequence[EncodeItem], *, wide: bool = False) -> list[ItemResult]:
        super().run(items, wide=wide)
        return [ItemResult(pooled=self.vector(*item.occluded)) for item in items]


async def test_distances_are_correct_while_few_vectors_are_held_at_once(
    serve: Serve,
) -> None:
    length, width = 50, 1 << 16
    runtime, vector_bytes = FakeRuntime(), 4 * width
    engine = runtime.engine = Moving(width)
    async with serve(runtime, max_request_tokens=MAX_LENGTH) as service:
        tracemalloc.start()
        try:
            answer = await service.stub.Occlude(of(length))
            assert tracemalloc.get_traced_memory()[1] < length // 2 * vector_bytes
        finally:
            tracemalloc.stop()
    vectors = [engine.vector(hidden) for hidden in answer.tokens]
    moved = np.linalg.norm(np.stack(vectors) - engine.vector(), axis=1)
    assert list(answer.tokens) == list(range(length))
    assert answer.moved.data == moved.astype("<f4").tobytes(), "to the bit"
    assert list(answer.moved.shape) == [length]


async def test_the_answer_is_reserved_before_anything_runs(service: Service) -> None:
    outputs = admission_of(service).outputs
    taken = outputs.free
    outputs.take(taken)
    error = await refused(service.stub.Occlude(of(5)), EXHAUSTED)
    outputs.take(-taken)
    assert details_of(error)["ErrorInfo"].reason == "OUTPUT_BYTES"
    assert (error.details() or "").startswith("input: the answer would have ")
    assert service.engine.batches == []
    call = await service.hold(service.stub.Occlude(of(5)))
    held = outputs.held
    service.engine.gate.set()
    assert held == (await call).ByteSize() + 4 * DIM, "the vector of the input, too"
    await service.in_flight.idle()
    assert outputs.held == 0


def fill(admission: Admission) -> int:
    """Fill the queue, and return the tokens to give back."""
    others = admission.tokens.free
    admission.tokens.take(others)
    return others


async def test_a_started_occlusion_waits_if_the_queue_is_full(service: Service) -> None:
    admission = admission_of(service)
    call = await service.hold(service.stub.Occlude(of(5)))
    others = fill(admission)
    service.engine.gate.set()
    await until(lambda: admission._waiting.count > 0)
    with admission.lock:
        admission.give_tokens(WaitEstimate(1), others, "interactive")
    assert list((await call).tokens) == [0, 1, 2, 3, 4]
    assert sorted(holes(service.engine)) == [-1, 0, 1, 2, 3, 4], "nothing was computed twice"


async def test_a_waiting_occlusion_ends_at_its_deadline(service: Service) -> None:
    admission = admission_of(service)
    service.engine.gate.clear()
    wanted = OcclusionRequest(["a b c d e"], OCCLUSION, deadline=time.monotonic() + 1)
    handle = service.pipeline.submit(wanted, OccludedForm())
    await service.started()
    others = admission.tokens.free
    admission.tokens.take(others)
    service.engine.gate.set()
    with pytest.raises(DeadlineExceeded):
        await asyncio.to_thread(handle.result)
    assert (admission.tokens.held, admission.outputs.held) == (others, 0)
    assert holes(service.engine) == [-1]


async def test_an_occlusion_that_has_not_started_is_shed(service: Service) -> None:
    others = fill(admission_of(service))
    error = await refused(service.stub.Occlude(of(5)), EXHAUSTED)
    admission_of(service).tokens.take(-others)
    assert details_of(error)["ErrorInfo"].reason == "QUEUE_TOKENS"
    assert service.engine.batches == []


async def test_the_whole_occlusion_is_checked_against_the_deadline_before_it_starts(
    single: Service,
) -> None:
    first = await single.hold(single.stub.Encode(request()))
    single.model.estimate.worked_off(tokens=1000, seconds=60.0)
    # A wave of it takes 2 minutes, it 10.
    error = await refused(single.stub.Occlude(of(100), timeout=300), EXHAUSTED)
    assert details_of(error)["ErrorInfo"].reason == "WAIT_BEYOND_DEADLINE"
    single.engine.gate.set()
    await first
    assert len(single.engine.batches) == 1


def test_only_a_far_too_long_occlusion_is_refused_on_an_idle_service() -> None:
    admission = Admission(max_tokens=10**6, max_request_bytes=0, max_output_bytes=0)
    estimate = WaitEstimate(1)
    admission.check_alone(estimate, 10**9, 0.1)  # nothing is known
    estimate.worked_off(tokens=100, seconds=1.0)
    admission.check_alone(estimate, 1999, 10.0)
    with pytest.raises(Shed) as error:
        admission.check_alone(estimate, 2001, 10.0)
    assert (error.value.shortage, error.value.retry_after_seconds) == (Shortage.DEADLINE, None)
    admission.check_alone(estimate, 10**9, math.inf)
    admission.check_alone(estimate, 10**9, -1.0)  # refused elsewhere: the deadline has passed

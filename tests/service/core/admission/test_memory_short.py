"""Short memory: the item is refused alone, without a retry delay, and the service continues."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import grpc
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headlight.errors import BundleError, EngineError, HostFull
from headlight.pb import headlight_pb2 as pb
from headlight.runtime.encode_items import EncodeItem, ItemResult
from headlight_service.app.assembly import fitting
from headlight_service.core.scheduler.running_batch import compute
from headlight_service.frontends.contract import answer_forms
from headlight_service.frontends.contract import answer_forms as framing
from headlight_service.frontends.grpc import encode_stream
from headlight_service.frontends.grpc.grpc_status import PUSHBACK
from tests.service.batching import Setup, running
from tests.service.calls import details_of, refused, request
from tests.service.conftest import Serve
from tests.service.fakes import FakeEngine, FakeRuntime, item, result

TOO_LARGE = 40
MESSAGE = "there is not enough memory for this request"


class Short(FakeEngine):
    """Fake engine without memory for a batch with TOO_LARGE tokens in one item,
    or for so many items.
    """

    most_items = 99

    def run(self, items: Sequence[EncodeItem], *, wide: bool = False) -> list[ItemResult]:
        if len(items) > self.most_items or max(len(each.ids) for each in items) >= TOO_LARGE:
            self.batches.append(list(items))
            self.started.release()
            assert self.gate.wait(30)
            raise HostFull from MemoryError("std::bad_alloc")
        return super().run(items, wide=wide)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=40), st.data())
def test_an_oversized_item_does_not_fail_its_batch_mates(
    sizes: list[int], data: st.DataObject
) -> None:
    engine, items = Short(), [item(size, first=place) for place, size in enumerate(sizes, 1)]
    place = data.draw(st.integers(0, len(items)))
    items.insert(place, item(TOO_LARGE))
    found = compute(engine.run, items)
    assert isinstance(found, list)
    assert [type(outcome) for outcome in found].count(HostFull) == 1
    for at, (each, outcome) in enumerate(zip(items, found, strict=True)):
        assert isinstance(outcome, HostFull if at == place else ItemResult)
        if isinstance(outcome, ItemResult):
            np.testing.assert_array_equal(outcome.pooled, result(each).pooled)
        else:
            assert (outcome.__cause__, outcome.__context__, outcome.__traceback__) == (
                None,
                None,
                None,
            ), "hold arrays"
    assert len(engine.batches) <= 1 + 2 * int(np.ceil(np.log2(len(items))))


def test_few_batches_are_retried_without_any_memory() -> None:
    engine = Short()
    engine.most_items = 0
    found = compute(engine.run, [item(2)] * 64)
    assert isinstance(found, list)
    assert [type(outcome) for outcome in found] == [HostFull] * 64
    assert len(engine.batches) == 3


async def test_short_memory_does_not_probe_or_fail_the_engine(setup: Setup) -> None:
    setup.engine.probe_fails = True
    for error in (HostFull(), MemoryError()):
        setup.engine.broken = error
        for _ in range(5):
            with pytest.raises(type(error)):
                await setup.submit(item(3))
    setup.engine.broken = None
    assert len((await setup.submit(item(3))).results) == 1
    assert setup.engine.probes == 0
    assert setup.held == (0, 0)


async def test_a_probe_without_memory_does_not_fail_the_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def probe(self: FakeEngine) -> None:
        raise MemoryError

    monkeypatch.setattr(FakeEngine, "probe", probe)
    async with running() as setup:
        setup.engine.fail()
        for _ in range(5):
            with pytest.raises(EngineError):
                await setup.submit(item(3))
        setup.engine.broken = None
        assert len((await setup.submit(item(3))).results) == 1


async def test_short_memory_is_reported_and_counted_and_batch_mates_are_answered(
    serve: Serve,
) -> None:
    runtime = FakeRuntime()
    runtime.engine = Short()
    async with serve(runtime) as service:
        runtime.engine.gate.clear()
        small = [
            asyncio.ensure_future(service.stub.Encode(request(pb.Input(text="a b"))))
            for _ in range(6)
        ]
        large = service.stub.Encode(request(pb.Input(text=" ".join("a" * TOO_LARGE))))
        runtime.engine.gate.set()
        error = await refused(large, grpc.StatusCode.RESOURCE_EXHAUSTED)
        metadata: Any = error.trailing_metadata()
        assert (error.details() or "").startswith(MESSAGE)
        assert PUSHBACK not in dict(metadata)
        assert details_of(error)["ErrorInfo"].reason == "MEMORY"
        assert "RetryInfo" not in details_of(error)
        assert len({(await each).pooled[0].data for each in small}) == 1
        assert service.metric("headlight_rejected_total", reason="memory") == 1
        assert service.metric("headlight_rejected_total", reason="internal") == 0


async def test_short_memory_while_encoding_an_answer_is_resource_exhausted(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(*_: Any) -> None:
        raise MemoryError("of 3 GiB for /secret")

    async with serve(FakeRuntime()) as service:
        with monkeypatch.context() as patch:
            patch.setattr(answer_forms, "fill", fill)
            error = await refused(
                service.stub.Encode(request()), grpc.StatusCode.RESOURCE_EXHAUSTED
            )
        assert (error.details() or "").startswith(MESSAGE)
        assert "secret" not in (error.details() or "")
        metadata: Any = error.trailing_metadata()
        assert PUSHBACK not in dict(metadata)
        await service.stub.Encode(request())
        assert service.metric("headlight_rejected_total", reason="memory") == 1


async def test_a_request_of_a_stream_fails_alone(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = framing.frames

    def frames(request_id: str, *rest: Any) -> Iterator[pb.EncodeStreamResponse]:
        yield from () if request_id == "2" else whole(request_id, *rest)
        if request_id == "2":
            raise MemoryError

    monkeypatch.setattr(encode_stream, "frames", frames)
    async with serve(FakeRuntime()) as service:
        asked = [pb.EncodeStreamRequest(id=str(at), encode=request()) for at in range(4)]
        answers = {answer.id: answer async for answer in service.stub.EncodeStream(iter(asked))}
    kinds = {name: answer.WhichOneof("frame") for name, answer in answers.items()}
    assert kinds == {"0": "response", "1": "response", "2": "error", "3": "response"}
    error = answers["2"].error
    assert (error.code, error.reason, error.HasField("retry_after_ms")) == (8, "MEMORY", False)


def test_too_little_memory_for_warm_up_ends_the_start_with_the_remedy() -> None:
    for error in (HostFull(), MemoryError()):
        with (
            pytest.raises(
                BundleError, match=r"memory is too small for the first batches; allow .*warm-up"
            ),
            fitting(),
        ):
            raise error

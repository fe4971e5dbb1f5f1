"""Items with non-finite results: they fail alone and do not affect others."""

from __future__ import annotations

import asyncio

import grpc
import numpy as np
import pytest

from headlight.errors import DeviceFull, EngineError, NotFinite
from headlight.pb import headlight_pb2 as pb
from headlight.runtime.encode_items import ItemResult
from headlight_service.core.scheduler.engine_health import FAILURES_BEFORE_PROBE
from headlight_service.core.scheduler.running_batch import compute
from tests.service.batching import Setup, lengths, running
from tests.service.conftest import Serve
from tests.service.fakes import NO_NUMBER, FakeEngine, FakeRuntime, item, result

BAD = 66


async def test_an_overflowing_item_fails_alone_and_batch_mates_are_answered() -> None:
    async with running() as setup:
        setup.engine.overflows = BAD
        first = await setup.hold(item(4))
        bad = asyncio.create_task(setup.submit(item(4, first=BAD), item(4, first=5)))
        good = asyncio.create_task(setup.submit(item(4, first=2), item(4, first=3)))
        await asyncio.sleep(0)
        setup.engine.gate.set()
        await first
        with pytest.raises(EngineError) as caught:
            await bad
        error = caught.value
        assert isinstance(error, NotFinite)
        assert (error.message, error.results) == (NO_NUMBER, ()), "and no results of others"
        for number, got in zip((2, 3), (await good).results, strict=True):
            np.testing.assert_array_equal(got.pooled, result(item(4, first=number)).pooled)
        assert lengths(setup.engine) == [[4], [4, 4, 4, 4]]
        assert setup.held == (0, 0)
        assert setup.lost == []
    assert len(setup.reports) == 1, "what ran for nothing says nothing of the rate"


async def test_batches_of_only_overflowing_items_trigger_the_probe(setup: Setup) -> None:
    setup.engine.overflows = BAD
    for turn in range(FAILURES_BEFORE_PROBE):
        assert setup.engine.probes == 0, turn
        with pytest.raises(EngineError):
            await setup.submit(item(1, first=BAD))
    await setup.submit(item(1))
    assert setup.engine.probes == 1


def test_overflow_is_assigned_to_items_within_half_batches() -> None:
    engine = FakeEngine()
    engine.most_tokens, engine.overflows = 4, BAD
    items = [item(2, first=2), item(2, first=BAD), item(2), item(3)]
    found = compute(engine.run, items)
    assert isinstance(found, list)
    good, bad, *full = found
    assert isinstance(good, ItemResult)
    np.testing.assert_array_equal(good.pooled, result(items[0]).pooled)
    assert isinstance(bad, NotFinite)
    assert bad.results == ()
    assert [type(each) for each in full] == [DeviceFull] * 2


async def test_overflow_is_internal_with_the_error_id_of_the_log(serve: Serve) -> None:
    runtime = FakeRuntime()
    runtime.engine.overflows = 3  # letters
    async with serve(runtime) as service:
        for _ in range(2):
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await service.stub.Encode(pb.EncodeRequest(inputs=[pb.Input(text="abc")]))
            assert (error.value.code(), error.value.details()) == (
                grpc.StatusCode.INTERNAL,
                NO_NUMBER,
            )
            await service.stub.Encode(pb.EncodeRequest(inputs=[pb.Input(text="ab")]))

"""Full GPU memory, and loss of a GPU.

The answered and refused requests, and the end of the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from hypothesis import given
from hypothesis import strategies as st

from headlight.errors import BundleError, DeviceFull, DeviceLost, EngineError, Unavailable
from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from headlight.runtime.encode_items import EncodeItem, ItemResult
from headlight_service.app import assembly, model_versions
from headlight_service.app import lifecycle as server_module
from headlight_service.app.health import SERVICE
from headlight_service.app.lifecycle import EXIT_BUNDLE, EXIT_FAILED, Server
from headlight_service.config.option_types import Address
from headlight_service.config.options import Config
from headlight_service.core.scheduler.engine_health import EngineLost
from headlight_service.core.scheduler.pending_requests import Computed
from headlight_service.core.scheduler.running_batch import compute
from tests.ports import free_port
from tests.service.batching import Setup, lengths, running
from tests.service.calls import details_of, until
from tests.service.conftest import Serve
from tests.service.fakes import FULL, FakeEngine, FakeRuntime, item, result

ANY = Address("127.0.0.1", 0)
LOST = "the GPU failed; see error id 123 in the server's log"


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 60))
def test_each_item_of_a_batch_has_its_own_result_or_is_refused(sizes: list[int], most: int) -> None:
    engine = FakeEngine()
    engine.most_tokens = most
    items = [item(size, first=place) for place, size in enumerate(sizes, 1)]
    found = compute(engine.run, items)
    assert isinstance(found, list)
    assert len(found) == len(items)
    for each, outcome in zip(items, found, strict=True):
        if isinstance(outcome, DeviceFull):
            assert len(items) * max(sizes) > most
        else:
            assert isinstance(outcome, ItemResult)
            np.testing.assert_array_equal(outcome.pooled, result(each).pooled)
    assert len(engine.batches) in (
        (1,) if len(items) == 1 or len(items) * max(sizes) <= most else (3,)
    )
    middle = len(items) // 2
    for half in (slice(middle), slice(middle, None)) if len(items) > 1 else ():
        refused = {isinstance(outcome, DeviceFull) for outcome in found[half]}
        assert refused == {len(items[half]) * max(sizes[half]) > most}, (
            "halves are tried once, and are not divided again"
        )


def test_other_errors_in_a_half_batch_are_reported() -> None:
    engine = FakeEngine()
    engine.most_tokens, engine.poison = 4, 66
    found = compute(engine.run, [item(2), item(2), item(2, first=66), item(2)])
    assert isinstance(found, EngineError)


async def behind(
    setup: Setup, first: EncodeItem, *calls: Sequence[EncodeItem]
) -> list[asyncio.Task[Computed]]:
    """Submit calls while the engine is busy with another, so that they become one batch."""
    busy = await setup.hold(first)
    tasks = [asyncio.create_task(setup.submit(*each)) for each in calls]
    await asyncio.sleep(0)
    setup.engine.gate.set()
    await busy
    return tasks


async def test_a_batch_beyond_device_memory_is_halved_and_answered(setup: Setup) -> None:
    setup.engine.most_tokens = 8
    items = [item(4, first=place) for place in range(2, 6)]
    tasks = await behind(setup, item(4), *([each] for each in items))
    for each, answer in zip(items, await asyncio.gather(*tasks), strict=True):
        np.testing.assert_array_equal(answer.results[0].pooled, result(each).pooled)
    assert lengths(setup.engine) == [[4], [4, 4, 4, 4], [4, 4], [4, 4]]
    assert setup.held == (0, 0)
    assert setup.engine.probes == 0


async def test_items_of_a_half_beyond_device_memory_are_refused_and_the_service_continues() -> None:
    async with running() as setup:
        setup.engine.most_tokens = 10
        large, small = await behind(setup, item(1), [item(12), item(12)], [item(2), item(2)])
        with pytest.raises(DeviceFull):
            await large
        assert len((await small).results) == 2
        assert len((await setup.submit(item(3))).results) == 1
        assert setup.held == (0, 0)
        assert setup.lost == []
    assert [report.tokens for report in setup.reports] == [1, 3], (
        "what ran in halves says nothing of the rate"
    )


async def test_an_item_beyond_device_memory_is_refused_every_time(setup: Setup) -> None:
    setup.engine.most_tokens = 10
    for _ in range(5):
        with pytest.raises(DeviceFull):
            await setup.submit(item(11))
    await setup.submit(item(2))
    assert setup.engine.probes == 5, "nothing came of it: it might have been the device"


async def test_full_device_memory_during_the_probe_does_not_lose_the_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def probe(self: FakeEngine) -> None:
        raise DeviceFull(FULL)

    monkeypatch.setattr(FakeEngine, "probe", probe)
    async with running() as setup:
        setup.engine.most_tokens = 10
        with pytest.raises(DeviceFull):
            await setup.submit(item(11))
        await setup.submit(item(2))


async def test_a_failing_device_that_reports_full_memory_is_detected_at_once(setup: Setup) -> None:
    """ONNX Runtime's arena reports every allocation failure as full memory."""
    setup.engine.most_tokens, setup.engine.probe_fails = 0, True
    with pytest.raises(DeviceFull):
        await setup.submit(item(1))
    await until(lambda: len(setup.lost) > 0)
    with pytest.raises(Unavailable):
        await setup.submit(item(1))


async def test_full_device_memory_is_reported_and_counted_over_the_wire(serve: Serve) -> None:
    runtime = FakeRuntime()
    runtime.engine.most_tokens = 2
    async with serve(runtime) as service:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await service.stub.Encode(pb.EncodeRequest(inputs=[pb.Input(text="a b c d")]))
        assert (error.value.code(), error.value.details()) == (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            FULL,
        )
        assert details_of(error.value)["ErrorInfo"].reason == "DEVICE_MEMORY"
        assert service.metric("headlight_rejected_total", reason="device_memory") == 1


async def test_a_lost_device_ends_the_scheduler_at_its_first_failure(setup: Setup) -> None:
    setup.engine.broken = DeviceLost(LOST)
    first = await setup.hold(item(4))
    waiting = asyncio.create_task(setup.submit(item(4)))
    await asyncio.sleep(0)
    setup.engine.gate.set()
    with pytest.raises(DeviceLost):
        await first
    with pytest.raises(Unavailable):
        await waiting
    await until(lambda: len(setup.lost) > 0)
    [error] = setup.lost
    assert isinstance(error, EngineLost)
    assert setup.engine.probes == 0, "it would have to be asked for that"
    assert len(setup.engine.batches) == 1


async def test_results_after_device_loss_are_discarded() -> None:
    async with running(slots=2, tokens=8) as setup:
        beside = await setup.hold(item(4))
        setup.scheduler._health.lost = EngineLost("another batch's failure, seen just before")
        setup.engine.gate.set()
        with pytest.raises(Unavailable):
            await beside
        with pytest.raises(Unavailable):
            await setup.submit(item(4))
    assert len(setup.engine.batches) == 1


@pytest.mark.usefixtures("steady")
async def test_device_loss_ends_the_process_within_two_seconds_without_further_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runtime = FakeRuntime()
    monkeypatch.setattr(model_versions, "load", lambda config, steps: runtime)
    address = Address("127.0.0.1", free_port())
    server = Server(Config(bundle=Path("none"), grpc=address, metrics=ANY, warm_up_lengths=(3,)))
    flushed: list[float] = []

    async def flush(seconds: float) -> None:  # to a collector that does not answer
        flushed.append(seconds)
        await asyncio.sleep(seconds)

    monkeypatch.setattr(server, "_flush", flush)
    life = asyncio.create_task(server.serve())
    async with asyncio.timeout(30):
        while not server._readiness.serving:
            await asyncio.sleep(0)
    async with grpc.aio.insecure_channel(str(address)) as channel:
        stub, health = pb_grpc.HeadlightServiceStub(channel), health_pb2_grpc.HealthStub(channel)
        request = pb.EncodeRequest(inputs=[pb.Input(text="a")])
        await stub.Encode(request)
        watch = health.Watch(health_pb2.HealthCheckRequest(service=SERVICE))
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        # Start reading now: unread data is lost when the process ends.
        told = asyncio.ensure_future(watch.read())
        runtime.engine.broken, began = DeviceLost(LOST), asyncio.get_running_loop().time()
        with pytest.raises(grpc.aio.AioRpcError):
            await stub.Encode(request)
        runtime.engine.broken = None
        # It may still have been admitted, but it is not answered.
        with pytest.raises(grpc.aio.AioRpcError):
            await stub.Encode(request, timeout=5)
        assert (await told).status == health_pb2.HealthCheckResponse.NOT_SERVING
        watch.cancel()
        assert await life == EXIT_FAILED
        assert asyncio.get_running_loop().time() - began < 2
    assert len(runtime.engine.batches) == 2
    assert flushed == [server_module.LOST_FLUSH_SECONDS]


async def test_a_device_too_small_for_warm_up_ends_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runtime = FakeRuntime()

    def full(lengths: object) -> None:
        raise DeviceFull(FULL)

    monkeypatch.setattr(runtime, "warm_up", full)
    monkeypatch.setattr(model_versions, "load", lambda config, steps: runtime)
    assert await Server(Config(bundle=Path("none"), grpc=ANY, metrics=ANY)).serve() == EXIT_BUNDLE
    with pytest.raises(BundleError, match="raise --gpu-memory-bytes"), assembly.fitting():
        full(())

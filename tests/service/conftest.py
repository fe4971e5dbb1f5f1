"""A whole service in this process.

Real sockets and a real client around a runtime without a model.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from google.protobuf.descriptor import FileDescriptor

from headlight.pb import headlight_pb2_grpc as pb_grpc
from headlight.runtime import Runtime
from headlight.runtime.engine.batches import BATCH_TOKENS, Rounding
from headlight.runtime.providers.worker_layout import Workers
from headlight_service.app.assembly import assemble
from headlight_service.app.executor import Executor
from headlight_service.app.health import Readiness
from headlight_service.app.listen_addresses import bind
from headlight_service.app.server_setup import Servicers, build_server
from headlight_service.config.option_types import Address
from headlight_service.config.options import Config
from headlight_service.core.admission.rate_limit import Quotas
from headlight_service.core.models import Models, ServedModel
from headlight_service.core.pipeline import Pipeline
from headlight_service.core.tokenizer_threads import TokenizerThreads
from headlight_service.frontends.grpc.in_flight_calls import InFlight
from headlight_service.frontends.grpc.servicer import HeadlightServicer
from headlight_service.frontends.grpc.tei.tei_servicer import TeiServicer
from headlight_service.frontends.grpc.transport.grpc_server import GrpcServer
from headlight_service.frontends.oip.inference_servicer import InferenceServicer
from headlight_service.frontends.tei.service_info import unserved
from headlight_service.security.authentication import Authenticator
from headlight_service.telemetry.metrics import Metrics
from tests.service.batching import Setup, running
from tests.service.calls import NARROW
from tests.service.core.pipelines import Core, core
from tests.service.fakes import FakeEngine, FakeRuntime, fit
from tests.service.steady import steady
from tests.service.tracing import RecordedSpans

__all__ = ["steady"]  # a fixture


@dataclasses.dataclass
class Service:
    """Running service, with the parts that tests inspect."""

    target: str
    channel: grpc.aio.Channel
    stub: Any
    engine: FakeEngine
    metrics: Metrics
    readiness: Readiness
    in_flight: InFlight
    servicer: HeadlightServicer
    public: Mapping[FileDescriptor, InferenceServicer | TeiServicer]
    pipeline: Pipeline
    server: GrpcServer
    servicers: Servicers

    @property
    def model(self) -> ServedModel:
        """Return the default model."""
        return self.pipeline.models.get()

    def sample(self, name: str, **labels: str) -> float | None:
        """Return the value of a metric."""
        return self.metrics.registry.get_sample_value(name, labels)

    def metric(self, name: str, **labels: str) -> float | None:
        """Return the value of a metric of the model."""
        return self.sample(name, model="fake", **labels)

    async def started(self) -> None:
        """Wait until the engine has begun one more batch."""
        assert await asyncio.to_thread(self.engine.started.acquire, True, 30)

    async def hold(self, call: Any) -> Any:
        """Hold the engine in the batch of a call that just started, until the gate is set."""
        self.engine.gate.clear()
        await self.started()
        return call


Serve = Callable[..., AbstractAsyncContextManager[Service]]


@contextlib.asynccontextmanager
async def serving(
    runtime: FakeRuntime | None = None,
    *,
    loaded: bool = True,
    authenticator: Authenticator | None = None,
    quotas: Quotas | None = None,
    tracing: Any = None,
    **options: Any,
) -> AsyncIterator[Service]:
    config = Config(bundle=Path("none"), grpc=Address("127.0.0.1", 0), **options)
    runtime = runtime or FakeRuntime()
    if isinstance(runtime, FakeRuntime):  # a test may bring a real one
        runtime.workers = Workers(config.streams or runtime.workers.streams)
        most = runtime.bundle.manifest.max_length
        runtime.engine.rounding = Rounding(config.round_lengths or 1, most)
        runtime.engine.batch_tokens = config.batch_tokens or BATCH_TOKENS
    metrics, in_flight, models = Metrics(), InFlight(), Models()
    readiness = Readiness(functools.partial(unserved, models), models.serves)
    tokenizers = TokenizerThreads(1)
    pipeline = Pipeline(models, tokenizers, quotas)
    servicers = Servicers(pipeline, config.stall_seconds, readiness)
    server = build_server(
        config, servicers, readiness, metrics, in_flight, lambda *_: None, authenticator, tracing
    )
    port = bind(server, config.grpc)
    await server.start()
    readiness.set(serving=loaded)
    ready = cast(Runtime, fit(runtime, config))
    executor = Executor(config, ready.workers.streams)
    model = assemble(ready, config, metrics, executor, tracing)
    if loaded:
        models.add(model)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=NARROW) as channel:
        stub = pb_grpc.HeadlightServiceStub(channel)
        yield Service(
            f"127.0.0.1:{port}",
            channel,
            stub,
            runtime.engine,
            metrics,
            readiness,
            in_flight,
            servicers.headlight,
            servicers.public,
            pipeline,
            server,
            servicers,
        )
    if isinstance(runtime, FakeRuntime):
        runtime.engine.gate.set()
    await server.stop(None)
    model.scheduler.close()
    pipeline.close()


@pytest.fixture
def serve() -> Serve:
    """Return a function: serve(runtime, **options of Config) -> a running service.

    An async context manager.
    """
    return serving


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    """Return a service without options."""
    async with serving() as service:
        yield service


@pytest.fixture
async def single() -> AsyncIterator[Service]:
    """Return a service with one execution slot."""
    async with serving(streams=1) as service:
        yield service


@pytest.fixture
async def setup() -> AsyncIterator[Setup]:
    """Return a scheduler with one slot over a fake engine."""
    async with running() as setup:
        yield setup


@pytest.fixture
async def narrow() -> AsyncIterator[Setup]:
    """Return a scheduler whose batches have at most 4 tokens."""
    async with running(tokens=4) as setup:
        yield setup


@pytest.fixture
def made() -> Iterator[Core]:
    """Return a pipeline without a frontend."""
    with core() as made:
        yield made


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> RecordedSpans:
    """Return spans of a service that gets `tracing=recorded.tracing`,
    whatever tracing variables the environment has.
    """
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    return RecordedSpans()

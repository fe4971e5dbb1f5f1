"""The life of the process: listen, load, serve, drain, end. Answers with an exit code."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NoReturn

import grpc

from headlight.errors import BundleError
from headlight.runtime import Runtime
from headlight_service.app.allocator import trim
from headlight_service.app.assembly import assemble, fitting, load
from headlight_service.app.health import Readiness
from headlight_service.app.listen_addresses import PortTaken, Reserved, bind, refused
from headlight_service.app.liveness import Liveness, start
from headlight_service.app.operational_http import Router, routes, serve_http
from headlight_service.app.server_setup import GRPC, build_health_server, build_server
from headlight_service.config.command_line import ConfigError
from headlight_service.config.options import Config
from headlight_service.core.admission.rate_limit import quotas_of
from headlight_service.core.admission.working_memory import memory_limit, warn_if_short
from headlight_service.core.models import Models
from headlight_service.core.pipeline import Pipeline
from headlight_service.core.scheduler.engine_health import EngineLost
from headlight_service.core.scheduler.scheduler import Scheduler
from headlight_service.core.tokenizer_threads import TokenizerThreads
from headlight_service.core.worker_threads import stand_behind
from headlight_service.frontends.grpc.in_flight_calls import InFlight
from headlight_service.frontends.grpc.servicer import HeadlightServicer
from headlight_service.frontends.grpc.transport.grpc_server import GrpcServer
from headlight_service.security.access_policy import security_of
from headlight_service.telemetry.json_logs import describe
from headlight_service.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from headlight_service.telemetry.otlp import Tracing

log = logging.getLogger("headlight_service.app.lifecycle")

EXIT_OK = 0
EXIT_FAILED = 1  # cannot listen, died, or did not drain in time
EXIT_CONFIG = 2
EXIT_BUNDLE = 3
TOKENIZER_THREADS = 2  # tokenising is some 50 µs a text; more threads would only fight the engine for cores
# Calls that wait inside gRPC when it is told to stop end as CANCELLED, which few clients retry. For so long we let them in
# instead and no further, and a little longer where more keep coming: until there is a pause. They are refused, as UNAVAILABLE, when
# clients have been told to go elsewhere.
REFUSE_SECONDS = 0.1
PAUSE_SECONDS, PAUSE_LIMIT = 0.06, 0.4
TOLD_SECONDS = 0.02  # for gRPC to tell them
LOST_FLUSH_SECONDS = 0.5  # where an engine is lost: whoever waits for the process to end should not wait long
FLUSH_SECONDS = 2.0  # at most, of what is left of the grace time, for the last spans to reach their collector


class Server:
    """Everything that lives as long as the process."""

    def __init__(self, config: Config, tracing: Tracing | None = None) -> None:
        """Nothing listens before `serve`; to be made within a running event loop."""
        self._config = config
        self._tracing = tracing
        self._metrics = Metrics()
        self._readiness = Readiness()
        self._liveness = Liveness(config.stuck_seconds)
        self._metrics.ready.set_function(lambda: self._readiness.serving)
        self._metrics.stuck.set_function(lambda: self._liveness.stuck)
        self._in_flight = InFlight()
        self._models = Models()
        self._tokenizers = TokenizerThreads(TOKENIZER_THREADS)
        pipeline = Pipeline(self._models, self._tokenizers, quotas_of(config))
        self._servicer = HeadlightServicer(pipeline, config.stall_seconds)
        self._grpc: GrpcServer  # from `_listen` on
        self._lost: asyncio.Future[EngineLost | None] = asyncio.get_running_loop().create_future()
        self._reserved: Reserved | None = None
        self._probes = build_health_server(self._readiness)
        # The library reads it at each batch. Requests are tokenised side by side already: more threads for one were no faster on two
        # cores, and took 15 to 45 % more CPU.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        self._liveness.add("tokenizer", lambda: self._tokenizers.heart.still_seconds)
        self._stop = asyncio.Event()

    async def serve(self) -> int:
        """Live; returns the exit code."""
        self._handle_signals()
        watching = start(self._liveness, self._readiness.set_stuck)
        try:
            return await self._live()
        finally:
            watching.cancel()
            if self._reserved is not None:
                self._reserved.give_up()
            await self._probes.stop(None)  # the last to go: until here it tells that nothing is served

    async def _live(self) -> int:
        try:
            credentials = await self._listen()
            runtime = await self._load()
        except (PortTaken, OSError, ConfigError) as error:
            return told(error)
        except BundleError as error:
            log.critical(error.message, extra={"event": "bundle_refused", "file": error.file})
            return EXIT_BUNDLE
        if runtime is None:
            log.info("stopped while loading", extra={"event": "stopped"})
            return EXIT_OK
        loop = asyncio.get_running_loop()

        def on_lost(error: EngineLost) -> None:
            loop.call_soon_threadsafe(self._lose, error)

        model = assemble(runtime, self._config, self._metrics, self._tracing, on_lost)
        self._liveness.add("batches", lambda: model.scheduler.heart.still_seconds)
        self._models.add(model)
        try:
            await self._open(credentials)
        except (
            PortTaken,
            ConfigError,
        ) as error:  # meanwhile, by another who had only reserved it; a name that is no longer found
            return told(error)
        ref = model.ref
        about = {"model_name": ref.name, "version": ref.version, "sha256": ref.bundle_sha256}
        log.info("serving", extra={"event": "serving", "provider": ref.provider, "precision": ref.precision, **about})
        return await self._until_stopped(model.scheduler)

    def _handle_signals(self) -> None:
        def on_signal() -> None:
            if self._stop.is_set():
                log.critical("second signal; ending at once", extra={"event": "killed"})
                end_at_once(EXIT_FAILED)
            self._stop.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, on_signal)

    async def _listen(self) -> grpc.ServerCredentials | None:
        """Take the ports. From here on probes are answered: alive, not ready. Returns how gRPC is to be spoken."""
        config = self._config
        security = security_of(config, self._metrics)
        self._grpc = build_server(
            config, self._servicer, self._readiness, self._metrics, self._in_flight, security.gate, self._tracing
        )
        self._reserved = Reserved(config.grpc)
        serving, stuck = lambda: self._readiness.serving, lambda: self._liveness.stuck
        router = Router(routes(self._metrics.exposition, serving, stuck))
        try:
            http = serve_http(self._config.http, router)
        except OSError as error:
            raise refused("--http", config.http, error) from None
        ports = {"grpc_port": self._reserved.address.port, "http_port": http.server_port}
        if config.health is not None:
            ports["health_port"] = bind(self._probes, config.health, option="--health")
            await self._probes.start(self)
        log.info("listening; to gRPC once the model is loaded", extra={"event": "listening", **ports})
        return security.credentials

    async def _open(self, credentials: grpc.ServerCredentials | None) -> None:
        """Let callers in.

        Raises:
            PortTaken, ConfigError: see `Reserved`.
        """
        assert self._reserved is not None  # since `_listen`
        self._reserved.bind(self._grpc, credentials)
        await self._grpc.start(self)
        self._readiness.set(serving=True)

    async def _load(self) -> Runtime | None:
        """The runtime, checked and warm; None where a signal came first."""
        loader = ThreadPoolExecutor(1, thread_name_prefix="load")
        loading = asyncio.ensure_future(asyncio.get_running_loop().run_in_executor(loader, self._load_now))
        stopped = asyncio.create_task(self._stop.wait())
        await asyncio.wait((loading, stopped), return_when=asyncio.FIRST_COMPLETED)
        if not loading.done():
            return None
        stopped.cancel()
        loader.shutdown()
        return loading.result()

    def _load_now(self) -> Runtime:
        stand_behind()  # the threads that the libraries start, too
        runtime = load(self._config)
        with fitting():
            runtime.warm_up(self._config.warm_up_lengths)
        # What is here now stays: looking through it for garbage would stop everything for 20 ms, now and then.
        gc.collect()
        gc.freeze()
        trim()
        warn_if_short(runtime, memory_limit())
        return runtime

    async def _until_stopped(self, scheduler: Scheduler) -> int:
        stopped = asyncio.create_task(self._stop.wait())
        ending: set[asyncio.Future[Any]] = {stopped, self._lost}
        await asyncio.wait(ending, return_when=asyncio.FIRST_COMPLETED)
        if self._lost.done():
            tell_lost(self._lost.result())
            self._readiness.set(serving=False)
            await asyncio.sleep(TOLD_SECONDS)  # or who watches our health hears nothing but that the connection ends
            await self._grpc.stop(None)
            await self._flush(LOST_FLUSH_SECONDS)
            return EXIT_FAILED
        left = await self._drain()
        if self._lost.done():  # callers that waited for it have been told
            tell_lost(self._lost.result())
            return EXIT_FAILED
        scheduler.close()
        self._tokenizers.close()
        if left:
            log.critical("calls outlasted the grace time", extra={"event": "grace_exceeded", "calls": left})
            return EXIT_FAILED
        log.info("stopped", extra={"event": "stopped"})
        return EXIT_OK

    def _lose(self, error: EngineLost | None) -> None:
        if not self._lost.done():
            self._lost.set_result(error)

    def lost(self, name: str) -> None:
        """A gRPC server ended by itself: health fails until another takes its place."""
        self._metrics.grpc_restarts.inc()
        if name == GRPC:
            self._readiness.set_lost(True)

    def restored(self, name: str) -> None:
        """Another took its place."""
        if name == GRPC:
            self._readiness.set_lost(False)

    def given_up(self, name: str) -> None:
        """It ended too often: so does the process."""
        self._lose(None)

    async def _drain(self) -> int:
        """Stop taking calls and finish those in flight; returns how many outlasted the grace time."""
        log.info("draining", extra={"event": "draining", "calls": self._in_flight.count})
        self._readiness.set(serving=False)
        await asyncio.sleep(self._config.drain_delay_seconds)
        self._in_flight.closed = True
        self._servicer.drain()
        await asyncio.sleep(REFUSE_SECONDS)
        await self._in_flight.quiet(PAUSE_SECONDS, PAUSE_LIMIT)
        # Twice the grace: what ends it is the wait below, or the second stop.
        stopping = asyncio.create_task(self._grpc.stop(2 * self._config.grace_seconds + 1))
        await asyncio.sleep(TOLD_SECONDS)
        self._in_flight.told.set()
        last = time.monotonic() + self._config.grace_seconds
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._config.grace_seconds):
                await self._in_flight.idle()
        left = self._in_flight.count
        # Calls that have come, and their message not yet, are refused within this time; to stop at once would break them off.
        await asyncio.wait([stopping], timeout=REFUSE_SECONDS)
        await self._grpc.stop(None)  # ends watches of our health, which last as long as their clients like
        await stopping
        await self._flush(min(FLUSH_SECONDS, last - time.monotonic()))
        return left

    async def _flush(self, seconds: float) -> None:
        if self._tracing is not None:
            await self._tracing.close(max(0.0, seconds))


def told(error: Exception) -> int:
    """Log why there will be no service. Returns the exit code."""
    wrong = isinstance(error, ConfigError)
    log.critical(str(error), extra={"event": "bad_option" if wrong else "cannot_listen"})
    return EXIT_CONFIG if wrong else EXIT_FAILED


def tell_lost(error: EngineLost | None) -> None:
    """Log why no batch will run any more; None: the gRPC server ended, which is logged already."""
    if error is not None:
        log.critical("the scheduler ended", extra={"event": "batcher_died", **describe(error)})


def end_at_once(code: int) -> NoReturn:
    """End the process without waiting for threads that may never return."""
    logging.shutdown()
    os._exit(code)

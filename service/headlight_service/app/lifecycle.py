"""Lifecycle of the process: listen, load, serve, drain, end. Returns an exit code."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from headlight.description import worst_pooled
from headlight.errors import BundleError, Unavailable
from headlight_service.app.admin_servicer import AdminServicer
from headlight_service.app.executor import Executor
from headlight_service.app.health import Readiness
from headlight_service.app.listen_addresses import PortTaken, bind, taken
from headlight_service.app.liveness import Liveness
from headlight_service.app.model_loader import ModelLoader
from headlight_service.app.model_preparation import ExportFailed
from headlight_service.app.operational_http import Listener, respond, service_pages
from headlight_service.app.server_setup import (
    GRPC,
    Servicers,
    accepted_hosts,
    build_admin_server,
    build_api,
    build_health_server,
    build_server,
    start_api,
)
from headlight_service.app.startup_steps import StartupSteps
from headlight_service.config.command_line import ConfigError
from headlight_service.config.option_types import Address
from headlight_service.config.options import Config
from headlight_service.core.admission.rate_limit import quotas_of
from headlight_service.core.models import Models, ServedModel
from headlight_service.core.pipeline import Pipeline
from headlight_service.core.scheduler.engine_health import EngineLost
from headlight_service.core.tokenizer_threads import TokenizerThreads
from headlight_service.frontends.grpc.in_flight_calls import InFlight
from headlight_service.frontends.grpc.transport.grpc_server import Change, GrpcServer
from headlight_service.frontends.http.http_server import HttpServer
from headlight_service.frontends.tei.service_info import unserved
from headlight_service.security.access_policy import AccessPolicy, security_of
from headlight_service.telemetry.json_logs import describe
from headlight_service.telemetry.metrics import Metrics
from headlight_service.telemetry.startup_table import startup_table

if TYPE_CHECKING:
    from headlight_service.telemetry.otlp import Tracing

log = logging.getLogger("headlight_service.app.lifecycle")

EXIT_OK = 0
EXIT_FAILED = 1  # cannot listen, died, or did not drain in time
EXIT_CONFIG = 2
EXIT_INTERRUPTED = 128 + signal.SIGINT  # before it served
EXIT_BUNDLE = 3
# Tokenising is some 50 µs a text; more threads would only compete with the engine for cores.
TOKENIZER_THREADS = 2
# A call that waits inside gRPC when gRPC stops ends as CANCELLED, which few clients retry. So for
# this time calls are accepted but not read, and a little longer while more come, until there is a
# pause. They are refused as UNAVAILABLE once gRPC has told the clients that it stops.
REFUSE_SECONDS = 0.1
PAUSE_SECONDS, PAUSE_LIMIT = 0.06, 0.4
TOLD_SECONDS = 0.02  # for gRPC to notify the clients
LOST_FLUSH_SECONDS = 0.5  # if an engine is lost: the end of the process should come soon
FLUSH_SECONDS = 2.0  # limit, within the grace time, for the last spans to reach their collector


class Server:
    """The running service: all parts that live as long as the process."""

    def __init__(self, config: Config, tracing: Tracing | None = None) -> None:
        """Prepare within a running event loop; `serve` opens the ports."""
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._tracing = tracing
        self._metrics = Metrics()
        self._models = Models()
        self._readiness = Readiness(partial(unserved, self._models), self._models.serves)
        self._steps = StartupSteps()
        self._liveness = Liveness(config.stuck_seconds)
        self._metrics.ready.set_function(lambda: self._readiness.serving)
        self._metrics.stuck.set_function(self._is_stalled)
        self._in_flight = InFlight()
        self._loader = ModelLoader(
            config,
            self._models,
            self._metrics,
            self._steps,
            tracing,
            self._on_lost,
            self._on_models,
        )
        self._tokenizers = TokenizerThreads(TOKENIZER_THREADS)
        self._pipeline = Pipeline(self._models, self._tokenizers, quotas_of(config))
        self._servicers = Servicers(self._pipeline, config.stall_seconds, self._readiness)
        self._api: HttpServer | None = None
        self._grpc: GrpcServer  # set by `_start`
        self._stop: asyncio.Future[int] = self._loop.create_future()
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self._probes = build_health_server(self._readiness, self._on_grpc)
        self._admin: GrpcServer | None = None
        self._on_terminal = os.isatty(2)
        # The tokenizers library reads this at each batch. Requests are tokenised in parallel
        # already: more threads for one were no faster on two cores, and took 15 to 45 % more CPU.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        self._liveness.add("tokenizer", lambda: self._tokenizers.stalled_seconds)

    async def serve(self) -> int:
        """Run until the end, and return the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._on_signal, number)
        self._loop.add_signal_handler(signal.SIGHUP, self._on_hangup)
        watching = asyncio.create_task(
            self._liveness.watch(self._readiness.set_stalled, asyncio.sleep), name="liveness"
        )
        try:
            return await self._live()
        finally:
            watching.cancel()
            await self._loader.close()
            await self._probes.stop(None)  # the last to stop: until here it reports NOT_SERVING

    def _on_signal(self, number: int) -> None:
        if self._stop.done():
            log.critical("second signal; ending at once", extra={"event": "killed"})
            end_at_once(EXIT_FAILED)
        self._stop.set_result(number)

    def _on_hangup(self) -> None:
        """Reload on SIGHUP; end if it says that the terminal of the process was closed."""
        if self._on_terminal and not os.isatty(2):
            self._on_signal(signal.SIGHUP)
        else:
            self._reload()

    async def _live(self) -> int:
        try:
            executor = await self._start()
        except ConfigError as error:
            log.critical(str(error), extra={"event": "bad_option"})
            return EXIT_CONFIG
        except (PortTaken, OSError) as error:
            log.critical(str(error), extra={"event": "cannot_listen"})
            return EXIT_FAILED
        except ExportFailed as error:
            log.critical(str(error), extra={"event": "export_failed"})
            return EXIT_FAILED
        except BundleError as error:
            log.critical(error.message, extra={"event": "bundle_refused", "file": error.file})
            return EXIT_BUNDLE
        if executor is None:
            log.info("stopped while loading", extra={"event": "stopped"})
            # As of any command that Ctrl-C ends before its work is done.
            return EXIT_INTERRUPTED if self._stop.result() == signal.SIGINT else EXIT_OK
        return await self._until_stopped(executor)

    async def _start(self) -> Executor | None:
        """Listen, load, and open the gRPC port. Returns None if a signal came first.

        The ports of gRPC and of the HTTP frontend are reserved from the start, but clients can
        connect only after the model is loaded: clients send calls on an open connection. Balancers
        and clients avoid a replica that refuses connections.
        """
        config = self._config
        access = security_of(config, self._metrics)
        self._grpc = build_server(
            config=config,
            servicers=self._servicers,
            readiness=self._readiness,
            metrics=self._metrics,
            in_flight=self._in_flight,
            observe=self._on_grpc,
            authenticator=access.authenticator,
            tracing=self._tracing,
        )
        with taken("--grpc", config.grpc) as reserved:
            address = Address(config.grpc.host, reserved.getsockname()[1])
            self._api = api = self._reserve_api(access, address.port)
            http = await self._answer_probes(address.port)
            executor = await self._load()
            if executor is None:
                return None
            self._liveness.add("batches", lambda: executor.scheduler.heartbeat.stalled_seconds)
            bind(self._grpc, address, access.credentials)
        await self._grpc.start()
        await self._open_admin(access)
        if api is not None and not start_api(api, config):
            self._api = api = None
        if config.watch_models is not None:
            self._watching = asyncio.create_task(
                self._watch_models(config.watch_models), name="watch-models"
            )
        self._readiness.set(serving=True)
        self._log_serving(address, http, api)
        return executor

    async def _open_admin(self, access: AccessPolicy) -> None:
        """Open the port of the admin service, if there is one."""
        address = self._config.admin_address
        if address is None:
            return
        servicer = AdminServicer(self._loader, self._models)
        self._admin = build_admin_server(servicer, access.administrators, self._on_grpc)
        port = bind(self._admin, address, access.admin_credentials, "--admin-address")
        await self._admin.start()
        log.info("the admin service listens", extra={"event": "admin_listening", "port": port})

    def _log_serving(self, address: Address, http: Address, api: HttpServer | None) -> None:
        """Log the models: the default one, which a terminal shows with the addresses, last."""
        default = self._models.get()
        table = _table(self._models, default, self._config, address, http, api)
        for model in (*(each for each in self._models.all if each is not default), default):
            ref = model.ref
            extra: dict[str, object] = {
                "event": "serving",
                "provider": ref.provider,
                "precision": ref.precision,
                "model_name": ref.name,
                "version": ref.version,
                "sha256": ref.bundle_sha256,
            }
            if len(self._models.all) > 1:
                extra["names"] = list(self._models.addresses(model))
            shown = f"serving; Ctrl-C stops it\n\n{table}\n"
            extra["text"] = shown if model is default else f"serving {model.name}"
            log.info("serving", extra=extra)

    def _reserve_api(self, access: AccessPolicy, grpc_port: int) -> HttpServer | None:
        """Reserve the port of the HTTP frontend; None: it is off, or the default port is taken."""
        return build_api(
            self._config,
            self._pipeline,
            self._metrics,
            lambda: self._readiness.serving,
            grpc_port=grpc_port,
            tls=access.tls,
            authenticator=access.authenticator,
            tracing=self._tracing,
            on_lost=partial(self._on_lost, None),
        )

    async def _answer_probes(self, grpc_port: int) -> Address:
        """Open the other ports; returns that of HTTP. Probes are answered now: alive, not ready."""
        config = self._config
        pages = service_pages(
            self._metrics.exposition,
            lambda: self._readiness.serving,
            self._is_stalled,
            lambda: "" if self._readiness.started else self._starting(grpc_port),
        )
        hosts = accepted_hosts(config.metrics, config.api_host)
        http = Listener(taken("--metrics", config.metrics), partial(respond, pages, hosts=hosts))
        ports = {"grpc_port": grpc_port, "metrics_port": http.server_port}
        if self._api is not None:
            ports["api_port"] = self._api.port
        if config.health is not None:
            ports["health_port"] = bind(self._probes, config.health, option="--health")
            await self._probes.start()
        log.info(
            "listening; to gRPC once the model is loaded", extra={"event": "listening", **ports}
        )
        return Address(config.metrics.host, http.server_port)

    def _starting(self, grpc_port: int) -> str:
        """Return the state of a start for /readyz, which `headlight.cli` reads."""
        return f"starting, gRPC port {grpc_port}: {self._steps.current}"

    def _is_stalled(self) -> bool:
        return self._liveness.stalled_at is not None

    async def _load(self) -> Executor | None:
        """Load the models, and return their executor; None if a signal came first.

        Raises:
            ConfigError, BundleError, ExportFailed: a model cannot be served.
        """
        loading = asyncio.wrap_future(self._loader.submit(self._loader.start))
        await asyncio.wait((loading, self._stop), return_when=asyncio.FIRST_COMPLETED)
        if not self._stop.done():
            return loading.result()
        await self._loader.close()  # Ctrl-C ends an export too, which is no failure then
        loading.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return None

    def _reload(self) -> None:
        """Have the changed models loaded; no error is raised."""
        log.info("looking for changed models", extra={"event": "reloading"})
        with contextlib.suppress(Unavailable):
            self._loader.submit(self._loader.reload)

    async def _watch_models(self, seconds: float) -> None:
        """Reload after a change, once it is complete: two looks have seen the same."""
        loader, seen = self._loader, self._loader.attempted
        while True:
            await asyncio.sleep(seconds)
            try:
                state = await asyncio.wrap_future(loader.submit(loader.state))
            except Unavailable:  # the process ends
                return
            except Exception as error:
                extra = {"event": "watch_failed", **describe(error)}
                log.error("cannot look for changed models; the next look may succeed", extra=extra)
                continue
            if state == seen != loader.attempted:
                self._reload()
            seen = state

    async def _until_stopped(self, executor: Executor) -> int:
        await asyncio.wait((self._stop, self._lost), return_when=asyncio.FIRST_COMPLETED)
        if self._lost.done():
            self._readiness.set(serving=False)
            # Time for health watchers to read the status before the connection ends.
            await asyncio.sleep(TOLD_SECONDS)
            await self._grpc.stop(None)
            await self._stop_api(0)
            await self._flush(LOST_FLUSH_SECONDS)
            return EXIT_FAILED
        left = await self._drain()
        if self._lost.done():  # callers that waited for it have been notified
            return EXIT_FAILED
        executor.close()
        self._pipeline.close()
        if left:
            log.critical(
                "calls outlasted the grace time", extra={"event": "grace_exceeded", "calls": left}
            )
            return EXIT_FAILED
        log.info("stopped", extra={"event": "stopped"})
        return EXIT_OK

    def _on_models(self) -> None:
        """Notify health watchers that other models are served. From any thread."""
        with contextlib.suppress(RuntimeError):  # the process ends
            self._loop.call_soon_threadsafe(self._readiness.models_changed)

    def _on_lost(self, error: EngineLost | None) -> None:
        self._loop.call_soon_threadsafe(self._lose, error)

    def _lose(self, error: EngineLost | None) -> None:
        """End the process as failed. None: a server is lost; the reason is logged already."""
        if self._lost.done():
            return
        self._lost.set_result(None)
        if error is not None:
            log.critical("the scheduler ended", extra={"event": "batcher_died", **describe(error)})

    def _on_grpc(self, name: str, change: Change) -> None:
        """React to a gRPC server that ended by itself.

        Health fails until another takes its place; without one, the process ends.
        """
        if change is Change.GIVEN_UP:
            self._lose(None)
            return
        if change is Change.LOST:
            self._metrics.grpc_restarts.inc()
        if name == GRPC:
            self._readiness.set_lost(change is Change.LOST)

    async def _drain(self) -> int:
        """Finish the calls in flight, take no more, and return how many outlast the grace time."""
        log.info("draining", extra={"event": "draining", "calls": self._in_flight.count})
        self._readiness.set(serving=False)
        await self._loader.close()
        if self._admin is not None:
            await self._admin.stop(None)
        await asyncio.sleep(self._config.drain_delay_seconds)
        self._in_flight.closed = True
        self._servicers.drain()
        if self._api is not None:
            self._api.drain()
        await asyncio.sleep(REFUSE_SECONDS)
        await self._in_flight.quiet(PAUSE_SECONDS, PAUSE_LIMIT)
        # Twice the grace time: the wait below, or the second stop, ends it earlier.
        stopping = asyncio.create_task(self._grpc.stop(2 * self._config.grace_seconds + 1))
        await asyncio.sleep(TOLD_SECONDS)
        self._in_flight.announced.set()
        last = time.monotonic() + self._config.grace_seconds
        resting = asyncio.create_task(self._stop_api(self._config.grace_seconds))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._in_flight.idle(), self._config.grace_seconds)
        left = self._in_flight.count + await resting
        # Calls without their message yet are refused meanwhile; an immediate stop would reset them.
        await asyncio.wait([stopping], timeout=REFUSE_SECONDS)
        # Ends health watches, which otherwise last as long as their clients like.
        await self._grpc.stop(None)
        await stopping
        await self._flush(min(FLUSH_SECONDS, last - time.monotonic()))
        return left

    async def _stop_api(self, grace: float) -> int:
        """Stop the HTTP frontend; return how many of its requests outlast the grace time."""
        return 0 if self._api is None else await self._api.stop(grace)

    async def _flush(self, seconds: float) -> None:
        if self._tracing is not None:
            await self._tracing.close(max(0.0, seconds))


def _table(
    models: Models,
    model: ServedModel,
    config: Config,
    grpc: Address,
    http: Address,
    api: HttpServer | None,
) -> str:
    """Return what a person sees on a terminal once the service answers."""
    manifest, ref = model.runtime.bundle.manifest, model.ref
    variant = (ref.provider, ref.precision)
    proof = worst_pooled(row for row in manifest.parity if (row.provider, row.precision) == variant)
    limit = manifest.tolerance(*variant).limits["pooled"] if proof is None else proof.tolerance
    commands = ['embed "two paths"'] if "text" in model.accepts else []
    if commands and model.gives("attention"):
        commands.append('attend "join two paths" --open')
    options = {
        "--tls-ca": config.tls_cert,
        "--tls-cert": config.tls_client_ca,
        "--token-file": config.auth_tokens,
    }
    return startup_table(
        model=ref,
        hub=manifest.source.get("hub") or {},
        proof=proof,
        limit=limit,
        addresses={"gRPC": grpc, **_api_address(config, api), "metrics": http},
        commands=[*commands, "info"],
        client_options=[name for name, needed in options.items() if needed is not None],
        page=config.page == "on",
        others=[(each.name, each.ref) for each in models.all if each is not model],
    )


def _api_address(config: Config, api: HttpServer | None) -> dict[str, Address]:
    if api is None or config.api is None:
        return {}
    name = "HTTP" if config.tls_cert is None else "HTTPS"
    return {name: Address(config.api.host, api.port)}


def end_at_once(code: int) -> NoReturn:
    """End the process without waiting for threads that may never return."""
    logging.shutdown()
    os._exit(code)

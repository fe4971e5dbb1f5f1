"""Setup of the servers: their services, their limits and the options of their connections."""

from __future__ import annotations

import errno
import logging
import resource
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc
from google.protobuf.descriptor import FileDescriptor
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2, reflection_pb2_grpc

from headlight.pb import headlight_pb2
from headlight.pb.admin_pb2_grpc import add_AdminServiceServicer_to_server
from headlight.pb.headlight_pb2_grpc import add_HeadlightServiceServicer_to_server
from headlight_service.app.admin_servicer import AdminServicer
from headlight_service.app.health import Readiness
from headlight_service.app.listen_addresses import REASONS, PortTaken, taken
from headlight_service.app.operational_http import MOST_CONNECTIONS, SHARE_OF_DESCRIPTORS
from headlight_service.config.option_groups import API
from headlight_service.config.option_types import Address
from headlight_service.config.options import Config
from headlight_service.core.pipeline import Pipeline
from headlight_service.frontends.grpc.calls.contract_services import (
    handlers,
    reflected,
    services,
)
from headlight_service.frontends.grpc.in_flight_calls import InFlight
from headlight_service.frontends.grpc.interceptor import PROBE_BYTES, PROBE_SECONDS, Interceptor
from headlight_service.frontends.grpc.peer_timeouts import Arrivals
from headlight_service.frontends.grpc.servicer import HeadlightServicer
from headlight_service.frontends.grpc.tei import tei_messages
from headlight_service.frontends.grpc.tei.tei_servicer import TeiServicer
from headlight_service.frontends.grpc.transport.call_bridge import Bridge
from headlight_service.frontends.grpc.transport.grpc_server import Change, GrpcServer
from headlight_service.frontends.http import dialects
from headlight_service.frontends.http.door import Door
from headlight_service.frontends.http.exchange import Options
from headlight_service.frontends.http.http_server import HttpServer
from headlight_service.frontends.oip import inference_messages as oip
from headlight_service.frontends.oip.inference_servicer import InferenceServicer
from headlight_service.security.access_policy import is_loopback
from headlight_service.security.authentication import Authenticator
from headlight_service.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from headlight_service.telemetry.otlp import Tracing

log = logging.getLogger("headlight_service.app.server_setup")
# Most connections of each server; a connection of HTTP with TLS takes some 0.3 MB, most of it
# asyncio's read buffer, an idle one of gRPC 17 KB.
MOST_API, MOST_API_TLS, MOST_GRPC, MOST_HEALTH = 4096, 1024, 16384, 1024
HANDSHAKE_MS = 5000  # for TLS and the settings of HTTP/2

ADMIN_BYTES = 64 << 10  # of a message of the admin service: names
GRPC, HEALTH, ADMIN = "grpc", "health", "admin"  # names of the gRPC servers


class Servicers:
    """The servicers of all contracts, over one pipeline.

    Attributes:
        headlight: that of headlight.v1.
        public: those of public contracts, by contract.
    """

    def __init__(self, pipeline: Pipeline, stall_seconds: float, readiness: Readiness) -> None:
        """Use the running event loop. `stall_seconds`: see HeadlightServicer."""
        self.headlight = HeadlightServicer(pipeline, stall_seconds)
        inference = InferenceServicer(pipeline, stall_seconds, lambda: readiness.serving)
        self.public: dict[FileDescriptor, InferenceServicer | TeiServicer] = {
            oip.DESCRIPTOR: inference,
            tei_messages.DESCRIPTOR: TeiServicer(pipeline, stall_seconds),
        }

    def drain(self) -> None:
        """Let every stream end once it has answered the requests that it has read."""
        for each in (self.headlight, *self.public.values()):
            each.drain()


def options(config: Config) -> list[tuple[str, Any]]:
    """Return the channel arguments of the server."""
    return [
        # Otherwise a second server would silently take half of the first one's connections.
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", config.max_request_bytes),
        ("grpc.max_send_message_length", -1),  # larger answers are refused earlier, with a remedy
        # Per connection; the queue's limit applies long before.
        ("grpc.max_concurrent_streams", 1000),
        ("grpc.keepalive_time_ms", 60_000),  # detect clients that vanished without closing
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.keepalive_permit_without_calls", 1),
        # Let clients ping every 10 s, calls or not. By default (5 minutes), gRPC disconnects
        # clients with usual settings.
        ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
        # Clients must look up the replicas regularly, and show their certificates again. Calls in
        # flight run to their end, however long: gRPC's default grace for them is infinite.
        ("grpc.max_connection_age_ms", round(1000 * config.max_connection_age_seconds)),
        ("grpc.max_allowed_incoming_connections", connection_limits().grpc),
        ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS),
    ]


def build_server(
    config: Config,
    servicers: Servicers,
    readiness: Readiness,
    metrics: Metrics,
    in_flight: InFlight,
    observe: Callable[[str, Change], None],
    authenticator: Authenticator | None = None,
    tracing: Tracing | None = None,
) -> GrpcServer:
    """Return a server with all services, not started. Call it within the server's event loop."""
    arrivals = Arrivals(config.stall_seconds, config.max_request_bytes)
    messages = (headlight_pb2, health_pb2, reflection_pb2)
    contracts = [*(each.DESCRIPTOR for each in messages), *servicers.public]

    def make(bridge: Bridge) -> grpc.Server:
        interceptor = Interceptor(bridge, metrics, in_flight, arrivals, authenticator, tracing)
        server = grpc.server(bridge.threads, interceptors=[interceptor], options=options(config))  # type: ignore[arg-type]
        add_HeadlightServiceServicer_to_server(servicers.headlight, server)
        health_pb2_grpc.add_HealthServicer_to_server(readiness, server)
        for contract, served in servicers.public.items():
            server.add_generic_rpc_handlers(
                [handlers(each, served) for each in contract.services_by_name.values()]
            )
        reflecting = reflection.aio.ReflectionServicer(services(*contracts), reflected(contracts))  # type: ignore[attr-defined]
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(reflecting, server)
        return server

    return GrpcServer(GRPC, make, observe)


def build_health_server(readiness: Readiness, observe: Callable[[str, Change], None]) -> GrpcServer:
    """Return a server of only grpc.health.v1, not started. Call it within its event loop."""
    limits = {
        "grpc.so_reuseport": 0,
        "grpc.max_receive_message_length": PROBE_BYTES,
        # Any client that reaches the port may ask, so only a few that do not read are kept, and not
        # for long.
        "grpc.max_concurrent_streams": 16,
        "grpc.max_connection_age_ms": 300_000,
        "grpc.max_connection_age_grace_ms": 10_000,
        "grpc.max_allowed_incoming_connections": connection_limits().health,
        "grpc.server_handshake_timeout_ms": HANDSHAKE_MS,
    }
    arrivals, metrics = Arrivals(PROBE_SECONDS, PROBE_BYTES), Metrics()  # metrics without a reader

    def make(bridge: Bridge) -> grpc.Server:
        interceptor = Interceptor(bridge, metrics, InFlight(), arrivals)
        server = grpc.server(bridge.threads, interceptors=[interceptor], options=[*limits.items()])  # type: ignore[arg-type]
        health_pb2_grpc.add_HealthServicer_to_server(readiness, server)
        return server

    return GrpcServer(HEALTH, make, observe)


def build_admin_server(
    servicer: AdminServicer,
    authenticator: Authenticator | None,
    observe: Callable[[str, Change], None],
) -> GrpcServer:
    """Return a server of only the admin service, not started. Call it within its event loop.

    Its calls are no requests to a model: the counts of the loads are the loader's.
    """
    limits = {
        "grpc.so_reuseport": 0,
        "grpc.max_receive_message_length": ADMIN_BYTES,
        "grpc.max_concurrent_streams": 16,
        "grpc.max_allowed_incoming_connections": connection_limits().health,
        "grpc.server_handshake_timeout_ms": HANDSHAKE_MS,
    }
    arrivals, metrics = Arrivals(PROBE_SECONDS, ADMIN_BYTES), Metrics()  # metrics without a reader

    def make(bridge: Bridge) -> grpc.Server:
        interceptor = Interceptor(bridge, metrics, InFlight(), arrivals, authenticator)
        server = grpc.server(bridge.threads, interceptors=[interceptor], options=[*limits.items()])  # type: ignore[arg-type]
        add_AdminServiceServicer_to_server(servicer, server)
        return server

    return GrpcServer(ADMIN, make, observe)


def build_api(
    config: Config,
    pipeline: Pipeline,
    metrics: Metrics,
    serving: Callable[[], bool],
    *,
    grpc_port: int = 50051,
    tls: ssl.SSLContext | None = None,
    authenticator: Authenticator | None = None,
    tracing: Tracing | None = None,
    on_lost: Callable[[], None] = lambda: None,
) -> HttpServer | None:
    """Return the HTTP frontend with its port reserved; None: it is off, or has no port.

    Its page names `grpc_port` in the requests that it writes to copy.

    Raises:
        PortTaken: a named address cannot be listened on. If it is the default, that is a warning.
        ConfigError: there is no host of this name.
    """
    if config.api is None:
        return None
    try:
        bound = taken("--api", config.api)
    except PortTaken as error:
        _warn_of_default(config, error)
        return None
    options = Options(
        stall_seconds=config.stall_seconds,
        max_request_bytes=config.max_request_bytes,
        hosts=accepted_hosts(config.api, config.api_host),
        max_connection_age_seconds=config.max_connection_age_seconds,
        most_connections=connection_limits(tls=tls is not None).api,
        metrics_address=str(config.metrics),
        cors_origins=frozenset(config.cors_origins),
        any_model_name=config.any_model_name,
        page=config.page == "on",
        grpc_port=grpc_port,
    )
    door = Door(
        pipeline,
        metrics,
        dialects.ALL,
        options,
        serving=serving,
        authenticator=authenticator,
        tracing=tracing,
    )
    return HttpServer(bound, door, tls, on_lost)


def start_api(server: HttpServer, config: Config) -> bool:
    """Start the HTTP frontend; False: the default port was taken since it was reserved.

    Raises:
        PortTaken: the same of a named address.
    """
    try:
        server.start()
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        _warn_of_default(config, PortTaken(f"--api {config.api} {REASONS[errno.EADDRINUSE]}"))
        return False
    return True


def _warn_of_default(config: Config, error: PortTaken) -> None:
    """Log that the default port is taken. Raises PortTaken if the address was named."""
    if config.api is not API:
        raise error
    log.warning(f"{error}; --api off says that none is wanted", extra={"event": "api_port_taken"})


def accepted_hosts(listening: Address, more: str | None) -> frozenset[str] | None:
    """Return the accepted Host names of HTTP besides those of the loopback; None: any."""
    if not is_loopback(listening):
        return None
    return frozenset() if more is None else frozenset((more,))


class ConnectionLimits(NamedTuple):
    """Most open connections of each server."""

    api: int
    grpc: int
    health: int


def connection_limits(*, tls: bool = False) -> ConnectionLimits:
    """Return the limits that leave a sixteenth of the file descriptors to files.

    Args:
        tls: whether the HTTP frontend has TLS.
    """
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY:
        files = 1 << 20
    api = min(MOST_API_TLS if tls else MOST_API, files // 4)
    health = min(MOST_HEALTH, files // 16)
    operational = min(MOST_CONNECTIONS, files // SHARE_OF_DESCRIPTORS)
    left = files - files // 16 - api - health - operational
    return ConnectionLimits(max(1, api), max(1, min(MOST_GRPC, left)), max(1, health))

"""The gRPC server: its services and the options of its connections."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import grpc
from grpc_health.v1 import health, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from headlight.pb.headlight_pb2_grpc import add_HeadlightServiceServicer_to_server
from headlight_service.app.health import SERVICE, Readiness
from headlight_service.config.options import Config
from headlight_service.frontends.grpc.in_flight_calls import InFlight
from headlight_service.frontends.grpc.interceptor import PROBE_BYTES, PROBE_SECONDS, Interceptor
from headlight_service.frontends.grpc.peer_timeouts import Arrivals
from headlight_service.frontends.grpc.servicer import HeadlightServicer
from headlight_service.frontends.grpc.transport.call_bridge import Bridge
from headlight_service.frontends.grpc.transport.grpc_server import Change, GrpcServer
from headlight_service.security.authentication import Gate
from headlight_service.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from headlight_service.telemetry.otlp import Tracing

GRPC, HEALTH = "grpc", "health"  # names of the two servers


def options(config: Config) -> list[tuple[str, Any]]:
    """Channel arguments of the server."""
    return [
        ("grpc.so_reuseport", 0),  # else a second server would silently take half of the first one's connections
        ("grpc.max_receive_message_length", config.max_request_bytes),
        ("grpc.max_send_message_length", -1),  # what is too large is refused earlier, with a remedy
        ("grpc.max_concurrent_streams", 1000),  # per connection; the queue's limit bites long before
        ("grpc.keepalive_time_ms", 60_000),  # find out about clients that vanished without closing
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.keepalive_permit_without_calls", 1),
        # Let clients ping every 10 s, calls or not; the default (5 minutes) hangs up on usual client settings.
        ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
        # Now and then a client must look again where replicas are, and show its certificate again. Calls in flight end in peace,
        # however long: the grace that gRPC gives them is infinite unless it is told otherwise.
        ("grpc.max_connection_age_ms", round(1000 * config.max_connection_age_seconds)),
    ]


def build_server(
    config: Config,
    servicer: HeadlightServicer,
    readiness: Readiness,
    metrics: Metrics,
    in_flight: InFlight,
    observe: Callable[[str, Change], None],
    gate: Gate | None = None,
    tracing: Tracing | None = None,
) -> GrpcServer:
    """A server with all services, not started. Within the event loop that is to serve it."""
    arrivals = Arrivals(config.stall_seconds, config.max_request_bytes)

    def make(bridge: Bridge) -> grpc.Server:
        interceptor = Interceptor(bridge, metrics, in_flight, arrivals, gate, tracing)
        server = grpc.server(bridge.threads, interceptors=[interceptor], options=options(config))  # type: ignore[arg-type]
        add_HeadlightServiceServicer_to_server(servicer, server)
        health_pb2_grpc.add_HealthServicer_to_server(readiness, server)
        names = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflected = reflection.aio.ReflectionServicer(names)  # type: ignore[attr-defined]
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(reflected, server)
        return server

    return GrpcServer(GRPC, make, observe)


def build_health_server(readiness: Readiness, observe: Callable[[str, Change], None]) -> GrpcServer:
    """A server with grpc.health.v1 alone, not started. Within the event loop that is to serve it."""
    limits = {
        "grpc.so_reuseport": 0,
        "grpc.max_receive_message_length": PROBE_BYTES,
        # Whoever reaches the port may ask: of those who do not read what they are told, few are kept, and not for long.
        "grpc.max_concurrent_streams": 16,
        "grpc.max_connection_age_ms": 300_000,
        "grpc.max_connection_age_grace_ms": 10_000,
    }
    arrivals, metrics = Arrivals(PROBE_SECONDS, PROBE_BYTES), Metrics()  # which nobody reads

    def make(bridge: Bridge) -> grpc.Server:
        interceptor = Interceptor(bridge, metrics, InFlight(), arrivals)
        server = grpc.server(bridge.threads, interceptors=[interceptor], options=[*limits.items()])  # type: ignore[arg-type]
        health_pb2_grpc.add_HealthServicer_to_server(readiness, server)
        return server

    return GrpcServer(HEALTH, make, observe)

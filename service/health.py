"""Whether the service can answer: one state, told to gRPC health checks and to HTTP probes."""

from __future__ import annotations

from grpc_health.v1 import health, health_pb2

SERVICE = "headlight.v1.HeadlightService"
NAMES = ("", SERVICE)  # what a health check can ask about


class Readiness:
    """Starts as NOT_SERVING.

    Attributes:
        servicer: grpc.health.v1.Health, for the server.
        serving: what it says; may be read by any thread.
    """

    def __init__(self) -> None:
        self.servicer = health.aio.HealthServicer()  # type: ignore[attr-defined]  # unknown to its stubs
        self.serving = False

    async def set(self, serving: bool) -> None:
        """Tell everyone, watchers included."""
        self.serving = serving
        status = health_pb2.HealthCheckResponse
        for name in NAMES:
            await self.servicer.set(name, status.SERVING if serving else status.NOT_SERVING)

"""Whether the service can answer, and whether it is alive: one state, told to gRPC health checks and to HTTP probes."""

from __future__ import annotations

from grpc_health.v1 import health, health_pb2

SERVICE = "headlight.v1.HeadlightService"
READINESS, STARTUP, LIVENESS = "readiness", "startup", "liveness"
READY_NAMES = ("", SERVICE, READINESS)  # of whoever wants to know whether requests are answered
NAMES = (*READY_NAMES, STARTUP, LIVENESS)  # what a health check can ask about


class Readiness:
    """Starts as NOT_SERVING, and alive.

    Attributes:
        servicer: grpc.health.v1.Health, for any number of servers.
        started: whether it has ever served.
        stuck: whether there is work and nothing moves.
    """

    def __init__(self) -> None:
        self.servicer = health.aio.HealthServicer()  # type: ignore[attr-defined]  # unknown to its stubs
        self.started = False
        self.stuck = False
        self._open = False

    @property
    def serving(self) -> bool:
        """Whether requests are answered; may be read by any thread."""
        return self._open and not self.stuck

    async def set(self, serving: bool) -> None:
        """Tell everyone, watchers included, whether requests are let in."""
        self._open = serving
        self.started = self.started or serving
        await self._tell()

    async def set_stuck(self, stuck: bool) -> None:
        """Tell everyone whether there is work and nothing moves. While that is so, nobody should send more."""
        self.stuck = stuck
        await self._tell()

    async def _tell(self) -> None:
        status = health_pb2.HealthCheckResponse
        told = dict.fromkeys(READY_NAMES, self.serving) | {STARTUP: self.started, LIVENESS: not self.stuck}
        for name, well in told.items():
            await self.servicer.set(name, status.SERVING if well else status.NOT_SERVING)

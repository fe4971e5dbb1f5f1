"""Whether the service can answer, and whether it is alive: one state, told to gRPC health checks and to HTTP probes."""

from __future__ import annotations

import asyncio

from grpc_health.v1 import health_pb2, health_pb2_grpc

from headlight.errors import NotFound, Overloaded
from headlight_service.frontends.grpc.transport.grpc_call import Call, CallerGone

STATUS = health_pb2.HealthCheckResponse
SERVICE = "headlight.v1.HeadlightService"
READINESS, STARTUP, LIVENESS = "readiness", "startup", "liveness"
MOST_WATCHERS = 1000  # anyone may watch, without a token
READ_SECONDS = 20.0  # for a watcher to take one status: it holds a thread meanwhile
AGAIN_SECONDS = 5.0  # after which one that was refused may try again
READY_NAMES = ("", SERVICE, READINESS)  # of whoever wants to know whether requests are answered


class Readiness(health_pb2_grpc.HealthServicer):  # type: ignore[misc]  # its package ships no types
    """grpc.health.v1.Health for any number of servers. Starts as NOT_SERVING, and alive.

    Not grpc_health's own: that one writes to watchers under the lock which whoever changes a status has to take, so one watcher
    who does not read would hold up start-up, drain and the news that nothing moves.

    Attributes:
        started: whether it has ever served.
        stuck: whether there is work and nothing moves.
    """

    def __init__(self) -> None:
        self.started = False
        self.stuck = False
        self._open = False
        self._lost = False
        self._watchers: set[asyncio.Event] = set()

    @property
    def serving(self) -> bool:
        """Whether requests are answered; may be read by any thread."""
        return self._open and not self.stuck and not self._lost

    def set(self, serving: bool) -> None:
        """Tell everyone, watchers included, whether requests are let in."""
        self._open = serving
        self.started = self.started or serving
        self._wake_watchers()

    def set_stuck(self, stuck: bool) -> None:
        """Tell everyone whether there is work and nothing moves. While that is so, nobody should send more."""
        self.stuck = stuck
        self._wake_watchers()

    def set_lost(self, lost: bool) -> None:
        """Tell everyone whether the gRPC server is lost, and nothing listens in its place."""
        self._lost = lost
        self._wake_watchers()

    def _wake_watchers(self) -> None:
        for changed in self._watchers:
            changed.set()

    def _told(self) -> dict[str, bool]:
        """How each name fares."""
        return dict.fromkeys(READY_NAMES, self.serving) | {STARTUP: self.started, LIVENESS: not self.stuck}

    def Check(self, request: health_pb2.HealthCheckRequest, call: Call) -> health_pb2.HealthCheckResponse:
        told = self._told()
        if request.service not in told:
            known = ", ".join(name for name in told if name)
            raise NotFound(f"no such service; there are {known}, or leave the name out")
        return STATUS(status=self._status(request.service))

    def List(self, request: health_pb2.HealthListRequest, call: Call) -> health_pb2.HealthListResponse:
        return health_pb2.HealthListResponse(
            statuses={name: STATUS(status=self._status(name)) for name in self._told()}
        )

    async def Watch(self, request: health_pb2.HealthCheckRequest, call: Call) -> None:
        if len(self._watchers) >= MOST_WATCHERS:
            raise Overloaded(f"{MOST_WATCHERS} callers watch already; ask with Check", AGAIN_SECONDS)
        last, changed = None, asyncio.Event()
        self._watchers.add(changed)
        try:
            while True:
                changed.clear()
                status = self._status(request.service)
                if status != last:  # those in between may be missed: what counts is what is so now
                    last = status
                    await self._send(call, status)
                await changed.wait()
        finally:
            self._watchers.discard(changed)

    async def _send(self, call: Call, status: health_pb2.HealthCheckResponse.ServingStatus.ValueType) -> None:
        """Send one status; reset the call of a watcher that does not read."""
        try:
            async with asyncio.timeout(READ_SECONDS):
                await call.write(STATUS(status=status))
        except TimeoutError:
            call.context.cancel()  # type: ignore[no-untyped-call]
            raise CallerGone from None

    def _status(self, name: str) -> health_pb2.HealthCheckResponse.ServingStatus.ValueType:
        told = self._told()
        if name not in told:
            return STATUS.SERVICE_UNKNOWN  # as the protocol has it: it may come to be known
        return STATUS.SERVING if told[name] else STATUS.NOT_SERVING

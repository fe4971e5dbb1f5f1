"""Health state: readiness and liveness, for gRPC health checks and for HTTP probes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from grpc_health.v1 import health_pb2, health_pb2_grpc

from headlight.errors import NotFound, Overloaded, Reason
from headlight.pb import headlight_pb2
from headlight_service.frontends.grpc.calls.contract_services import services
from headlight_service.frontends.grpc.tei import tei_messages
from headlight_service.frontends.grpc.transport.grpc_call import Call, CallerGone
from headlight_service.frontends.oip import inference_messages

STATUS = health_pb2.HealthCheckResponse
SERVICE = "headlight.v1.HeadlightService"
READINESS, STARTUP, LIVENESS = "readiness", "startup", "liveness"
MOST_WATCHERS = 1000  # clients may watch without a token
READ_SECONDS = 20.0  # for a watcher to take one status: it holds a thread meanwhile
AGAIN_SECONDS = 5.0  # retry delay of a refused watcher
SERVICES = services(
    *(each.DESCRIPTOR for each in (headlight_pb2, inference_messages, tei_messages))
)
READY_NAMES = ("", *SERVICES, READINESS)  # names whose status is readiness


class Readiness(health_pb2_grpc.HealthServicer):  # type: ignore[misc]  # its package ships no types
    """grpc.health.v1.Health for any number of servers. Starts as NOT_SERVING, and alive.

    It replaces grpc_health's own, which writes to watchers under the lock that each status change
    takes. There, one watcher that does not read would delay start-up, drain and the report of a
    stall.

    Attributes:
        started: whether it has ever served.
        stalled: whether there is work without progress.
    """

    def __init__(
        self,
        unserved: Callable[[], Collection[str]] = tuple,
        is_model: Callable[[str], bool] = lambda name: False,
    ) -> None:
        """Start as not serving.

        Args:
            unserved: returns the services that no model can serve, which are never ready.
            is_model: returns whether a name is a model's. Its status can be asked for by this
                name, but nothing lists the names: health needs no token.
        """
        self._is_model = is_model
        self._unserved = unserved
        self.started = False
        self.stalled = False
        self._open = False
        self._lost = False
        self._watchers: set[asyncio.Event] = set()

    @property
    def serving(self) -> bool:
        """Whether requests are answered; may be read by any thread."""
        return self._open and not self.stalled and not self._lost

    def set(self, serving: bool) -> None:
        """Set whether requests are admitted, and notify the watchers."""
        self._open = serving
        self.started = self.started or serving
        self._wake_watchers()

    def set_stalled(self, stalled: bool) -> None:
        """Set whether the process is stalled, and notify the watchers. While stalled: not ready."""
        self.stalled = stalled
        self._wake_watchers()

    def set_lost(self, lost: bool) -> None:
        """Set whether the gRPC server is lost without a replacement, and notify the watchers."""
        self._lost = lost
        self._wake_watchers()

    def models_changed(self) -> None:
        """Notify the watchers: a model came, or has gone."""
        self._wake_watchers()

    def _wake_watchers(self) -> None:
        for changed in self._watchers:
            changed.set()

    def _statuses(self) -> dict[str, bool]:
        """Return the status of each name."""
        return {
            **dict.fromkeys(READY_NAMES, self.serving),
            **dict.fromkeys(self._unserved(), False),
            STARTUP: self.started,
            LIVENESS: not self.stalled,
        }

    def Check(
        self, request: health_pb2.HealthCheckRequest, call: Call
    ) -> health_pb2.HealthCheckResponse:
        status = self._status(request.service)
        if status == STATUS.SERVICE_UNKNOWN:
            raise NotFound(Reason.NO_SERVICE, names=", ".join(filter(None, self._statuses())))
        return STATUS(status=status)

    def List(
        self, request: health_pb2.HealthListRequest, call: Call
    ) -> health_pb2.HealthListResponse:
        return health_pb2.HealthListResponse(
            statuses={name: STATUS(status=self._status(name)) for name in self._statuses()}
        )

    async def Watch(self, request: health_pb2.HealthCheckRequest, call: Call) -> None:
        if len(self._watchers) >= MOST_WATCHERS:
            raise Overloaded(Reason.TOO_MANY_WATCHERS, AGAIN_SECONDS, count=MOST_WATCHERS)
        last, changed = None, asyncio.Event()
        self._watchers.add(changed)
        try:
            while True:
                changed.clear()
                status = self._status(request.service)
                if status != last:  # only the current status counts; those in between may be missed
                    last = status
                    await self._send(call, status)
                await changed.wait()
        finally:
            self._watchers.discard(changed)

    async def _send(
        self, call: Call, status: health_pb2.HealthCheckResponse.ServingStatus.ValueType
    ) -> None:
        """Send one status; reset the call of a watcher that does not read."""
        try:
            async with asyncio.timeout(READ_SECONDS):
                await call.write(STATUS(status=status))
        except TimeoutError:
            call.context.cancel()  # type: ignore[no-untyped-call]
            raise CallerGone from None

    def _status(self, name: str) -> health_pb2.HealthCheckResponse.ServingStatus.ValueType:
        statuses = self._statuses()
        if name not in statuses and self._is_model(name):
            return STATUS.SERVING if self.serving else STATUS.NOT_SERVING
        if name not in statuses:
            return STATUS.SERVICE_UNKNOWN  # as the protocol requires: the name may become known
        return STATUS.SERVING if statuses[name] else STATUS.NOT_SERVING

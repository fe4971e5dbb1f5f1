"""What a request holds from when it has come until its answer has left."""

from __future__ import annotations

from types import TracebackType

from headlight_service.core.admission.permits import Permit
from headlight_service.frontends.grpc.grpc_status import reason_of
from headlight_service.frontends.grpc.transport.grpc_call import CallerGone
from headlight_service.telemetry.metrics import ModelMetrics


class Receiving:
    """While one request is dealt with; see ServedModel.receive."""

    def __init__(self, permit: Permit, metrics: ModelMetrics) -> None:
        self._permit = permit
        self._metrics = metrics

    def __enter__(self) -> Permit:
        return self._permit

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._permit.give_back()
        if isinstance(error, Exception) and not isinstance(error, CallerGone):
            self._metrics.rejected[reason_of(error)].inc()

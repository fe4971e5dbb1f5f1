"""Health checks, reflection, and unknown methods."""

from __future__ import annotations

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from headlight.pb import headlight_pb2 as pb
from headlight_service.app import health
from headlight_service.app.health import SERVICE, SERVICES
from headlight_service.frontends.grpc.servicer import HeadlightServicer
from tests.service.calls import refused, request
from tests.service.conftest import Serve, Service


async def test_health_check_and_watch_report_the_status(service: Service) -> None:
    stub = health_pb2_grpc.HealthStub(service.channel)
    status = health_pb2.HealthCheckResponse
    answer = await stub.Check(health_pb2.HealthCheckRequest(service=SERVICE))
    assert answer.status == status.SERVING
    listed = (await stub.List(health_pb2.HealthListRequest())).statuses
    assert {name for name, each in listed.items() if each.status == status.SERVING} == {
        *({"", *SERVICES} - {"tei.v1.Predict", "tei.v1.Rerank"}),
        *("readiness", "startup", "liveness"),
    }
    error = await refused(
        stub.Check(health_pb2.HealthCheckRequest(service="x")), grpc.StatusCode.NOT_FOUND
    )
    assert f"there are {', '.join(SERVICES)}, readiness" in (error.details() or "")
    watch = stub.Watch(health_pb2.HealthCheckRequest(service=SERVICE))
    assert (await watch.read()).status == status.SERVING
    service.readiness.set(serving=False)
    assert (await watch.read()).status == status.NOT_SERVING
    assert service.in_flight.count == 0, "a watch does not hold up the end"
    watch.cancel()


async def test_watches_beyond_their_limit_are_refused(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "MOST_WATCHERS", 1)
    async with serve() as service:
        stub = health_pb2_grpc.HealthStub(service.channel)
        first = stub.Watch(health_pb2.HealthCheckRequest())
        assert (await first.read()).status == health_pb2.HealthCheckResponse.SERVING
        second = stub.Watch(health_pb2.HealthCheckRequest())
        error = await refused(second.read(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        assert "1 callers watch already" in (error.details() or "")
        first.cancel()


def levels(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the levels of the service's log records.

    Without asyncio's, which are of callbacks that gRPC left for the loop of another test.
    """
    return [
        record.levelname
        for record in caplog.records
        if record.name.startswith("headlight_service.")
    ]


async def test_an_unknown_method_is_unimplemented_and_logs_no_failure(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # A method of a newer contract.
    monkeypatch.delattr(HeadlightServicer, "Tokenize")
    async with serve() as service:
        error = await refused(
            service.stub.Tokenize(pb.TokenizeRequest()), grpc.StatusCode.UNIMPLEMENTED
        )
        assert str(error.details()).startswith("the server does not have this method")
        labels = {"grpc_type": "unary", "grpc_service": SERVICE, "grpc_method": "Tokenize"}
        assert service.sample("grpc_server_handled_total", **labels, grpc_code="UNIMPLEMENTED") == 1
    assert not levels(caplog)


async def test_an_internal_error_that_resembles_a_missing_method_is_internal(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve() as service:
        service.engine.broken = NotImplementedError("in some library")
        await refused(service.stub.Encode(request()), grpc.StatusCode.INTERNAL)
    assert levels(caplog) == ["ERROR"]


async def test_reflection_lists_the_services(service: Service) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(service.channel)
    call = stub.ServerReflectionInfo(
        iter([reflection_pb2.ServerReflectionRequest(list_services="")])
    )
    names = {entry.name for entry in (await call.read()).list_services_response.service}
    assert {*SERVICES, "grpc.health.v1.Health"} <= names

"""A new method, path or command has a case; so its answer is recorded."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from headlight.cli.commands import COMMANDS as OF_THE_COMMAND_LINE
from headlight_service.frontends.http import dialects
from tests.wire.today.asking import POOL, Http, Rpc
from tests.wire.today.cases import COMMANDS, CONTRACT, GRPC, HTTP, INFERENCE, OIP, TEI


def test_every_method_has_a_case() -> None:
    services = (CONTRACT, OIP, *(f"tei.v1.{name}" for name in TEI_SERVICES))
    methods = {
        f"{service}/{method.name}"
        for service in services
        for method in POOL.FindServiceByName(service).methods
    }
    called = {each.method for group in (GRPC, INFERENCE, TEI) for each in rpcs(group)}
    assert called == methods


TEI_SERVICES = POOL.FindFileByName("tei/v1/tei.proto").services_by_name


def rpcs(group: dict[str, Any]) -> list[Rpc]:
    return [each for each in group.values() if isinstance(each, Rpc)]


def test_every_path_has_a_case() -> None:
    door: Any = SimpleNamespace(options=SimpleNamespace(page=False))  # all that routes look at now
    routes = {
        f"{route.method} {route.path}" for dialect in dialects.ALL for route in dialect.routes(door)
    }
    lines = {each.line.partition("?")[0] for each in HTTP.values() if isinstance(each, Http)}
    assert {
        route
        for route in routes
        if not any(line.startswith(route.removesuffix("*")) for line in lines)
    } == set()


def test_every_command_that_asks_a_service_has_a_case() -> None:
    ran = {each.words[0] for each in COMMANDS.values()}  # type: ignore[union-attr]
    assert set(OF_THE_COMMAND_LINE["ask a service"]) <= ran

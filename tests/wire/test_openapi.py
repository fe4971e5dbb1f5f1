"""The OpenAPI document is valid, and recorded requests and answers have its schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

import headlight_service
from tests.wire.today.asking import Http, answers_path
from tests.wire.today.cases import GUARDED, HTTP

DOCUMENT: dict[str, Any] = json.loads(
    (Path(headlight_service.__file__).parent / "frontends/http/openapi.json").read_bytes()
)
# The recorded answers are without times.
SCHEMAS = DOCUMENT["components"]["schemas"]
RECORDED = {**SCHEMAS, "Timings": {**SCHEMAS["Timings"], "required": []}}
NO_OPERATION = {405: "OpenAIError", 404: "OpenAIError", 403: "OpenAIError"}
EXCHANGES = [
    pytest.param(group, name, each, id=f"{group}-{name}")
    for group, cases in (("http", HTTP), ("guarded", GUARDED))
    for name, each in cases.items()
    if isinstance(each, Http)
]


def test_the_document_is_valid() -> None:
    OpenAPIV31SpecValidator(DOCUMENT).validate()


@pytest.mark.parametrize(("group", "name", "exchange"), EXCHANGES)
def test_recorded_exchanges_have_the_documented_schemas(
    group: str, name: str, exchange: Http
) -> None:
    answer = json.loads(answers_path(group).read_text(encoding="utf-8"))[name]
    method, _, target = exchange.line.partition(" ")
    operation = operation_of(method.lower(), target.partition("?")[0])
    if operation is None:
        check(answer["body"], reference(NO_OPERATION[answer["status"]]))
        return
    documented = operation["responses"][str(answer["status"])]
    if exchange.shown:
        content = documented.get("content")
        if content is None:
            assert answer["body"] == ""
        else:
            check(answer["body"], content["application/json"]["schema"])
    if answer["status"] == 200 and exchange.body is not None:
        check(exchange.body, operation["requestBody"]["content"]["application/json"]["schema"])


def operation_of(method: str, path: str) -> dict[str, Any] | None:
    """Return the operation of a request; None: it has none."""
    for known, operations in DOCUMENT["paths"].items():
        fixed, brace, _ = known.partition("{")
        if path == known or (brace and path.startswith(fixed)):
            found: dict[str, Any] | None = operations.get(method)
            return found
    return None


def reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def check(value: Any, schema: dict[str, Any]) -> None:
    Draft202012Validator({**schema, "components": {"schemas": RECORDED}}).validate(value)

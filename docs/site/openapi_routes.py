"""Routes of the OpenAPI document, with their statuses and schemas."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from docs.site.openapi_dialects import DIALECTS, SCHEMAS, Operation, ref

CONTRACT = "Headlight"  # its tag
PARAMETER = re.compile(r"{(\w+)}")  # of a path
WITH_NUMBERS = ("EncodeRequest", "CompareRequest", "OccludeRequest")  # whose answers have tensors
REQUESTS = (*WITH_NUMBERS, "RerankRequest", "ClassifyRequest")
RESPONSES = (
    *("EncodeResponse", "CompareResponse", "OccludeResponse", "GetModelResponse"),
    *("RerankResponse", "ClassifyResponse"),
)
ABOUT = (
    "Embeddings and attention weights of a Transformer encoder. The messages are those of the gRPC "
    "contract, headlight.v1, at the tag Headlight: snake_case names, enums as strings, integers of "
    "64 bits as numbers. "
    "In a request, null is absence, and a message that is present, such as `pooled: {}`, requests "
    "its output. The other tags are the APIs of other tools: unknown fields are ignored there. "
    "Errors have the form of the path's API; bytes that are no valid request get OpenAI's."
)
ENCODING = {
    "type": "string",
    "enum": ["list", "base64"],
    "default": "list",
    "description": (
        "Form of `data` in the tensors of the answer. list: nested lists; a ragged tensor has a "
        "list for each input. base64: one string of the little-endian, row-major bytes, with "
        "`dtype` and `shape` or `offsets` beside it."
    ),
}
NUMBERS = {
    "description": (
        "As the request's `encoding` says. In lists, null is an infinite number: the attention "
        "score of a key that the query does not see, or a number beyond the range of FLOAT16. "
        "Absent in the answer to a dry run."
    ),
    "oneOf": [
        {"type": "string", "contentEncoding": "base64"},
        {"type": "array", "items": {}},
    ],
}
ERROR = {
    "type": "object",
    "description": "The body of every answer that is not 200.",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": [
                *("code", "status", "message", "field", "reason"),
                *("metadata", "retry_after_ms", "request_id"),
            ],
            "properties": {
                "code": {"type": "string", "description": "Name of the gRPC status."},
                "status": {"type": "integer", "description": "HTTP status."},
                "message": {"type": "string", "description": "Names the field and the remedy."},
                "field": {
                    "type": ["string", "null"],
                    "description": "The request's field at fault, as inputs[3].text.",
                },
                "reason": {"type": "string", "description": "As Status.reason of the contract."},
                "metadata": {
                    "type": "object",
                    "additionalProperties": {"type": "string"},
                    "description": "As Status.metadata of the contract.",
                },
                "retry_after_ms": {
                    "type": ["integer", "null"],
                    "description": "Delay before a retry. null: unknown, or no retry helps.",
                },
                "request_id": {
                    "type": "string",
                    "description": "Id of the request in the server's log, as x-request-id.",
                },
            },
        }
    },
}
HEADERS = [
    {
        "name": "X-Request-Timeout",
        "in": "header",
        "description": "Deadline of the request, in seconds.",
        "schema": {"type": "number", "exclusiveMinimum": 0},
    },
    {
        "name": "X-Headlight-Priority",
        "in": "header",
        "description": (
            "bulk: the request waits for room in the queue, up to its deadline, before it is "
            "refused."
        ),
        "schema": {"type": "string", "enum": ["interactive", "bulk"]},
    },
]
MODEL = {
    "name": "model",
    "in": "query",
    "description": "Name of the model. Absent: the default model of the server.",
    "schema": {"type": "string"},
}
# Statuses of answers that are not 200, as docs/http.md has them.
PROBLEMS = {
    400: "The request cannot be served; the message names the field and the remedy.",
    401: "The token is missing or wrong.",
    403: "The request comes from another site's page, and the service listens on loopback.",
    404: "There is no such model.",
    408: "The request did not arrive in time.",
    413: "The body is too large, or the request needs more memory than there is.",
    415: "The body is not plain JSON.",
    421: "The Host is not a name of this service, which listens on loopback.",
    422: "As 400, in the terms of text-embeddings-inference.",
    424: "The model failed, or is of another kind.",
    429: "Refused for load or quota; retry-after-ms is the delay before a retry.",
    431: "The head is too large.",
    500: "A bug, or numbers that are not finite; the message has an id of the log.",
    501: "The service does not decode ids.",
    503: "The service drains, or is not ready.",
    504: "The deadline passed.",
}
ANY = (400, 421, 431)  # of public paths, too
ASKED = (*ANY, 401, 403, 404, 500, 503)
POSTED = (*ASKED, 408, 413, 415, 429, 504)
# text-embeddings-inference has other statuses for some failures, and for a lacking token no body.
TEI, TEI_STATUSES = "text-embeddings-inference", {404: 422, 500: 424, 504: 429}
EMPTY_STATUSES = {TEI: (401,)}
HEAD_ERROR = "OpenAIError"  # of 431, when no path is known


def document(schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the document; the schemas are of the contract's messages."""
    paths: dict[str, Any] = {
        "/v1/encode": {"post": _post("Encode", "Encode a batch of inputs")},
        "/v1/compare": {
            "post": _post("Compare", "Scores of passages for a query, and evidence of what matched")
        },
        "/v1/occlude": {
            "post": _post("Occlude", "How far the vector moves when each token is hidden")
        },
        "/v1/rank": {"post": _post("Rerank", "Order documents by their score for a query")},
        "/v1/classify": {"post": _post("Classify", "Labels of inputs, and their scores")},
        "/v1/model": {
            "get": {
                "operationId": "GetModel",
                "tags": [CONTRACT],
                "summary": "Describe a model, its limits and its distance from PyTorch",
                "parameters": [MODEL],
                "responses": _responses("GetModelResponse", ASKED),
            }
        },
    }
    for tag, (error, operations) in DIALECTS.items():
        for (path, method), operation in operations.items():
            paths.setdefault(path, {})[method] = _other(tag, error, path, method, operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Headlight", "version": "v1", "description": ABOUT},
        "security": [{}, {"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": {**schemas, "Error": ERROR, **SCHEMAS},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _post(name: str, summary: str) -> dict[str, Any]:
    return {
        "operationId": name,
        "tags": [CONTRACT],
        "summary": summary,
        "parameters": HEADERS,
        "requestBody": {"required": True, "content": _json(ref(f"{name}Request"))},
        "responses": _responses(f"{name}Response", POSTED),
    }


def _responses(name: str, statuses: Sequence[int]) -> dict[str, Any]:
    good = {"200": {"description": "The answer.", "content": _json(ref(name))}}
    return good | {str(status): _problem(status, "Error") for status in sorted(statuses)}


def _problem(status: int, error: str) -> dict[str, Any]:
    schema = ref(HEAD_ERROR if status == 431 else error)
    return {"description": PROBLEMS[status], "content": _json(schema)}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _other(tag: str, error: str, path: str, method: str, operation: Operation) -> dict[str, Any]:
    """Return an operation of another tool's API."""
    responses = {
        str(status): _problem(status, error) for status in _statuses(tag, path, method, operation)
    }
    for status in EMPTY_STATUSES.get(tag, ()):
        responses[str(status)] = {"description": PROBLEMS[status]}
    for status, schema in operation.answers.items():
        shown: dict[str, Any] = {"description": PROBLEMS.get(status, "The answer.")}
        kind = (schema or {}).get("contentMediaType", "application/json")
        if schema is not None:
            shown["content"] = {kind: {"schema": schema}}
        responses[str(status)] = shown
    made: dict[str, Any] = {
        "operationId": operation.id,
        "tags": [tag],
        "summary": operation.summary,
        "responses": dict(sorted(responses.items())),
    }
    if operation.public:
        made["security"] = [{}]
    if operation.request is not None:
        made["requestBody"] = {"required": True, "content": _json(operation.request)}
    names = PARAMETER.findall(path)
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in names
    ]
    if method == "post":
        parameters += HEADERS
    return {**made, **({"parameters": parameters} if parameters else {})}


def _statuses(tag: str, path: str, method: str, operation: Operation) -> set[int]:
    """Return the statuses of an operation's errors."""
    if operation.public:
        return {*ANY, *((404,) if path.startswith("/docs") else ())}
    statuses = {*(POSTED if method == "post" else ASKED)}
    if tag == TEI:
        named = {404} if path == "/rerank" else set()  # documents come with the name of a model
        statuses = {TEI_STATUSES.get(status, status) for status in statuses} | named
    elif tag != "vLLM" and not path.startswith(("/v1/", "/v2/", "/v3/")):  # it names no model
        statuses -= {404}
    return statuses | ({operation.always} if operation.always else set())

"""Routes of the OpenAPI document: the contract's in full, those of other clients by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

REQUESTS = ("EncodeRequest", "CompareRequest", "OccludeRequest")
RESPONSES = ("EncodeResponse", "CompareResponse", "OccludeResponse", "GetModelResponse")
ABOUT = (
    "Embeddings and attention weights of a Transformer encoder. The messages are those of the gRPC "
    "contract, headlight.v1: snake_case names, enums as strings, integers of 64 bits as numbers. "
    "In a request, null is absence, and a message that is present, such as `pooled: {}`, requests "
    "its output."
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
                *("retry_after_ms", "request_id"),
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
    "description": "Name of the model. Absent: the only model of the server.",
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
OF_TEI = (422, 424)
PUBLIC = ("/", "/health", "/ping", "/openapi.json")  # with GET, without a token
# Paths of other tools' clients: method, path, summary. Their forms are documented by those tools.
OTHERS = (
    ("post", "/v1/embeddings", "OpenAI: embeddings"),
    ("get", "/v1/models", "OpenAI: list of models"),
    ("get", "/v1/models/{model}", "OpenAI: one model"),
    ("post", "/", "text-embeddings-inference: embed or similarity, by the shape of inputs"),
    ("post", "/embed", "text-embeddings-inference: pooled vectors"),
    ("post", "/embed_all", "text-embeddings-inference: token vectors"),
    ("post", "/similarity", "text-embeddings-inference: cosine similarity"),
    ("post", "/tokenize", "text-embeddings-inference: tokens"),
    ("post", "/invocations", "text-embeddings-inference: the same as POST /"),
    ("post", "/predict", "text-embeddings-inference: always 424, no model here classifies"),
    ("post", "/rerank", "text-embeddings-inference: always 424, no model here ranks"),
    ("post", "/embed_sparse", "text-embeddings-inference: always 424, no vector here is sparse"),
    ("post", "/decode", "text-embeddings-inference: always 501"),
    ("get", "/info", "text-embeddings-inference: the model and its limits"),
    ("post", "/vectors", "Weaviate's transformers container: a vector"),
    ("get", "/meta", "Weaviate's transformers container: the model"),
    ("get", "/.well-known/live", "Weaviate's transformers container: whether it answers"),
    ("get", "/.well-known/ready", "Weaviate's transformers container: whether it answers"),
    ("get", "/", "A page for browsers, by Accept: text/html; for others health"),
    ("get", "/health", "Whether the service answers"),
    ("get", "/ping", "Whether the service answers"),
    ("get", "/openapi.json", "This document"),
)


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
        "/v1/model": {
            "get": {
                "operationId": "GetModel",
                "summary": "Describe a model, its limits and its distance from PyTorch",
                "parameters": [MODEL],
                "responses": _responses("GetModelResponse", ASKED),
            }
        },
    }
    for method, path, summary in OTHERS:
        paths.setdefault(path, {})[method] = _other(method, path, summary)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Headlight", "version": "v1", "description": ABOUT},
        "security": [{}, {"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": schemas | {"Error": ERROR},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _post(name: str, summary: str) -> dict[str, Any]:
    return {
        "operationId": name,
        "summary": summary,
        "parameters": HEADERS,
        "requestBody": {"required": True, "content": _json(f"{name}Request")},
        "responses": _responses(f"{name}Response", POSTED),
    }


def _responses(name: str, statuses: Sequence[int]) -> dict[str, Any]:
    return {
        "200": {"description": "The answer.", "content": _json(name)},
        **{
            str(status): {"description": PROBLEMS[status], "content": _json("Error")}
            for status in sorted(statuses)
        },
    }


def _json(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}


def _other(method: str, path: str, summary: str) -> dict[str, Any]:
    statuses: tuple[int, ...] = (
        POSTED if method == "post" else (*ANY, 503) if path in PUBLIC else ASKED
    )
    if summary.startswith("text-embeddings-inference"):
        statuses += (501,) if path == "/decode" else OF_TEI
    problems = {str(status): {"description": PROBLEMS[status]} for status in sorted(statuses)}
    good = {} if "always 4" in summary or "always 5" in summary else {"200": {"description": "OK"}}
    operation: dict[str, Any] = {"summary": summary, "responses": good | problems}
    if method == "post":
        operation["requestBody"] = {"content": {"application/json": {"schema": {}}}}
    if "{model}" in path:
        operation["parameters"] = [{**MODEL, "in": "path", "required": True}]
    return operation

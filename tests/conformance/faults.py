"""Faults of servers as data: the checks that have to fail by each.

A fault changes requests or replies of the right server.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

from tests.conformance.toy_server import TOKEN, Fault, Reply, Request, Right

RIGHT_BODIES: dict[str, Any] = {
    "/v1/embeddings": {"input": "a"},
    "/embed": {"inputs": "a"},
    "/rerank": {"query": "a", "texts": ["a"]},
    "/v2/embed": {"model": "toy", "input_type": "search_query", "texts": ["a"]},
    "/v2/rerank": {"model": "toy", "query": "a", "documents": ["a"]},
    "/v2/models/toy/infer": {
        "inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": ["a"]}]
    },
}


# Makers of faults


def in_replies(change: Callable[[Any], Any]) -> Fault:
    """Return a fault that changes the bodies of right replies."""

    def fault(right: Right, request: Request) -> Reply:
        reply = right(request)
        done = reply.status != 200 or reply.body is None
        return reply if done else replace(reply, body=change(reply.body))

    return fault


def in_fields(change: Callable[[str, Any], Any]) -> Fault:
    """Return a fault that changes the value of each field of right replies, however deep."""

    def walk(value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            value = {key: walk(each, key) for key, each in value.items()}
        elif isinstance(value, list):
            value = [walk(each) for each in value]
        return change(name, value)

    return in_replies(walk)


def in_requests(change: Callable[[Any], Any]) -> Fault:
    """Return a fault that reads other requests than those sent."""

    def fault(right: Right, request: Request) -> Reply:
        right_form = isinstance(request.body, dict)
        return right(replace(request, body=change(request.body)) if right_form else request)

    return fault


def setting(value: Any, *names: str) -> Fault:
    """Return a fault that sets fields of replies to a value."""
    return in_fields(lambda name, other: value if name in names else other)


def losing(*names: str) -> Fault:
    """Return a fault that loses fields of replies."""

    def change(_: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: each for key, each in value.items() if key not in names}
        return value

    return in_fields(change)


def ignoring(*names: str) -> Fault:
    """Return a fault that ignores fields of requests."""
    return in_requests(lambda body: {k: v for k, v in body.items() if k not in names})


def reading(name: str, change: Callable[[Any], Any], if_field: str = "") -> Fault:
    """Return a fault that reads another value of a field of requests, if they have a field."""
    needed = {name, if_field or name}
    return in_requests(lambda b: b | {name: change(b[name])} if needed <= b.keys() else b)


def numbers(change: Callable[[float], float]) -> Fault:
    """Return a fault that changes each number with a fraction."""
    return in_fields(lambda _, value: change(value) if isinstance(value, float) else value)


def broken(path: str) -> Fault:
    """Return a fault of one path."""
    return lambda right, request: Reply(500, {}) if request.path == path else right(request)


def refusing_the_second(status: int, body: Any, **headers: str) -> Fault:
    """Return a fault that refuses each second long text."""
    counted = count()

    def fault(right: Right, request: Request) -> Reply:
        if "word word" in str(request.body) and next(counted) % 2:
            return Reply(status, body, headers)
        return right(request)

    return fault


# Faults


def faults_for_refusals(right: Right, request: Request) -> Reply:
    reply = right(request)
    return reply if reply.status == 200 else replace(reply, status=500)


def refusals_of_another_form(right: Right, request: Request) -> Reply:
    reply = right(request)
    return reply if reply.status == 200 else replace(reply, body={"detail": "no"})


def repaired(right: Right, request: Request) -> Reply:
    """A wrong request is answered as if it were a right one."""
    reply = right(request)
    if reply.status in (200, 401, 404, 405):
        return reply
    return right(replace(request, body=RIGHT_BODIES[request.path]))


def any_model(right: Right, request: Request) -> Reply:
    path = request.path.replace("no-such-model", "toy").replace("/versions/987654", "")
    return reading("model", lambda _: "toy")(right, replace(request, path=path))


def any_token(right: Right, request: Request) -> Reply:
    return right(replace(request, token=TOKEN))


def silence_after_a_long_list() -> Fault:
    stopped = threading.Event()

    def fault(right: Right, request: Request) -> Reply:
        if str(request.body).count("join two paths") > 8:
            stopped.set()
        return Reply(500, {}) if stopped.is_set() else right(request)

    return fault


def answer_of_another() -> Fault:
    """A caller gets the vector of another who calls at the same time."""
    replies: list[Reply] = []

    def fault(right: Right, request: Request) -> Reply:
        reply = right(request)
        if "of many" not in str(request.body):
            return reply
        replies.append(reply)
        return replies[0]

    return fault


def by_length(right: Right, request: Request) -> Reply:
    """Vectors depend on the length of the request, as if padding leaked."""
    factor = 1 + len(str(request.body)) / 1e4
    return numbers(lambda value: value * factor)(right, request)


def sorted_rows(name: str, value: Any) -> Any:
    """Rows come sorted by their numbers, whatever the order of the texts."""
    if not isinstance(value, list) or not value:
        return value
    if isinstance(value[0], list):
        return sorted(value)
    if name == "data" and isinstance(value[0], dict):
        rows = sorted((each["embedding"] for each in value), key=str)
        return [each | {"embedding": row} for each, row in zip(value, rows, strict=True)]
    if name == "data" and isinstance(value[0], float):
        rows = sorted(value[place : place + 16] for place in range(0, len(value), 16))
        return [number for row in rows for number in row]
    return value


def first_words(right: Right, request: Request) -> Reply:
    """A long text is cut to its first words without a word."""

    def short(value: Any, name: str = "") -> Any:
        if isinstance(value, str):
            return " ".join(value.split(" ")[:200])
        if isinstance(value, dict):
            return {key: short(each) for key, each in value.items()}
        return [short(each) for each in value] if isinstance(value, list) else value

    return in_requests(short)(right, request)


def big_endian(name: str, value: Any) -> Any:
    rows = value if name == "base64" else [value]
    if name not in ("embedding", "base64") or not all(isinstance(row, str) for row in rows):
        return value
    raw = [base64.b64decode(row) for row in rows]
    raw = [b"".join(row[at : at + 4][::-1] for at in range(0, len(row), 4)) for row in raw]
    turned = [base64.b64encode(row).decode() for row in raw]
    return turned if name == "base64" else turned[0]


def negative(name: str, value: Any) -> Any:
    wrong = name in ("int8", "uint8", "ubinary", "binary")
    return [[-each for each in row] for row in value] if wrong else value


def from_the_worst(_: str, value: Any) -> Any:
    ranks = isinstance(value, list) and value and isinstance(value[0], dict)
    return value[::-1] if ranks and {"score", "relevance_score"} & value[0].keys() else value


def in_characters(name: str, value: Any) -> Any:
    """Offsets are those of characters."""
    return value - 1 if name == "stop" and isinstance(value, int) and value > 4 else value


def three_tokens(body: Any) -> Any:
    """Only the first three tokens of a text have vectors."""
    return [row[:3] for row in body] if isinstance(body[0][0], list) else body


def wrong_count(right: Right, request: Request) -> Reply:
    reply = right(request)
    return replace(reply, headers=dict.fromkeys(reply.headers, "7"))


# The checks that fail by a fault: in all dialects that have a check of the name, or in one.

REPAIRED = """dimensions-invalid too-long truncate-false truncation-declared truncate-none
empty-string empty-list wrong-types unknown-prompt malformed-body openai:long-list tei:long-list
embed-invalid rerank-invalid wrong-inputs outputs"""
UNKNOWN = "unknown-model ready-unknown-model rerank-unknown-model unknown-version"
PATHS = {
    "health": "/health",
    "root": "/",
    "similarity": "/similarity",
    "openai-path": "/v1/embeddings",
    "live": "/v2/health/live",
    "ready": "/v2/health/ready",
    "server-metadata": "/v2",
    "model-metadata": "/v2/models/toy",
}
OPENAI_ERROR = {"error": {"message": "m", "type": "t", "param": None, "code": None}}


def faults() -> list[tuple[str, Fault]]:
    """Return new faults, as some depend on what they have seen of their server."""
    return [
        (f"{REPAIRED} {UNKNOWN} lone-surrogate unknown-path token", faults_for_refusals),
        (REPAIRED, repaired),
        ("error-body", refusals_of_another_form),
        (UNKNOWN, any_model),
        ("token", any_token),
        ("cancellation", silence_after_a_long_list()),
        ("concurrent-callers", answer_of_another()),
        ("overload", refusing_the_second(500, {"error": "full"})),
        ("openai:overload", refusing_the_second(429, OPENAI_ERROR)),  # without retry-after
        ("tei:overload", refusing_the_second(429, {"error": "full", "error_type": "Backend"})),
        ("cohere:overload", refusing_the_second(429, {"message": "full"})),
        *((check, broken(path)) for check, path in PATHS.items()),
        # Vectors
        ("order", in_fields(sorted_rows)),
        ("order", numbers(lambda _: 0.25)),
        ("single-list", by_length),
        ("unit-length dimensions similarity", numbers(lambda value: 2 * value)),
        ("base64", in_fields(big_endian)),
        ("int8 uint8 binary ubinary", in_fields(negative)),
        (
            "dimensions dimensions-invalid output-dimension",
            ignoring("dimensions", "output_dimension"),
        ),
        ("normalize-false", ignoring("normalize")),
        ("too-long truncate-false truncate-true truncate-none", first_words),
        ("truncate-true tei:wrong-types", ignoring("truncate", "truncation_direction")),
        ("truncation-declared", setting(True, "auto_truncate")),
        ("truncate-start-end", in_requests(lambda body: body | {"truncate": "END"})),
        ("user", reading("input", lambda _: ["b"], if_field="user")),
        ("token-ids", reading("input", lambda ids: ["a", "b"] if ids == [5, 6, 7] else ids)),
        ("several-types", reading("embedding_types", lambda kinds: kinds[:1])),
        ("cohere:long-list", reading("texts", lambda texts: texts[:96])),
        # Forms
        ("usage billed-units", setting(7, "prompt_tokens", "total_tokens", "input_tokens")),
        ("answer-form embed-sparse rerank rerank-return-text", setting(3, "index")),
        ("models", losing("owned_by")),
        ("info", losing("max_input_length")),
        ("cohere:embed-form", losing("id")),
        ("tei:embed-form", in_replies(lambda body: body[0] if len(body) == 1 else body)),
        ("infer-form", setting([1, 1, 1], "shape")),
        ("request-id stream", setting("", "id")),
        ("outputs", ignoring("outputs")),
        ("raw-bytes", ignoring("raw")),
        # Tokens
        ("tokenize", in_fields(in_characters)),
        ("tokenize", in_fields(lambda name, value: not value if name == "special" else value)),
        ("token-counts", wrong_count),
        ("decode", in_replies(lambda body: ["b"] if body == ["join two paths"] else body)),
        ("embed-all", in_replies(three_tokens)),
        # Ranks
        ("rerank predict", in_fields(from_the_worst)),
        ("rerank-single-list", setting(0.5, "score", "relevance_score")),
        ("rerank-raw-scores", reading("texts", lambda texts: texts[::-1], if_field="raw_scores")),
        ("rerank-return-text", ignoring("return_text")),
        ("rerank-v1-documents", ignoring("return_documents")),
        ("rerank-top-n", ignoring("top_n")),
    ]

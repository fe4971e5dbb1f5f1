"""Checks of OpenAI's embeddings; the URL is the client's `base_url`, mostly with /v1 at its end."""

from __future__ import annotations

import base64
import struct
from typing import Any

from tests.conformance import checks
from tests.conformance.checks import (
    ABSENT,
    MISSING,
    TEXTS,
    TOO_LARGE,
    WRONG,
    Body,
    Check,
    HttpDialect,
    Options,
    Vector,
    refusals,
    refused,
    require,
    same,
)
from tests.conformance.http_client import Answer, HttpServer

REFERENCE = "OpenAI API reference, Create embeddings"
RESPONSE = "openai-python, types/create_embedding_response.py"
CLIENT = "openai-python, _base_client.py"
GUIDE = "OpenAI guide, Error codes"
SIGNALS = ("truncat", "warning")  # parts of names of fields and headers


class OpenAI(HttpDialect):
    """A server as OpenAI's clients see it."""

    path, field, waits = "/embeddings", "input", ("retry-after", "retry-after-ms")

    def __init__(self, server: HttpServer, options: Options) -> None:
        super().__init__(server, options)
        self.model = options.model or self._first_model()
        right = {"model": self.model, "input": "a", "encoding_format": "float"}
        self.requests = {self.path: right}

    def _first_model(self) -> str:
        answer = self.server.get("/models")
        if answer.status != 200:
            raise ValueError(f"GET /models is {answer.summary()}: name the model by --model")
        return str(answer.json()["data"][0]["id"])

    def rows(self, answer: Answer) -> list[Vector]:
        return [each["embedding"] for each in answer.json()["data"]]

    def is_error(self, body: Any, status: int) -> bool:
        error = body["error"]
        texts, others = (error["message"], error["type"]), (error["param"], error["code"])
        return all(isinstance(each, str) and each for each in texts) and all(
            each is None or isinstance(each, str) for each in others
        )


def models(api: OpenAI) -> str:
    body = api.accepted(api.server.get("/models")).json()
    require(body["object"] == "list" and body["data"], "GET /models has no list")
    for each in body["data"]:
        for name, kind in (("id", str), ("created", int), ("owned_by", str)):
            require(isinstance(each.get(name), kind), f"{name} of a model is {each.get(name)!r}")
        require(each["object"] == "model", f"object of a model is {each['object']!r}")
    names = [each["id"] for each in body["data"]]
    require(api.model in names, f"{api.model!r} is not among {names}")
    one = api.server.get(f"/models/{api.model}")
    if one.status in MISSING:
        return f"{len(names)} models; one by its name is not offered"
    require(one.json()["id"] == api.model, f"GET /models/{api.model} is {one.summary()}")
    return f"{len(names)} models, and one by its name"


def answer_form(api: OpenAI) -> str:
    body = api.answer(input=TEXTS, encoding_format=ABSENT)
    require(body["object"] == "list", f"object is {body['object']!r}")
    require(isinstance(body["model"], str) and body["model"], f"model is {body['model']!r}")
    require(checks.indices(body["data"]) == list(range(len(TEXTS))), "index does not count")
    for each in body["data"]:
        require(each["object"] == "embedding", f"object of an entry is {each['object']!r}")
    vector = body["data"][0]["embedding"]
    require(isinstance(vector, list), "without encoding_format, embedding is not a list of numbers")
    return f"{len(vector)} numbers a text"


def prompt_tokens(api: OpenAI, texts: list[str]) -> int:
    usage = api.answer(input=texts[0] if len(texts) == 1 else texts)["usage"]
    require(type(usage["prompt_tokens"]) is int, f"usage is {usage}")
    require(usage["prompt_tokens"] == usage["total_tokens"], f"usage is {usage}")
    return int(usage["prompt_tokens"])


def base64_equals_floats(api: OpenAI) -> str:
    floats = api.vectors(TEXTS)
    for inputs, expected in ((TEXTS[0], floats[:1]), (TEXTS, floats)):
        rows = api.rows(api.optional(api.embed(inputs, encoding_format="base64")))
        within = same(api, from_base64(rows), expected, "base64 and float")
    return within


def from_base64(rows: list[Any]) -> list[Vector]:
    """Return vectors of little-endian float32."""
    require(all(isinstance(row, str) for row in rows), "base64 gives a list of numbers")
    raw = [base64.b64decode(row, validate=True) for row in rows]
    return [[number for (number,) in struct.iter_unpack("<f", each)] for each in raw]


def user(api: OpenAI) -> str:
    return same(api, api.vectors(["a"]), api.vectors(["a"], user="someone"), "without and with")


def token_ids(api: OpenAI) -> str:
    alone = api.rows(api.optional(api.embed([5, 6, 7])))
    require(len(alone) == 1, "a list of ids is more than one input")
    lists = api.rows(api.accepted(api.embed([[5, 6, 7], [8, 9]])))
    require(len(lists) == 2, f"two lists of ids give {len(lists)} vectors")
    return same(api, alone, lists[:1], "ids alone and in a list")


def too_long(api: OpenAI) -> str:
    answer = checks.long_text(api)
    if answer.status != 200:
        return refused({f"{api.options.words} words": answer}, TOO_LARGE)
    body = answer.json()
    names = [*answer.headers, *body, *body["data"][0]]
    signals = [name for name in names if any(part in name.lower() for part in SIGNALS)]
    require(signals, "a text that is too long is cut, and the answer does not say so")
    return f"cut, and said by {signals[0]}"


def unknown_path(api: OpenAI) -> str:
    paths = ("/no-such-path", "/embeddings")
    return refused({f"GET {path}": api.server.get(path) for path in paths}, (404, 405))


WRONG_TYPES: dict[str, Body] = {
    "a number": {"input": 5},
    "an object": {"input": {"text": "a"}},
    "a boolean in a list": {"input": [True]},
    "text and number": {"input": ["a", 5]},
    "null in a list": {"input": ["a", None]},
    "no input": {"input": ABSENT},
    "encoding_format 'text'": {"encoding_format": "text"},
}
EMPTY: dict[str, Body] = {"an empty text": {"input": ""}, "one in a list": {"input": ["a", ""]}}
UNKNOWN_MODEL = {"model": "no-such-model"}
CLOSED = "openai-python, timeout and a cancelled task close the connection"
SURROGATE = "JSON: \\ud800 is no character; a server must not fail by it"

CHECKS = [
    Check("models", "OpenAI API reference, List models and Retrieve model", models),
    Check("answer-form", RESPONSE, answer_form),
    Check("usage", RESPONSE, checks.counts(prompt_tokens)),
    Check(
        "base64",
        f"{REFERENCE}: encoding_format; openai-python, resources/embeddings.py",
        base64_equals_floats,
    ),
    Check("dimensions", f"{REFERENCE}: dimensions", checks.dimensions("dimensions")),
    Check("dimensions-invalid", f"{REFERENCE}: dimensions", checks.dimensions_invalid),
    Check("user", f"{REFERENCE}: user", user),
    Check("token-ids", f"{REFERENCE}: input", token_ids),
    Check("order", f"{RESPONSE}: index", checks.order),
    Check("single-list", f"{REFERENCE}: input is a text or a list", checks.text_equals_list),
    Check("unit-length", "OpenAI guide, Embeddings: normalized to length 1", checks.unit_length),
    Check("concurrent-callers", "openai-python, AsyncOpenAI", checks.concurrent_callers),
    Check("too-long", f"{REFERENCE}: input must not exceed the model's tokens", too_long),
    Check("empty-string", f"{REFERENCE}: input cannot be an empty string", refusals(EMPTY)),
    Check("empty-list", f"{REFERENCE}: input", refusals({"an empty list": {"input": []}})),
    Check("wrong-types", f"{REFERENCE}: input, encoding_format", refusals(WRONG_TYPES)),
    Check("malformed-body", f"{GUIDE}: 400", checks.malformed_body),
    Check(
        "lone-surrogate",
        SURROGATE,
        refusals({"a lone one": {"input": "a \ud800 b"}}, (200, *WRONG)),
    ),
    Check(
        "unknown-model",
        f"{GUIDE}: 404; openai-python, NotFoundError",
        refusals({"another name": UNKNOWN_MODEL}, (404,)),
    ),
    Check("long-list", f"{REFERENCE}: at most 2048 inputs", checks.long_list(2049)),
    Check(
        "error-body",
        f"{GUIDE}; {CLIENT}: _make_status_error_from_response",
        checks.error_body(("", {"input": []}), ("", {"input": 5}), ("", UNKNOWN_MODEL)),
    ),
    Check("unknown-path", f"{GUIDE}: 404 and 405", unknown_path),
    Check("token", f"{GUIDE}: 401; {CLIENT}: Authorization", checks.token(in_form=True)),
    Check("cancellation", CLOSED, checks.cancellation),
    Check("overload", f"{GUIDE}: 429; {CLIENT}: _parse_retry_after_header", checks.overload),
]

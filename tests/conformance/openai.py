"""Checks of OpenAI's embeddings; the URL is the client's `base_url`, mostly with /v1 at its end."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Sequence
from typing import Any

from tests.conformance import checks
from tests.conformance.checks import (
    MISSING,
    TEXTS,
    Dialect,
    Failed,
    NotApplicable,
    NotOffered,
    Options,
    Suite,
    Vector,
    all_refused,
    distance,
    long_texts,
    norm,
    refused,
    require,
    same,
    unit,
)
from tests.conformance.http_client import Answer, HttpServer

REFERENCE = "OpenAI API reference, Create embeddings"
RESPONSE = "openai-python, types/create_embedding_response.py"
CLIENT = "openai-python, _base_client.py"
GUIDE = "OpenAI guide, Error codes"
# The guide has BadRequestError for 400 and UnprocessableEntityError for 422.
WRONG = (400, 422)
SIGNALS = ("truncat", "warning")  # parts of names of fields and headers


class OpenAI(Dialect):
    """A server as OpenAI's clients see it."""

    def __init__(self, server: HttpServer, options: Options) -> None:
        self.server, self.options = server, options
        self.model = options.model or self._first_model()

    def _first_model(self) -> str:
        answer = self.server.get("/models")
        if answer.status != 200:
            raise ValueError(f"GET /models is {answer.summary()}: name the model by --model")
        return str(answer.json()["data"][0]["id"])

    def post(self, inputs: Any, **fields: Any) -> Answer:
        """Return the answer to an `input`, whatever its status."""
        return self.server.post("/embeddings", {"model": self.model, "input": inputs} | fields)

    def answer(self, inputs: Any, **fields: Any) -> dict[str, Any]:
        """Return the body of an answer with status 200."""
        answer = self.post(inputs, **fields)
        if answer.status in MISSING:
            raise NotOffered(f"POST /embeddings is {answer.summary()}")
        require(answer.status == 200, f"a right request is {answer.summary()}")
        body: dict[str, Any] = answer.json()
        return body

    def vectors(self, texts: Sequence[str], **fields: Any) -> list[Vector]:
        body = self.answer(list(texts), **({"encoding_format": "float"} | fields))
        return [each["embedding"] for each in body["data"]]

    def attempt(self, text: str) -> Answer:
        return self.post(text)

    def abandon(self, texts: Sequence[str]) -> None:
        self.server.abandon("/embeddings", {"model": self.model, "input": list(texts)})

    def assert_overloaded(self, answer: Answer) -> None:
        require(answer.status == 429, f"a refusal for load is {answer.summary()}")
        assert_error(answer)
        headers = answer.headers
        require("retry-after" in headers or "retry-after-ms" in headers, "429 without retry-after")

    def tokens(self, inputs: Any) -> int:
        """Return `prompt_tokens`."""
        return int(self.answer(inputs)["usage"]["prompt_tokens"])


def assert_error(answer: Answer) -> None:
    """Raise Failed if the body of a refusal is not OpenAI's."""
    summary = f"the body of a refusal is {answer.summary()}"
    try:
        error = answer.json()["error"]
        fields = (error["message"], error["type"])
        optional = (error["param"], error["code"])
    except (ValueError, KeyError, TypeError) as broken:
        raise Failed(f"{summary}: no error with message, type, param and code") from broken
    require(all(isinstance(each, str) and each for each in fields), summary)
    require(all(each is None or isinstance(each, str) for each in optional), summary)


def signalled(answer: Answer) -> str:
    """Return the field or header that says that a text was cut, or nothing."""
    body = answer.json()
    names = [*answer.headers, *body, *body.get("data", [{}])[0]]
    return next((name for name in names if any(part in name.lower() for part in SIGNALS)), "")


OPENAI: Suite[OpenAI] = Suite()


@OPENAI.check("models", "OpenAI API reference, List models and Retrieve model")
def models(api: OpenAI) -> str:
    answer = api.server.get("/models")
    if answer.status in MISSING:
        raise NotOffered(f"GET /models is {answer.summary()}")
    body = answer.json()
    require(body["object"] == "list" and body["data"], f"GET /models is {answer.summary()}")
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


@OPENAI.check("answer-form", RESPONSE)
def answer_form(api: OpenAI) -> str:
    body = api.answer(TEXTS)
    require(body["object"] == "list", f"object is {body['object']!r}")
    require(isinstance(body["model"], str) and body["model"], f"model is {body['model']!r}")
    indices = [each["index"] for each in body["data"]]
    require(indices == list(range(len(TEXTS))), f"index counts {indices}")
    for each in body["data"]:
        require(each["object"] == "embedding", f"object of an entry is {each['object']!r}")
    vector = body["data"][0]["embedding"]
    require(isinstance(vector, list), "without encoding_format, embedding is not a list of numbers")
    return f"{len(vector)} numbers a text"


@OPENAI.check("usage", RESPONSE)
def usage(api: OpenAI) -> str:
    for inputs in (TEXTS[0], TEXTS):
        fields = api.answer(inputs)["usage"]
        require(fields["prompt_tokens"] == fields["total_tokens"], f"usage is {fields}")
        require(type(fields["prompt_tokens"]) is int, f"usage is {fields}")
    each = [api.tokens(text) for text in TEXTS]
    together = api.tokens(TEXTS)
    require(min(each) > 0, f"a text has {min(each)} tokens")
    require(together == sum(each), f"texts have {each} tokens, and together {together}")
    short, long = api.tokens("a path"), api.tokens("a path a path a path")
    require(short < long <= 3 * short, f"a text has {short} tokens, and three times {long}")
    return f"{' + '.join(map(str, each))} = {together}"


@OPENAI.check("base64", f"{REFERENCE}: encoding_format; openai-python, resources/embeddings.py")
def base64_equals_floats(api: OpenAI) -> str:
    floats = api.vectors(TEXTS)
    for inputs, expected in ((TEXTS, floats), (TEXTS[0], floats[:1])):
        answer = api.post(inputs, encoding_format="base64")
        if answer.status in WRONG:
            raise NotOffered(answer.summary())
        body = answer.json()
        decoded = []
        for each in body["data"]:
            require(isinstance(each["embedding"], str), "base64 gives a list of numbers")
            raw = base64.b64decode(each["embedding"], validate=True)
            decoded.append([number for (number,) in struct.iter_unpack("<f", raw)])
        largest = same(api, decoded, expected, "base64 and float")
    return f"little-endian float32; within {largest:.2g}"


@OPENAI.check("dimensions", f"{REFERENCE}: dimensions")
def dimensions(api: OpenAI) -> str:
    full = api.vectors(TEXTS)
    count = len(full[0]) // 2
    answer = api.post(TEXTS, dimensions=count, encoding_format="float")
    if answer.status in WRONG:
        raise NotOffered(answer.summary())
    cut = [each["embedding"] for each in answer.json()["data"]]
    require(len(cut[0]) == count, f"dimensions {count} gives {len(cut[0])} numbers")
    expected = [unit(vector[:count]) for vector in full]
    require(abs(norm(cut[0]) - 1) < 1e-3, f"the length of a cut vector is {norm(cut[0]):.4g}")
    largest = same(api, cut, expected, "a cut vector and the first numbers, of length 1")
    return f"{count} of {len(full[0])}; within {largest:.2g}"


@OPENAI.check("dimensions-invalid", f"{REFERENCE}: dimensions")
def dimensions_invalid(api: OpenAI) -> str:
    width = len(api.vectors(["a"])[0])
    cases = [(f"dimensions {each!r}", each) for each in (0, -1, width + 1, "many")]
    return all_refused([(what, api.post("a", dimensions=each)) for what, each in cases], WRONG)


@OPENAI.check("user", f"{REFERENCE}: user")
def user(api: OpenAI) -> str:
    largest = same(api, api.vectors(["a"]), api.vectors(["a"], user="someone"), "with user")
    return f"accepted, and changes nothing; within {largest:.2g}"


@OPENAI.check("token-ids", f"{REFERENCE}: input")
def token_ids(api: OpenAI) -> str:
    answer = api.post([5, 6, 7], encoding_format="float")
    if answer.status in WRONG:
        raise NotOffered(answer.summary())
    require(answer.status == 200, f"ids are {answer.summary()}")
    require(len(answer.json()["data"]) == 1, "a list of ids is more than one input")
    lists = api.answer([[5, 6, 7], [8, 9]], encoding_format="float")["data"]
    alone = answer.json()["data"][0]["embedding"]
    same(api, [alone], [lists[0]["embedding"]], "ids alone and in a list")
    return "a list of ids is one input, lists of ids are several"


OPENAI.add("order", f"{RESPONSE}: index", checks.order_kept)


@OPENAI.check("single-list", f"{REFERENCE}: input is a text or a list")
def single_list(api: OpenAI) -> str:
    text = api.answer(TEXTS[0], encoding_format="float")["data"]
    require(len(text) == 1, f"one text gives {len(text)} vectors")
    same(api, [text[0]["embedding"]], api.vectors(TEXTS[:1]), "a text and a list of it")
    return checks.single_equals_list(api)


OPENAI.add("unit-length", "OpenAI guide, Embeddings: normalized to length 1", checks.unit_length)
OPENAI.add("concurrent-callers", "openai-python, AsyncOpenAI", checks.concurrent_callers)


@OPENAI.check("too-long", f"{REFERENCE}: input must not exceed the model's tokens")
def too_long(api: OpenAI) -> str:
    one, other = (api.post(text, encoding_format="float") for text in long_texts(api))
    if one.status != 200:
        return refused(one, (*WRONG, 413), f"{api.options.words} words")
    apart = distance(*(each.json()["data"][0]["embedding"] for each in (one, other)))
    if apart > api.options.tolerance:
        raise NotApplicable(f"a text of {api.options.words} words is not too long")
    signal = signalled(one)
    require(signal, "a text that is too long is cut, and the answer does not say so")
    return f"cut, and said by {signal}"


@OPENAI.check("empty-string", f"{REFERENCE}: input cannot be an empty string")
def empty_string(api: OpenAI) -> str:
    inputs = [("an empty text", ""), ("one in a list", ["a", ""])]
    return all_refused([(what, api.post(each)) for what, each in inputs], WRONG)


@OPENAI.check("empty-list", f"{REFERENCE}: input")
def empty_list(api: OpenAI) -> str:
    return refused(api.post([]), WRONG, "an empty list")


@OPENAI.check("wrong-types", f"{REFERENCE}: input, encoding_format")
def wrong_types(api: OpenAI) -> str:
    inputs: list[tuple[str, Any]] = [
        ("a number", 5),
        ("an object", {"text": "a"}),
        ("a boolean in a list", [True]),
        ("text and number", ["a", 5]),
        ("null in a list", ["a", None]),
    ]
    answers = [(what, api.post(each)) for what, each in inputs]
    answers.append(("no input", api.server.post("/embeddings", {"model": api.model})))
    answers.append(("encoding_format 'text'", api.post("a", encoding_format="text")))
    return all_refused(answers, WRONG)


@OPENAI.check("malformed-body", f"{GUIDE}: 400")
def malformed_body(api: OpenAI) -> str:
    bodies = [("half of JSON", b'{"model": "a", "inp'), ("a list", b"[]"), ("no UTF-8", b'"\xff"')]
    sent = [(what, api.server.request("POST", "/embeddings", body)) for what, body in bodies]
    return all_refused(sent, WRONG)


@OPENAI.check("lone-surrogate", "JSON: \\ud800 is no character; a server must not fail by it")
def lone_surrogate(api: OpenAI) -> str:
    answer = api.post("a \ud800 b")
    require(answer.status == 200 or answer.status in WRONG, answer.summary())
    return f"{answer.status}"


@OPENAI.check("unknown-model", f"{GUIDE}: 404; openai-python, NotFoundError")
def unknown_model(api: OpenAI) -> str:
    answer = api.post("a", model="no-such-model")
    return refused(answer, (404,), "another name")


@OPENAI.check("long-list", f"{REFERENCE}: at most 2048 inputs")
def long_list(api: OpenAI) -> str:
    count = 2049
    answer = api.post([f"text {number}" for number in range(count)], encoding_format="float")
    if answer.status != 200:
        return refused(answer, (*WRONG, 413), f"{count} texts")
    data = answer.json()["data"]
    require(len(data) == count, f"{count} texts give {len(data)} vectors")
    last = api.vectors([f"text {count - 1}"])
    same(api, [data[-1]["embedding"]], last, "the last of the list and alone")
    return f"{count} texts are answered, in order"


@OPENAI.check("error-body", f"{GUIDE}; {CLIENT}: _make_status_error_from_response")
def error_body(api: OpenAI) -> str:
    answers = [api.post([]), api.post(5), api.post("a", model="no-such-model")]
    failed = [each for each in answers if each.status >= 400]
    if not failed:
        raise NotApplicable("the server refuses nothing")
    for each in failed:
        assert_error(each)
    return f"{len(failed)} refusals have message, type, param and code"


@OPENAI.check("unknown-path", f"{GUIDE}: 404 and 405")
def unknown_path(api: OpenAI) -> str:
    answers = [("an unknown path", api.server.get("/no-such-path"))]
    answers.append(("GET /embeddings", api.server.get("/embeddings")))
    return all_refused(answers, (404, 405))


@OPENAI.check("token", f"{GUIDE}: 401; {CLIENT}: Authorization")
def token(api: OpenAI) -> str:
    if not api.server.token:
        raise NotApplicable("--token names the server's token")
    body = json.dumps({"model": api.model, "input": "a"}).encode()
    wrong = {"Authorization": "Bearer a-wrong-token"}
    answer = api.server.request("POST", "/embeddings", body, wrong)
    refused(answer, (401,), "a wrong token")
    assert_error(answer)
    return "a wrong token: 401"


OPENAI.check("cancellation", "openai-python, timeout and a cancelled task close the connection")(
    checks.cancellation
)
OPENAI.add("overload", f"{GUIDE}: 429; {CLIENT}: _parse_retry_after_header", checks.overload)

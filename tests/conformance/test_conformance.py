"""Each check passes on a server that keeps its promise, and fails on one that breaks it."""

from __future__ import annotations

import json
import math
import struct
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.__main__ import DIALECTS, main, run
from tests.conformance.checks import Options, Outcome
from tests.conformance.http_client import Answer
from tests.conformance.record import PAGE, page
from tests.conformance.toy_server import (
    TOKEN,
    Fault,
    Request,
    Right,
    keep_promises,
    served,
    served_grpc,
)

SERVERS = {"openai": "http", "tei": "http", "cohere": "http", "oip": "http", "oip-grpc": "grpc"}
OPTIONS = Options(model="toy", words=1200, seconds=3, overload=8)
# REST has no streams, and gRPC reads messages itself.
NOT_APPLICABLE = {"oip": {"stream", "deadline"}, "oip-grpc": {"malformed-body"}}


@contextmanager
def url(server: str, fault: Fault) -> Iterator[str]:
    """Yield the URL of a toy server as a client of the dialect gets it."""
    if SERVERS[server] == "grpc":
        with served_grpc(fault) as at:
            yield f"grpc://{at}"
    else:
        with served(fault) as at:
            yield f"http://{at}/v1" if server == "openai" else f"http://{at}"


def outcomes(
    server: str, fault: Fault = keep_promises, only: tuple[str, ...] = ()
) -> dict[str, Outcome]:
    """Return the outcome of each check."""
    with url(server, fault) as at:
        results = run(server.partition("-")[0], at, OPTIONS, TOKEN, only)
    return {each.name: each.outcome for each in results}


# Faults. Each changes requests or answers of the right server.


def body_changed(change: Callable[[Any], Any]) -> Fault:
    """Return a fault that changes the JSON of right answers."""

    def fault(right: Right, request: Request) -> Answer:
        answer = right(request)
        if answer.status != 200 or not answer.body:
            return answer
        try:
            body = answer.json()
        except ValueError:  # with raw bytes behind it
            return answer
        changed = change(body)
        return Answer(200, answer.headers, json.dumps(changed).encode())

    return fault


def request_changed(change: Callable[[Any], Any]) -> Fault:
    """Return a fault that reads another request than the one sent."""

    def fault(right: Right, request: Request) -> Answer:
        try:
            body = request.json
        except ValueError:
            return right(request)
        return right(request.with_json(change(body)) if isinstance(body, dict) else request)

    return fault


def ignoring(*fields: str) -> Fault:
    """Return a fault that ignores fields of requests."""
    return request_changed(lambda body: {k: v for k, v in body.items() if k not in fields})


def fields_changed(change: Callable[[str, Any], Any]) -> Fault:
    """Return a fault that changes the value of each field, however deep."""

    def walk(value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            value = {key: walk(each, key) for key, each in value.items()}
        elif isinstance(value, list):
            value = [walk(each) for each in value]
        return change(name, value)

    return body_changed(walk)


def set_field(name: str, new: Any) -> Fault:
    return fields_changed(lambda key, value: new if key == name else value)


def numbers_changed(change: Callable[[float], float]) -> Fault:
    """Return a fault that changes each number with a fraction."""
    return fields_changed(lambda _, value: change(value) if isinstance(value, float) else value)


def faults_for_refusals(right: Right, request: Request) -> Answer:
    answer = right(request)
    return answer if answer.status == 200 else Answer(500, {}, answer.body)


def refusals_of_another_form(right: Right, request: Request) -> Answer:
    answer = right(request)
    if answer.status == 200:
        return answer
    return Answer(answer.status, {}, b'{"detail": "no"}')


def silence_after_a_long_list() -> Fault:
    """Return a fault that stops answering after a request of many texts."""
    stopped = threading.Event()

    def fault(right: Right, request: Request) -> Answer:
        if request.body.count(b"join two paths") > 8:
            stopped.set()
        return Answer(500, {}, b"{}") if stopped.is_set() else right(request)

    return fault


def refuse_the_second(status: int, body: dict[str, Any], **headers: str) -> Fault:
    """Return a fault that refuses each second long text."""
    count = iter(range(10**6))

    def fault(right: Right, request: Request) -> Answer:
        if b"word word" in request.body and next(count) % 2:
            return Answer(status, headers, json.dumps(body).encode())
        return right(request)

    return fault


def one_at_a_time() -> Fault:
    """Return a fault that gives a caller the vector of another who calls at the same time."""
    last: list[Answer] = []

    def fault(right: Right, request: Request) -> Answer:
        answer = right(request)
        if b"of many" not in request.body:
            return answer
        last.append(answer)
        return last[0]

    return fault


def by_length(right: Right, request: Request) -> Answer:
    """Vectors depend on the length of the body, as if padding leaked."""
    change = numbers_changed(lambda value: value * (1 + len(request.body) / 1e4))
    return change(right, request)


def reversed_rows(right: Right, request: Request) -> Answer:
    """Rows come sorted by their numbers, whatever the order of the texts."""

    def change(name: str, value: Any) -> Any:
        if isinstance(value, list) and value and isinstance(value[0], list):
            return sorted(value)
        if name == "data" and isinstance(value, list) and len(value) > 1:
            if isinstance(value[0], dict) and "embedding" in value[0]:
                rows = sorted((each["embedding"] for each in value), key=str)
                return [e | {"embedding": row} for e, row in zip(value, rows, strict=True)]
            if isinstance(value[0], float):
                rows = sorted(value[place : place + 16] for place in range(0, len(value), 16))
                return [number for row in rows for number in row]
        return value

    return fields_changed(change)(right, request)


def any_model(right: Right, request: Request) -> Answer:
    path = request.path.replace("no-such-model", "toy").replace("/versions/987654", "")
    moved = Request(request.method, path, request.headers, request.body)
    return request_changed(lambda body: body | ({"model": "toy"} if "model" in body else {}))(
        right, moved
    )


def any_token(right: Right, request: Request) -> Answer:
    headers = request.headers | {"authorization": f"Bearer {TOKEN}"}
    return right(Request(request.method, request.path, headers, request.body))


def one_vector(right: Right, request: Request) -> Answer:
    """All texts have one vector."""
    return numbers_changed(lambda _: 0.25)(right, request)


def first_words(right: Right, request: Request) -> Answer:
    """A long text is cut to its first words without a word."""

    def short(value: Any) -> Any:
        if isinstance(value, str):
            return " ".join(value.split(" ")[:200])
        return [short(each) for each in value] if isinstance(value, list) else value

    def change(body: Any) -> Any:
        names = ("input", "inputs", "texts")
        body = {key: short(value) if key in names else value for key, value in body.items()}
        if isinstance(body.get("inputs"), list) and "/infer" in request.path:
            body["inputs"] = [each | {"data": short(each["data"])} for each in body["inputs"]]
        return body

    return request_changed(change)(right, request)


def repaired(right: Right, request: Request) -> Answer:
    """A wrong request is answered as if it were another one."""
    answer = right(request)
    if answer.status in (200, 401, 404, 405):
        return answer
    bodies: dict[str, Any] = {
        "/v1/embeddings": {"input": "a"},
        "/embed": {"inputs": "a"},
        "/rerank": {"query": "a", "texts": ["a"]},
    }
    types = {"model": "toy", "input_type": "search_query"}
    bodies["/v2/embed"] = types | {"texts": ["a"]}
    bodies["/v2/rerank"] = types | {"query": "a", "documents": ["a"]}
    tensor = {"name": "text", "datatype": "BYTES", "shape": [1], "data": ["a"]}
    body = bodies.get(request.path, {"inputs": [tensor]})
    headers = {"authorization": f"Bearer {TOKEN}"}
    return right(Request("POST", request.path, headers, b"").with_json(body))


def big_endian(name: str, value: Any) -> Any:
    if name in ("embedding", "base64") and isinstance(value, str | list):
        if isinstance(value, list) and (not value or not isinstance(value[0], str)):
            return value
        rows = [value] if isinstance(value, str) else value
        turned = []
        for row in rows:
            numbers = [number for (number,) in struct.iter_unpack("<f", b64decode(row))]
            turned.append(b64encode(struct.pack(f">{len(numbers)}f", *numbers)).decode())
        return turned[0] if isinstance(value, str) else turned
    return value


def negative(name: str, value: Any) -> Any:
    wrong = name in ("int8", "uint8", "ubinary", "binary")
    return [[-each for each in row] for row in value] if wrong else value


def first_type(right: Right, request: Request) -> Answer:
    """Only the first of several types is returned."""

    def change(body: Any) -> Any:
        return body | {"embedding_types": body["embedding_types"][:1]}

    return request_changed(change)(right, request)


def set_counts(right: Right, request: Request) -> Answer:
    answer = right(request)
    return Answer(answer.status, dict.fromkeys(answer.headers, "7"), answer.body)


def three_tokens(body: Any) -> Any:
    """Only the first three tokens of a text have vectors."""
    of_tokens = isinstance(body, list) and isinstance(body[0][0], list)
    return [row[:3] for row in body] if of_tokens else body


def set_field_of_requests(name: str, value: Any) -> Fault:
    return request_changed(lambda body: body | {name: value})


def usage_of_one(name: str, value: Any) -> Any:
    return 7 if name in ("prompt_tokens", "total_tokens", "input_tokens") else value


def backwards(name: str, value: Any) -> Any:
    """Ranks come from the worst to the best."""
    ranks = isinstance(value, list) and value and isinstance(value[0], dict)
    return value[::-1] if ranks and ({"score", "relevance_score"} & value[0].keys()) else value


def same_score(name: str, value: Any) -> Any:
    return 0.5 if name in ("score", "relevance_score") else value


def without_raw(right: Right, request: Request) -> Answer:
    """Raw bytes are answered with typed values."""

    def change(body: Any) -> Any:
        return {k: v for k, v in body.items() if k != "parameters"}

    answer = request_changed(change)(right, request) if not request.body else right(request)
    if answer.status != 200 or "outputs" not in (body := outputs_of(answer)):
        return answer
    return Answer(200, {}, json.dumps(body | {"typed": True}).encode())


def outputs_of(answer: Answer) -> Any:
    """Return the JSON of an answer of toy's infer; raw outputs as if they were empty."""
    size = int(next(iter(answer.headers.values()), len(answer.body)))
    body = json.loads(answer.body[:size] or b"{}")
    for each in body.get("outputs", ()) if isinstance(body, dict) else ():
        if "shape" in each and "parameters" in each:
            each |= {"data": [0] * math.prod(each["shape"])}
            del each["parameters"]
    return body


def lost(*names: str) -> Fault:
    """Return a fault that loses fields of answers."""

    def change(_: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: each for key, each in value.items() if key not in names}
        return value

    return fields_changed(change)


def no_path(path: str, status: int = 500) -> Fault:
    return lambda right, request: (
        Answer(status, {}, b"{}") if request.path == path else right(request)
    )


def gone_specials(name: str, value: Any) -> Any:
    return not value if name == "special" else value


def in_characters(name: str, value: Any) -> Any:
    """Offsets are those of characters."""
    return value - 1 if name == "stop" and isinstance(value, int) and value > 4 else value


# The checks that fail by a fault, for each server.
Broken = list[tuple[Fault, str]]

REFUSED = {
    "openai": "dimensions-invalid too-long empty-string empty-list wrong-types malformed-body"
    " lone-surrogate unknown-model long-list unknown-path token",
    "tei": "dimensions-invalid truncate-false truncation-declared rerank-invalid empty-string"
    " empty-list wrong-types unknown-prompt malformed-body long-list token",
    "cohere": "truncate-none embed-invalid empty-string malformed-body unknown-model"
    " rerank-invalid rerank-unknown-model token",
    "oip": "ready-unknown-model outputs wrong-inputs empty-string too-long unknown-model"
    " unknown-version malformed-body token",
}
NAMED = {"lone-surrogate", "unknown-model", "unknown-version", "unknown-path", "token"}
NAMED |= {"ready-unknown-model", "rerank-unknown-model"}
CUT = {"openai": "too-long", "tei": "truncate-false truncate-true", "cohere": "truncate-none"}
CUT |= {"oip": "too-long"}


def often(dialect: str) -> Broken:
    """Return the faults that every dialect can have."""
    refused = REFUSED[dialect]
    faults: Broken = [
        (faults_for_refusals, refused),
        (repaired, " ".join(each for each in refused.split() if each not in NAMED)),
        (refusals_of_another_form, "error-body"),
        (silence_after_a_long_list(), "cancellation"),
        (one_at_a_time(), "concurrent-callers"),
        (by_length, "single-list"),
        (reversed_rows, "order"),
        (one_vector, "order"),
        (any_model, " ".join(each for each in refused.split() if "unknown-model" in each)),
        (any_token, "token"),
        (first_words, CUT[dialect]),
        (refuse_the_second(500, {"error": "full"}), "overload"),
    ]
    return [(fault, names) for fault, names in faults if names]


def openai_faults() -> Broken:
    full = {"message": "m", "type": "t", "param": None, "code": None}
    return [
        *often("openai"),
        (fields_changed(usage_of_one), "usage"),
        (fields_changed(big_endian), "base64"),
        (ignoring("dimensions"), "dimensions dimensions-invalid"),
        (numbers_changed(lambda value: 2 * value), "unit-length dimensions"),
        (set_field("index", 0), "answer-form"),
        (lost("owned_by"), "models"),
        (request_changed(lambda body: body | ({"input": ["b"]} if "user" in body else {})), "user"),
        (refuse_the_second(429, {"error": full}), "overload"),
        (
            request_changed(
                lambda body: body | ({"input": ["a", "b"]} if body["input"] == [5, 6, 7] else {})
            ),
            "token-ids",
        ),
    ]


RANKED: Broken = [
    (fields_changed(backwards), "rerank"),
    (fields_changed(same_score), "rerank-single-list"),
]


def tei_faults() -> Broken:
    return [
        *often("tei"),
        *RANKED,
        (no_path("/health"), "health"),
        (lost("max_input_length"), "info"),
        (body_changed(lambda body: body[0] if len(body) == 1 else body), "embed-form"),
        (no_path("/", 400), "root"),
        (ignoring("normalize"), "normalize-false"),
        (ignoring("dimensions"), "dimensions dimensions-invalid"),
        (numbers_changed(lambda value: 2 * value), "unit-length dimensions similarity"),
        (ignoring("truncate", "truncation_direction"), "truncate-true wrong-types"),
        (set_field("auto_truncate", True), "truncation-declared"),
        (fields_changed(in_characters), "tokenize"),
        (fields_changed(gone_specials), "tokenize"),
        (set_counts, "token-counts"),
        (body_changed(lambda body: ["b"] if body == ["join two paths"] else body), "decode"),
        (body_changed(three_tokens), "embed-all"),
        (set_field("index", 3), "embed-sparse rerank rerank-return-text"),
        (no_path("/similarity"), "similarity"),
        (ignoring("return_text"), "rerank-return-text"),
        (
            request_changed(
                lambda body: (
                    body | ({"texts": body["texts"][::-1]} if body.get("raw_scores") else {})
                )
            ),
            "rerank-raw-scores",
        ),
        (no_path("/v1/embeddings"), "openai-path"),
        (refuse_the_second(429, {"error": "full", "error_type": "Backend"}), "overload"),
        (fields_changed(backwards), "predict"),
        (numbers_changed(lambda value: value * 0.9), "unit-length"),
    ]


def cohere_faults() -> Broken:
    return [
        *often("cohere"),
        *RANKED,
        (fields_changed(usage_of_one), "billed-units"),
        (fields_changed(big_endian), "base64"),
        (ignoring("output_dimension"), "output-dimension"),
        (lost("id"), "embed-form"),
        (set_field_of_requests("truncate", "END"), "truncate-start-end"),
        (fields_changed(negative), "int8 uint8 binary ubinary"),
        (first_type, "several-types"),
        (ignoring("top_n"), "rerank-top-n"),
        (ignoring("return_documents"), "rerank-v1-documents"),
        (refuse_the_second(429, {"message": "full"}), "overload"),
        (request_changed(lambda body: body | {"texts": body["texts"][:96]}), "long-list"),
    ]


def oip_faults() -> Broken:
    return [
        *often("oip"),
        (no_path("/v2/health/live", 400), "live"),
        (no_path("/v2/health/ready", 400), "ready"),
        (no_path("/v2", 400), "server-metadata"),
        (no_path("/v2/models/toy", 404), "model-metadata"),
        (set_field("shape", [1, 1, 1]), "infer-form"),
        (set_field("id", ""), "request-id stream"),
        (without_raw, "raw-bytes"),
        (ignoring("outputs"), "outputs"),
    ]


FAULTS = {"openai": openai_faults, "tei": tei_faults, "cohere": cohere_faults}
FAULTS |= {"oip": oip_faults, "oip-grpc": oip_faults}


@pytest.mark.parametrize("server", list(SERVERS))
def test_a_server_that_keeps_its_promises_passes(server: str) -> None:
    left_out = NOT_APPLICABLE.get(server, set()) | {"overload"}
    for name, outcome in outcomes(server).items():
        expected = Outcome.NOT_APPLICABLE if name in left_out else Outcome.PASS
        assert (name, outcome) == (name, expected)


@pytest.mark.parametrize("server", list(SERVERS))
def test_each_check_fails_on_a_server_that_breaks_its_promise(server: str) -> None:
    dialect = server.partition("-")[0]
    left = {each.name for each in DIALECTS[dialect][0].checks} - NOT_APPLICABLE.get(server, set())
    for fault, names in FAULTS[server]():
        checks = [each for each in names.split() if each not in NOT_APPLICABLE.get(server, ())]
        results = outcomes(server, fault, tuple(checks))
        assert results == dict.fromkeys(checks, Outcome.FAIL), fault
        left -= results.keys()
    assert left == set(), "no fault breaks these"


def test_an_optional_part_that_is_refused_is_not_offered() -> None:
    def without_base64(right: Right, request: Request) -> Answer:
        return Answer(400, {}, b"{}") if b"base64" in request.body else right(request)

    assert outcomes("openai", without_base64, ("base64",)) == {"base64": Outcome.NOT_OFFERED}
    for path, check in (("/tokenize", "tokenize"), ("/rerank", "rerank"), ("/info", "info")):
        assert outcomes("tei", no_path(path, 404), (check,)) == {check: Outcome.NOT_OFFERED}


def test_the_exit_status_says_whether_a_check_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "results.json"
    wrong = fields_changed(usage_of_one)
    for fault, status, outcome in ((keep_promises, 0, "pass"), (wrong, 1, "fail")):
        with url("openai", fault) as at:
            options = ["--dialect", "openai", "--token", TOKEN, "--only", "usage"]
            assert main([at, *options, "--json", str(out)]) == status
        [check] = json.loads(out.read_text("utf-8"))["checks"]
        assert (check["name"], check["outcome"]) == ("usage", outcome)
        assert outcome in capsys.readouterr().out
    assert main([at, *options]) == 2  # the server is gone
    assert main([at, "--dialect", "openai", "--only", "other"]) == 2
    assert "--list names them" in capsys.readouterr().err


def test_the_page_shows_the_kept_results() -> None:
    assert PAGE.read_text("utf-8") == page(), "nox -s conformance -- --page writes it"

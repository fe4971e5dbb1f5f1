"""OpenAI's door: requests, answers and errors in its form."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

from headlight_service.frontends.contract.json_answer_forms import number_text
from headlight_service.frontends.http.json_answers import DECIMAL
from tests.service.fakes import DIM, FakeRuntime
from tests.service.frontends.http.http_service import HttpService, Reply, http_service

PATH = "/v1/embeddings"


def embeddings(service: HttpService, value: Any, **fields: Any) -> Reply:
    return service.ask(PATH, {"model": "fake", "input": value, **fields})


def error_of(reply: Reply) -> dict[str, Any]:
    """Return the error, which has OpenAI's form and TEI's beside it."""
    body = reply.json
    assert set(body) == {"error", "message", "code", "type"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert (body["message"], body["type"]) == (body["error"]["message"], body["error"]["type"])
    assert body["code"] == reply.status
    return dict(body["error"])


@pytest.mark.parametrize("width", [32, 384, 768, 4096])
def test_no_more_bytes_of_decimals_are_sent_than_are_reserved(width: int) -> None:
    vectors = np.random.default_rng(width).normal(size=(100, width))
    rows = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    assert len(number_text(rows)) <= DECIMAL * rows.nbytes


def test_texts_become_vectors_in_their_order(service: HttpService) -> None:
    reply = embeddings(service, ["a", "bb bb", "ccc"])
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    body = reply.json
    assert (body["object"], body["model"]) == ("list", "fake")
    assert body["usage"] == {"prompt_tokens": 4, "total_tokens": 4}
    assert [(each["object"], each["index"]) for each in body["data"]] == [
        ("embedding", 0),
        ("embedding", 1),
        ("embedding", 2),
    ]
    # The engine's numbers name the sum of the tokens.
    assert [each["embedding"][0] for each in body["data"]] == [1000, 4000, 3000]


@pytest.mark.parametrize("fields", [{}, {"model": None}, {"model": ""}, {"user": "u", "new": [1]}])
def test_the_only_model_needs_no_name_and_unknown_fields_are_ignored(
    service: HttpService, fields: Any
) -> None:
    reply = service.ask(PATH, {"input": "a", **fields})
    assert (reply.status, reply.json["model"]) == (200, "fake")


def test_base64_holds_the_bits_of_the_floats(service: HttpService) -> None:
    floats = embeddings(service, ["a", "bb"], encoding_format=None).json["data"]
    bits = embeddings(service, ["a", "bb"], encoding_format="base64").json["data"]
    for plain, packed in zip(floats, bits, strict=True):
        vector = np.frombuffer(base64.b64decode(packed["embedding"]), dtype="<f4")
        assert vector.tolist() == np.array(plain["embedding"], dtype=np.float32).tolist()
        assert len(vector) == DIM


def test_dimensions_cut_the_vector(service: HttpService) -> None:
    reply = embeddings(service, "a", dimensions=2)
    assert len(reply.json["data"][0]["embedding"]) == 2


def test_a_name_a_role_or_a_task_of_jina_chooses_a_prompt() -> None:
    with http_service(FakeRuntime(prompts={"query": "q q ", "passage": "p ", "x": ""})) as service:
        for fields, tokens in (
            ({"prompt_name": "query"}, 3),
            ({"role": "query"}, 3),
            ({"role": "document"}, 2),
            ({"task": "retrieval.query"}, 3),
            ({"task": "retrieval.passage"}, 2),
            ({"task": "passage"}, 2),
            ({"task": "retrieval.query", "prompt_name": "x"}, 1),
            ({"task": None, "role": None}, 1),
            ({"task": "text-matching"}, 1),
        ):
            answer = embeddings(service, "a", **fields).json
            assert answer["usage"]["prompt_tokens"] == tokens, fields
        for fields in ({"role": "passage"}, {"task": "answering"}, {"prompt_name": "none"}):
            refused = embeddings(service, "a", **fields)
            assert (refused.status, error_of(refused)["param"]) == (400, *fields)


@pytest.mark.parametrize(
    ("body", "param", "says"),
    [
        ({}, "input", "is missing"),
        ({"input": []}, "input", "empty list"),
        ({"input": ""}, "input", "is empty"),
        ({"input": ["a", ""]}, "input", "input[1]: is empty"),
        ({"input": None}, "input", "must be a text"),
        ({"input": True}, "input", "must be a text"),
        ({"input": {"a": 1}}, "input", "must be a text"),
        ({"input": [1, 2, 3]}, "input", "check_embedding_ctx_length=False"),
        ({"input": [[1, 2], [3]]}, "input", "check_embedding_ctx_length=False"),
        ({"input": [["a"]]}, "input", "input[0]: is a list; send one list of texts"),
        ({"input": ["a", 1]}, "input", "input[1]: must be a text"),
        ({"input": [True]}, "input", "input[0]: must be a text"),
        ({"input": [None]}, "input", "input[0]: must be a text"),
        ({"input": "word " * 3000}, "input", "has 3000 tokens"),
        ({"input": ["a"] * 10_000}, "input", "has 10000 entries; give 1 to 2048"),
        ({"input": "a", "dimensions": 0}, "dimensions", "0"),
        ({"input": "a", "dimensions": 5}, "dimensions", "5"),
        ({"input": "a", "dimensions": 2.5}, "dimensions", "whole number"),
        ({"input": "a", "dimensions": True}, "dimensions", "whole number"),
        ({"input": "a", "dimensions": 10**30}, "dimensions", "whole number"),
        ({"input": "a", "encoding_format": "hex"}, "encoding_format", "float or base64"),
        ({"input": "a", "encoding_format": 1}, "encoding_format", "float or base64"),
        ({"input": "a", "truncate": "middle"}, "truncate", "none, start, end"),
        ({"input": "a", "truncate": True}, "truncate", "none, start or end"),
        ({"input": "a", "prompt_name": 1}, "prompt_name", "must be a text"),
        ({"input": "a", "model": 1}, "model", "must be a text"),
        (["a"], None, "JSON object"),
        ("a", None, "JSON object"),
        (b'{"input": "\\ud83d"}', None, "has a lone surrogate"),
        (b'{"input": "\xed\xa0\xbd"}', None, "has a lone surrogate"),
        (b'{"input": "\xff"}', None, "is not valid UTF-8 (at byte 11)"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_bad_input_is_refused_with_its_field(
    service: HttpService, body: Any, param: str | None, says: str
) -> None:
    reply = service.ask(PATH, body)
    error = error_of(reply)
    assert reply.status == 400
    assert (error["type"], error["param"], error["code"]) == (
        "invalid_request_error",
        param,
        None,
    )
    assert says in error["message"]
    assert reply.headers["x-should-retry"] == "false"
    assert service.engine.batches == []


def test_an_unknown_model_is_not_found(service: HttpService) -> None:
    for reply in (
        embeddings(service, "a", model="text-embedding-3-small"),
        service.ask("/v1/models/org/other"),
    ):
        error = error_of(reply)
        assert (reply.status, error["code"], error["param"]) == (
            404,
            "model_not_found",
            "model",
        )
        assert "fake" in error["message"]


def test_a_long_text_is_cut_on_request(service: HttpService) -> None:
    long = "b " * 3000 + "ccc"
    assert embeddings(service, long).status == 400
    for edge in ("END", "start"):  # recorded answers show that each cuts its own end
        assert embeddings(service, long, truncate=edge).status == 200


@pytest.mark.parametrize(
    ("dimensions", "warns"), [(None, False), (2, False), (4, False), (3, True)]
)
def test_an_untrained_width_has_a_warning(dimensions: int | None, warns: bool) -> None:
    with http_service(FakeRuntime(dimensions=(2,))) as service:
        body = embeddings(service, "a", dimensions=dimensions).json
        assert ("warnings" in body) == warns
        if warns:
            assert body["warnings"][0].startswith("dimensions: 3 is not among the widths")


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/embeddings", "let the client's base URL end in /v1"),
        ("/v1/v1/embeddings", "leave /v1 off the client's base URL"),
        ("/v1/embed_all", "there is /embed_all: leave /v1 off the client's base URL"),
    ],
)
def test_a_wrong_base_url_is_named(service: HttpService, path: str, says: str) -> None:
    reply = service.ask(path, {"input": "a"})
    assert reply.status == 404
    assert says in error_of(reply)["message"]


def test_models_are_listed() -> None:
    with http_service(FakeRuntime(name="org/fake")) as service:
        [listed] = service.ask("/v1/models").json["data"]
        assert listed == {
            "id": "org/fake",
            "object": "model",
            "created": 0,
            "owned_by": "headlight",
        }
        for path in ("/v1/models/org/fake", "/v1/models/org%2Ffake", "//v1//models/org/fake/"):
            assert service.ask(path).json == listed


def test_an_answer_above_the_limit_names_a_smaller_request() -> None:
    with http_service(max_stream_output_bytes=1024) as service:
        reply = embeddings(service, ["a"] * 100)
        assert reply.status == 400
        assert "the first 64 of these 100 inputs would fit" in error_of(reply)["message"]

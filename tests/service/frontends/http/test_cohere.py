"""Vectors in Cohere's form: types, roles, and what is refused."""

from __future__ import annotations

import base64
import dataclasses
from typing import Any

import numpy as np
import pytest

from headlight.runtime import Runtime
from tests.service.fakes import FakeRuntime
from tests.service.frontends.http.http_service import HttpService, Reply, http_service
from tests.wire.test_openapi import check, operation_of

TEXTS = ["red", "a planet"]
WIDTH = 32
EVERY_TYPE = ["float", "int8", "uint8", "binary", "ubinary", "base64"]


def embed(service: HttpService, path: str = "/v2/embed", **fields: Any) -> Reply:
    body = {"texts": TEXTS, **fields}
    reply = service.ask(path, body)
    operation = operation_of("post", path)
    assert operation is not None
    if reply.status == 200:
        check(body, operation["requestBody"]["content"]["application/json"]["schema"])
    schema = operation["responses"][str(reply.status)]["content"]["application/json"]["schema"]
    check(reply.json, schema)
    return reply


def test_texts_have_vectors_in_every_type(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges = np.stack([np.full(WIDTH, -0.3), np.full(WIDTH, 0.4)]).astype(np.float32)
    forms = dataclasses.replace(runtime.forms, ranges={WIDTH: ranges})
    monkeypatch.setattr(runtime, "forms", forms)
    types: dict[str, Any] = {"embedding_types": [*EVERY_TYPE, "float"], "input_type": "clustering"}
    contents = [{"content": [{"type": "text", "text": text}]} for text in TEXTS]
    with http_service(runtime) as service:
        reply = embed(service, output_dimension=WIDTH, **types)
        whole = embed(service, texts=None, inputs=contents).json
    answer = reply.json
    assert list(answer["embeddings"]) == EVERY_TYPE
    vectors = np.array(answer["embeddings"]["float"], np.float32)
    np.testing.assert_allclose(vectors, runtime.encode(TEXTS, dimensions=WIDTH), atol=1e-5)
    steps = np.clip(np.floor((vectors - ranges[0]) / ((ranges[1] - ranges[0]) / 255)), 0, 255)
    assert answer["embeddings"]["uint8"] == steps.tolist()
    assert answer["embeddings"]["int8"] == (steps - 128).tolist()
    bits = np.packbits(vectors > 0, axis=-1).astype(int)
    assert answer["embeddings"]["ubinary"] == bits.tolist()
    assert answer["embeddings"]["binary"] == (bits - 128).tolist()
    for text, vector in zip(answer["embeddings"]["base64"], vectors, strict=True):
        assert base64.b64decode(text) == vector.tobytes()
    assert (answer["texts"], answer["response_type"]) == (TEXTS, "embeddings_by_type")
    assert answer["meta"]["api_version"] == {"version": "2"}
    assert answer["meta"]["billed_units"]["input_tokens"] > len(TEXTS)
    np.testing.assert_allclose(whole["embeddings"]["float"], runtime.encode(TEXTS), atol=1e-5)
    assert "warnings" not in whole["meta"]
    assert answer["meta"]["warnings"][0].startswith("output_dimension: 32 is not among")


def test_the_first_version_has_one_list_unless_types_are_named(runtime: Runtime) -> None:
    with http_service(runtime) as service:
        plain = embed(service, "/v1/embed").json
        typed = embed(service, "/v1/embed", embedding_types=["float"]).json
    assert (plain["response_type"], plain["meta"]["api_version"]) == (
        "embeddings_floats",
        {"version": "1"},
    )
    assert typed["response_type"] == "embeddings_by_type"
    assert plain["embeddings"] == typed["embeddings"]["float"]


@pytest.mark.parametrize(
    ("input_type", "tokens"),
    [
        ("search_query", 2),
        ("search_document", 3),
        ("clustering", 4),
        ("classification", 1),
        (None, 1),
    ],
)
def test_the_type_of_input_chooses_the_prompt(input_type: str | None, tokens: int) -> None:
    prompts = {"query": "q ", "passage": "p p ", "clustering": "c c c "}
    with http_service(FakeRuntime(prompts=prompts)) as service:
        answer = embed(service, texts=["a"], input_type=input_type).json
    assert answer["meta"]["tokens"] == {"input_tokens": tokens}


def test_texts_are_cut_at_their_end_unless_the_request_says_otherwise() -> None:
    long = ["word " * 3000]
    with http_service(FakeRuntime()) as service:
        assert embed(service, texts=long).json["meta"]["tokens"] == {"input_tokens": 2000}
        refused = embed(service, texts=long, truncate="NONE")
    assert refused.status == 400
    assert refused.json["message"].startswith("texts[0]: has 3000 tokens")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"texts": None}, "texts: must be a list of texts"),
        ({"texts": []}, "texts: is empty"),
        ({"texts": ["a", ""]}, "texts[1]: is empty"),
        ({"texts": ["a", 1]}, "texts[1]: must be a text"),
        ({"texts": ["a"] * 3000}, "texts: has 3000 entries"),
        ({"texts": None, "inputs": [{"content": [{"type": "text", "text": ""}]}]}, "inputs[0]: is"),
        (
            {"texts": None, "inputs": [{"content": [{"type": "image_url", "image_url": {}}]}]},
            "inputs[0]: must be an object as",
        ),
        ({"texts": None, "inputs": 5}, "inputs: must be a list"),
        ({"inputs": [{"content": []}]}, "inputs: is not applied here"),
        ({"images": ["data:image/png;base64,AA"]}, "images: is not applied here"),
        ({"embedding_types": []}, "embedding_types: is empty"),
        ({"embedding_types": ["float", "int4"]}, "embedding_types[1]: must be one of float"),
        ({"embedding_types": ["float", ["int8"]]}, "embedding_types[1]: must be one of float"),
        ({"embedding_types": "float"}, "embedding_types: must be a list of names"),
        ({"embedding_types": ["int8"]}, "embedding_types: int8 of 4 dimensions needs their ranges"),
        ({"embedding_types": ["binary"]}, "output_dimension: is 4; binary packs 8"),
        ({"output_dimension": 9}, "output_dimension: is 9"),
        ({"input_type": "image"}, "input_type: must be one of search_query"),
        ({"truncate": "MIDDLE"}, "truncate: must be one of none"),
        ({"max_tokens": 8}, "max_tokens: is not applied here"),
        ({"model": "embed-v4.0"}, "model: not served here"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_be_embedded_is_named(
    service: HttpService, change: dict[str, Any], message: str
) -> None:
    reply = embed(service, **change)
    assert reply.status == (404 if "model" in change else 400), reply.body
    assert reply.json["message"].startswith(message)
    assert service.engine.batches == []

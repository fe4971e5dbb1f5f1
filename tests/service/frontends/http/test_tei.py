"""The door of text-embeddings-inference: requests, answers and errors in its form."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from headlight import Client, __version__
from headlight.runtime import Runtime
from tests.service.conftest import Serve
from tests.service.fakes import DIM, MAX_LENGTH, FakeRuntime
from tests.service.frontends.http.http_service import HttpService, Reply, http_service

TEXTS = ["two paths", "a", "été: 日本"]
HEADERS = (
    *("x-compute-time", "x-compute-characters", "x-compute-tokens", "x-total-time"),
    *("x-tokenization-time", "x-queue-time", "x-inference-time"),
)


def refused(reply: Reply, status: int, kind: str) -> str:
    """Return the message of an error in TEI's form."""
    assert (reply.status, reply.json["error_type"]) == (status, kind), reply.body
    assert set(reply.json) == {"error", "error_type"}
    return str(reply.json["error"])


async def test_numbers_are_those_of_the_grpc_client(serve: Serve, runtime: Runtime) -> None:
    async with serve(runtime) as over_grpc:  # on this loop, so all that waits has a thread
        await asyncio.to_thread(_compare, over_grpc.target, runtime)


def _compare(target: str, runtime: Runtime) -> None:
    with http_service(runtime) as service, Client(target) as client:
        vectors = client.encode(TEXTS, normalize=True)
        for path in ("/", "/embed", "/invocations", "//embed/"):
            found = service.ask(path, {"inputs": TEXTS}).json
            np.testing.assert_allclose(found, vectors, atol=1e-6)
        short = {"inputs": TEXTS[0], "normalize": False, "dimensions": 4}
        expected = client.encode(TEXTS[:1], normalize=False, dimensions=4)
        np.testing.assert_allclose(service.ask("/embed", short).json, expected, atol=1e-6)
        rows = service.ask("/embed_all", {"inputs": TEXTS}).json
        for one, other in zip(rows, client.encode_tokens(TEXTS), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6)
        inputs = {"source_sentence": TEXTS[0], "sentences": TEXTS[1:]}
        for path in ("/", "/similarity"):
            found = service.ask(path, {"inputs": inputs, "parameters": {}}).json
            np.testing.assert_allclose(found, vectors[1:] @ vectors[0], atol=1e-6)


def test_inputs_are_texts_and_ids_alone_or_mixed(service: HttpService) -> None:

    def first(value: Any) -> list[float]:
        reply = service.ask("/embed", {"inputs": value, "unknown": 1})
        assert reply.status == 200, reply.body
        return [row[0] for row in reply.json]

    # The engine's numbers name the sum of the ids; a word's id is its length.
    assert first("bb ccc") == [5000]
    assert first(["a", "bb"]) == [1000, 2000]
    assert first([2, 3]) == [5000]
    assert first([[2, 3], [4], "a"]) == [5000, 4000, 1000]


def test_an_answer_has_its_size_and_times(service: HttpService) -> None:
    reply = service.ask("/embed", {"inputs": ["one two", "three"]})
    assert reply.headers["x-compute-type"] == "cpu"
    numbers = {name: int(reply.headers[name]) for name in HEADERS}
    assert (numbers["x-compute-characters"], numbers["x-compute-tokens"]) == (12, 3)


def test_a_list_may_have_as_many_texts_as_info_says() -> None:
    with http_service(max_items=40) as service:
        assert service.ask("/info").json["max_client_batch_size"] == 40
        assert len(service.ask("/embed", {"inputs": ["a"] * 40}).json) == 40
        message = refused(service.ask("/embed", {"inputs": ["a"] * 41}), 422, "Validation")
        assert message == "inputs: has 41 entries; give 1 to 40"
        similar = {"source_sentence": "a", "sentences": ["b"] * 40}
        refused(service.ask("/similarity", {"inputs": similar}), 422, "Validation")


@pytest.mark.parametrize(("truncation", "status"), [("refuse", 422), ("end", 200)])
def test_absent_truncate_is_that_of_the_service(truncation: str, status: int) -> None:
    long = "a " * (MAX_LENGTH + 1)
    with http_service(truncation=truncation) as service:
        assert service.ask("/info").json["auto_truncate"] is (truncation == "end")
        for fields in ({}, {"truncate": None}):
            assert service.ask("/embed", {"inputs": long, **fields}).status == status
        refused(service.ask("/embed", {"inputs": long, "truncate": False}), 422, "Validation")
        cut = {"inputs": long, "truncate": True, "truncation_direction": "Left"}
        assert service.ask("/embed", cut).status == 200


def test_prompts_are_named() -> None:
    runtime = FakeRuntime(prompts={"query": "find this: "})
    with http_service(runtime) as service:
        reply = service.ask("/embed", {"inputs": "a", "prompt_name": "query"})
        assert reply.headers["x-compute-tokens"] == "3"
        message = refused(
            service.ask("/embed", {"inputs": "a", "prompt_name": "other"}), 422, "Validation"
        )
        assert message == "prompt_name: is not a prompt of this model; choose query"


def test_tokens_have_offsets_in_bytes(runtime: Runtime) -> None:
    text = "é a"
    with http_service(runtime) as service:
        [tokens, other] = service.ask("/tokenize", {"inputs": [text, "a"]}).json
        assert set(tokens[0]) == {"id", "text", "special", "start", "stop"}
        assert (tokens[0]["special"], tokens[0]["start"], tokens[0]["stop"]) == (True, None, None)
        own = [token for token in tokens if not token["special"]]
        for token in own:
            assert text.encode()[token["start"] : token["stop"]].decode() == token["text"]
        bare = service.ask("/tokenize", {"inputs": text, "add_special_tokens": False}).json
        assert bare == [own]
        assert len(other) < len(tokens)


def test_the_description_has_every_field_of_the_contract(service: HttpService) -> None:
    info = service.ask("/info").json
    assert info == {
        "model_id": "fake",
        "model_sha": "ab" * 32,
        "model_dtype": "float32",
        "served_model_name": "fake",
        "model_type": {"embedding": {"pooling": "mean"}},
        "max_concurrent_requests": info["max_concurrent_requests"],
        "max_input_length": MAX_LENGTH,
        "max_batch_tokens": info["max_batch_tokens"],
        "max_batch_requests": None,
        "max_client_batch_size": 2048,
        "auto_truncate": False,
        "tokenization_workers": 1,
        "version": __version__,
        "sha": None,
        "docker_label": None,
    }


@pytest.mark.parametrize("inputs", ["", [], ["a", ""], [[]], [[1], []]])
def test_nothing_to_encode_is_empty(service: HttpService, inputs: Any) -> None:
    assert "is empty" in refused(service.ask("/embed", {"inputs": inputs}), 400, "Empty")
    similar = {"source_sentence": "a", "sentences": []}
    refused(service.ask("/", {"inputs": similar}), 400, "Empty")


WRONG: dict[str, dict[str, Any]] = {
    "inputs[0]: must be a text": {},
    "inputs[1]: must be a text": {"inputs": ["a", 1]},
    "inputs[0]: must be a text, or a list": {"inputs": 5},
    "inputs[0]: must be a text, or a list of token ids": {"inputs": [True]},
    "inputs[0]: holds a number": {"inputs": [-1]},
    "inputs[1]: ": {"inputs": ["a", [10_000]]},
    "dimensions: is 5": {"inputs": "a", "dimensions": DIM + 1},
    "dimensions: must be a whole number": {"inputs": "a", "dimensions": "4"},
    "truncate: must be true or false": {"inputs": "a", "truncate": 1},
    "truncation_direction: must be one of": {"inputs": "a", "truncation_direction": "up"},
    "normalize: must be true or false": {"inputs": "a", "normalize": "yes"},
    "encoding_format: must be float": {"inputs": "a", "encoding_format": "base64"},
}


@pytest.mark.parametrize("expected", WRONG)
def test_an_invalid_request_names_the_field(service: HttpService, expected: str) -> None:
    message = refused(service.ask("/embed", WRONG[expected]), 422, "Validation")
    assert message.startswith(expected)


@pytest.mark.parametrize("path", ["/similarity", "/"])
def test_similarity_names_its_own_fields(service: HttpService, path: str) -> None:
    long = "a " * (MAX_LENGTH + 1)
    for source, sentences, field in (
        (long, ["b"], "inputs.source_sentence"),
        ("a", ["b", long], "inputs.sentences[1]"),
    ):
        inputs = {"source_sentence": source, "sentences": sentences}
        reply = service.ask(path, {"inputs": inputs, "parameters": {"truncate": False}})
        assert refused(reply, 422, "Validation").startswith(f"{field}: ")


@pytest.mark.parametrize(
    ("path", "status"),
    [("/embed_sparse", 424), ("/predict", 424), ("/rerank", 424), ("/decode", 501)],
)
def test_what_the_service_has_not_is_refused(service: HttpService, path: str, status: int) -> None:
    refused(service.ask(path, {"inputs": "a"}), status, "Backend")


def test_the_description_depends_on_the_task() -> None:
    with http_service(FakeRuntime(task="classify", labels=("bad", "good"))) as service:
        assert service.ask("/info").json["model_type"] == {
            "classifier": {
                "id2label": {"0": "bad", "1": "good"},
                "label2id": {"bad": 0, "good": 1},
            }
        }


def test_an_overloaded_service_says_when_to_retry(service: HttpService) -> None:
    outputs = service.model.admission.outputs
    taken = outputs.free
    outputs.take(taken)
    reply = service.ask("/embed", {"inputs": "a"})
    outputs.take(-taken)
    refused(reply, 429, "Overloaded")
    assert int(reply.headers["retry-after"]) >= 1


def test_a_failed_batch_is_a_failure_of_the_backend(service: HttpService) -> None:
    service.engine.fail()
    refused(service.ask("/embed", {"inputs": "a"}), 424, "Backend")

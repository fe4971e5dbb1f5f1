"""Vectors that are matched one by one, by each door, and by role."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from headlight import AsyncClient, InvalidInput
from headlight.runtime import Runtime
from headlight.spec import InputRole
from headlight_service.frontends.grpc.tei import tei_messages as pb
from headlight_service.frontends.oip import inference_messages as oip
from tests.service.conftest import Serve
from tests.service.frontends.grpc.tei.tei_calls import call, call_stream
from tests.service.frontends.http.http_service import HttpService, http_service
from tests.service.frontends.oip.inference_calls import InferenceStub, arrays, of_texts
from tests.wire.test_openapi import check, operation_of

TEXTS = ["red", "a planet, and more", "abcde"]
ROLES: tuple[InputRole | None, ...] = ("query", "document", None)


async def test_the_contract_has_vectors_by_role(serve: Serve, matching: Runtime) -> None:
    async with serve(matching) as service, AsyncClient(service.target) as client:
        described = await client.model()
        assert (described.multi_vector_dim, described.query_tokens) == (16, 12)
        for role in ROLES:
            texts = [text[:10] for text in TEXTS]
            expected = matching.encode_multi_vector(texts, role=role)
            answers = await client.encode_multi_vector(texts, role=role)
            for ours, each in zip(answers, expected, strict=True):
                np.testing.assert_allclose(ours, each, atol=1e-5)
            [binary, *_] = await client.encode_multi_vector(texts, role=role, dtype="ubinary")
            np.testing.assert_array_equal(binary, np.packbits(expected[0] > 0, axis=-1))
        with pytest.raises(InvalidInput, match="has 15 tokens"):
            await client.encode_multi_vector("planetplanets", role="query")
        tokens = await client.tokenize(TEXTS[:1], role="query")
        assert tokens == matching.tokenize(TEXTS[:1], role="query")


def test_json_has_vectors_by_role(matching: Runtime) -> None:
    expected = matching.encode_multi_vector(TEXTS, role="document")
    with http_service(matching) as service:
        body = {
            "inputs": [{"text": text} for text in TEXTS],
            "outputs": {"multi_vector": {}},
            "role": "INPUT_ROLE_DOCUMENT",
        }
        answer = service.ask("/v1/encode", body)
        assert answer.status == 200, answer.body
        for row, each in zip(answer.json["multi_vector"]["data"], expected, strict=True):
            np.testing.assert_allclose(row, each, atol=1e-5)
        refused = service.ask("/v1/encode", body | {"role": "answer"})
        assert refused.status == 400
        assert "role" in refused.json["error"]["message"]


def close(rows: Any, expected: Any) -> None:
    for row, each in zip(rows, expected, strict=True):
        np.testing.assert_allclose(row, each, atol=1e-5)


def conforms(path: str, body: Any, answer: Any) -> None:
    """Check a request and its answer against the document."""
    operation = operation_of("post", path)
    assert operation is not None
    check(body, operation["requestBody"]["content"]["application/json"]["schema"])
    check(answer, operation["responses"]["200"]["content"]["application/json"]["schema"])


@pytest.fixture(scope="module")
def service(matching: Runtime) -> Iterator[HttpService]:
    with http_service(matching) as service:
        yield service


def test_jina_has_vectors_by_role_in_its_types(service: HttpService, matching: Runtime) -> None:
    def ask(value: Any, **fields: Any) -> Any:
        body = {"model": service.model.name, "input": value, **fields}
        reply = service.ask("/v1/multi-vector", body)
        assert reply.status == 200, reply.body
        answer = reply.json
        conforms("/v1/multi-vector", body, answer)
        assert answer["usage"]["prompt_tokens"] == answer["usage"]["total_tokens"] > 0
        assert [each["index"] for each in answer["data"]] == [*range(len(answer["data"]))]
        return [each["embeddings"] for each in answer["data"]]

    short = [text[:9] for text in TEXTS]
    documents = matching.encode_multi_vector(short, role="document")
    queries = matching.encode_multi_vector(short, role="query")
    assert len(queries[0]) == 12 != len(documents[0])
    close(ask(short), documents)
    close(ask([{"text": text} for text in short], input_type="document"), documents)
    close(ask(short, input_type="query", dimensions=16), queries)
    close(ask({"text": short[0]}), documents[:1])
    [texts] = ask(short[0], embedding_type="base64")
    close([np.frombuffer(base64.b64decode(text), "<f4") for text in texts], documents[0])
    bits = np.packbits(documents[0] > 0, axis=-1).astype(int)
    assert ask(short[0], embedding_type="ubinary") == [bits.tolist()]
    assert ask(short[0], embedding_type="binary") == [(bits - 128).tolist()]
    assert len(ask(["planet" * 9], truncate=True)[0]) > 12


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"input": None}, "input: is missing"),
        ({"input": []}, "input: is empty"),
        ({"input": ["a", ""]}, "input[1]: is empty"),
        ({"input": ["a", {"image": "b"}]}, "input[1]: must be a text, or an object as"),
        ({"input": ["a"] * 3000}, "input: has 3000 entries"),
        ({"input": "planet" * 9}, "input[0]: has 56 tokens"),
        ({"input_type": "answer"}, "input_type: must be one of query, document"),
        ({"embedding_type": "int4"}, "embedding_type: must be one of float, base64"),
        ({"embedding_type": ["float"]}, "embedding_type: must be a text"),
        ({"encoding_format": "hex"}, "encoding_format: must be one of float"),
        ({"dimensions": 8}, "dimensions: is 8; these vectors have 16, and are not cut"),
        ({"late_chunking": True}, "late_chunking: is not applied here"),
        ({"model": "jina-colbert-v2"}, "model: not served here"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_jina_refuses_is_named(
    service: HttpService, change: dict[str, Any], message: str
) -> None:
    reply = service.ask("/v1/multi-vector", {"input": "a", **change})
    assert reply.status == (404 if "model" in change else 400), reply.body
    assert reply.json["detail"].startswith(message)


def test_a_model_without_such_vectors_says_so() -> None:
    with http_service() as service:
        reply = service.ask("/v1/multi-vector", {"input": "a"})
        assert reply.status == 400
        assert reply.json["detail"].startswith("model: this model gives no multi_vector")


def test_other_doors_have_the_vectors_of_documents(service: HttpService, matching: Runtime) -> None:
    expected = matching.encode_multi_vector(TEXTS, role="document")
    close(service.ask("/embed_all", {"inputs": TEXTS}).json, expected)
    body = {"input": TEXTS, "task": "token_embed"}
    answer = service.ask("/pooling", body).json
    conforms("/pooling", body, answer)
    close([each["data"] for each in answer["data"]], expected)
    [query] = service.ask("/pooling", {**body, "input": "red", "role": "query"}).json["data"]
    close([query["data"]], matching.encode_multi_vector(["red"], role="query"))
    for field, value in (("use_activation", False), ("dimensions", 8)):
        reply = service.ask("/pooling", {**body, field: value})
        assert (reply.status, reply.json["error"]["param"]) == (400, field)


def test_a_model_for_such_vectors_alone_has_them_where_others_have_one(
    service: HttpService, matching: Runtime
) -> None:
    expected = matching.encode_multi_vector(TEXTS, role="document")
    close(service.ask("/", {"inputs": TEXTS}).json, expected)
    pooled = service.ask("/pooling", {"input": TEXTS}).json["data"]
    close([each["data"] for each in pooled], expected)
    assert list(service.ask("/info", method="GET").json["model_type"]) == ["embedding"]
    reply = service.ask("/rerank", {"query": "a", "texts": ["b"]})
    assert (reply.status, reply.json["error"][-22:]) == (424, "; call POST /embed_all")
    for path, body, problem in (
        ("/embed", {"inputs": "a"}, "inputs: this model gives no pooled"),
        ("/v2/embed", {"texts": ["a"]}, "model: this model gives no pooled"),
        ("/pooling", {"input": "a", "task": "embed"}, "task: this model gives no pooled"),
    ):
        refused = service.ask(path, body).json
        assert str(refused.get("message", refused["error"])).startswith(problem)


async def test_tei_and_the_open_inference_protocol_have_them_over_grpc(
    serve: Serve, matching: Runtime
) -> None:
    expected = matching.encode_multi_vector(TEXTS, role="document")
    requests = [pb.EmbedAllRequest(inputs=text) for text in TEXTS]
    async with serve(matching) as service:
        answer = await call(service.channel, "EmbedAll", requests[0])
        streamed = await call_stream(service.channel, "EmbedAllStream", requests)
        for ours, each in zip([answer, *streamed], [expected[0], *expected], strict=True):
            close([row.embeddings for row in ours.token_embeddings], each)
        stub = InferenceStub(service.channel)
        name = service.model.name
        for role in ("document", "query"):
            texts = [text[:9] for text in TEXTS]
            vectors = matching.encode_multi_vector(texts, role=role)
            message = of_texts(*texts, model=name, role=role)
            ours = arrays(await stub.ModelInfer(message))
            assert ours["lengths"].tolist() == [len(each) for each in vectors]
            for row, ids, each in zip(
                ours["multi_vector"], ours["input_ids"], vectors, strict=True
            ):
                np.testing.assert_allclose(row[: len(each)], each, atol=1e-5)
                assert not row[len(each) :].any()
                assert ids[: len(each)].all()
                assert not {32, 33, 34} & {*ids.tolist()} or role == "query"
        bits = arrays(
            await stub.ModelInfer(
                of_texts("red", model=name, dtype="ubinary", outputs=["multi_vector"])
            )
        )
        packed = np.packbits(expected[0] > 0, axis=-1)
        np.testing.assert_array_equal(bits["multi_vector"], [packed])
        described = await stub.ModelMetadata(oip.ModelMetadataRequest(name=name))
        assert [*described.outputs[0].shape] == [-1, -1, 16]

"""Sparse vectors by each door: gRPC, JSON and text-embeddings-inference."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import numpy as np
import pytest

from headlight import AsyncClient, InvalidInput, SparseVector
from headlight.runtime import Runtime
from headlight_service.frontends.grpc.tei import tei_messages as pb
from headlight_service.frontends.oip import inference_messages as oip
from tests import scorers
from tests.service.calls import refused
from tests.service.conftest import Serve
from tests.service.frontends.grpc.tei.tei_calls import call, call_stream
from tests.service.frontends.http.http_service import http_service
from tests.service.frontends.oip.inference_calls import InferenceStub, arrays, of_texts
from tests.wire.test_openapi import check, operation_of

TEXTS = ["red", "a planet, and more of it", "green"]


@pytest.fixture(scope="module")
def weighting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    with Runtime(scorers.bundle(tmp_path_factory, "sparse"), threads=1) as runtime:
        yield runtime


def same(terms: dict[int, float], expected: SparseVector) -> None:
    assert [*terms] == expected.indices.tolist()
    np.testing.assert_allclose([*terms.values()], expected.values, rtol=1e-5)


async def test_the_contract_and_tei_over_grpc(serve: Serve, weighting: Runtime) -> None:
    expected = weighting.encode_sparse(TEXTS)
    assert len({len(each.indices) for each in expected}) > 1
    async with serve(weighting) as service, AsyncClient(service.target) as client:
        for ours, each in zip(await client.encode_sparse(TEXTS), expected, strict=True):
            same(dict(zip(ours.indices.tolist(), ours.values.tolist(), strict=True)), each)
        short = (await client.encode_sparse(TEXTS, top_k=3, min_weight=0.01))[1]
        assert set(short.indices) <= set(expected[1].indices)
        assert len(short.indices) == 3
        with pytest.raises(InvalidInput, match=r"outputs\.sparse\.top_k: is 9999; this model"):
            await client.encode_sparse(TEXTS, top_k=9999)
        requests = [pb.EmbedSparseRequest(inputs=text) for text in TEXTS]
        answer = await call(service.channel, "EmbedSparse", requests[0])
        streamed = await call_stream(service.channel, "EmbedSparseStream", requests)
        assert answer.metadata.compute_tokens > 0
        for found, each in zip([answer, *streamed], [expected[0], *expected], strict=True):
            same({one.index: one.value for one in found.sparse_embeddings}, each)


async def test_the_open_inference_protocol(serve: Serve, weighting: Runtime) -> None:
    expected = weighting.encode_sparse(TEXTS)
    async with serve(weighting) as service:
        stub, name = InferenceStub(service.channel), service.model.name
        ours = arrays(await stub.ModelInfer(of_texts(*TEXTS, model=name)))
        assert list(ours) == ["sparse", "sparse_indices"]
        for weights, terms, each in zip(*ours.values(), expected, strict=True):
            count = len(each.indices)
            same(dict(zip(terms[:count].tolist(), weights[:count].tolist(), strict=True)), each)
            assert not weights[count:].any()
        best = of_texts(TEXTS[0], model=name, top_k=2, min_weight=0.01)
        found = arrays(await stub.ModelInfer(best))
        [two] = weighting.encode_sparse(TEXTS[0], top_k=2, min_weight=0.01)
        assert found["sparse_indices"].tolist() == [two.indices.tolist()]
        described = await stub.ModelMetadata(oip.ModelMetadataRequest(name=name))
        assert [each.datatype for each in described.outputs] == ["FP32", "UINT32"]
        for options, problem in (
            ({"top_k": 9999}, "parameters.top_k: is 9999"),
            ({"min_weight": "much"}, "parameters.min_weight: must be a number"),
            ({"min_weight": -1.0}, "parameters.min_weight: must be a number of at least 0"),
        ):
            call_ = stub.ModelInfer(of_texts("a", model=name, **options))
            error = await refused(call_, grpc.StatusCode.INVALID_ARGUMENT)
            assert (error.details() or "").startswith(problem)


def test_json_and_tei_over_http(weighting: Runtime) -> None:
    expected = weighting.encode_sparse(TEXTS)
    with http_service(weighting) as service:
        for path in ("/embed_sparse", "/"):
            reply = service.ask(path, {"inputs": TEXTS})
            assert reply.status == 200, reply.body
            operation = operation_of("post", path)
            assert operation is not None
            content = operation["responses"]["200"]["content"]["application/json"]
            check(reply.json, content["schema"])
            for row, each in zip(reply.json, expected, strict=True):
                same({one["index"]: one["value"] for one in row}, each)
        body = {"inputs": [{"text": TEXTS[0]}], "outputs": {"sparse": {"top_k": 2}}}
        answer = service.ask("/v1/encode", body).json
        [best] = weighting.encode_sparse(TEXTS[0], top_k=2)
        assert answer["sparse_indices"]["data"] == [best.indices.tolist()]
        np.testing.assert_allclose(answer["sparse"]["data"][0], best.values, rtol=1e-5)
        info = service.ask("/info", method="GET").json
        assert info["model_type"] == {"embedding": {"pooling": "splade"}}
        assert service.ask("/rerank", {"query": "a", "texts": ["b"]}).status == 424


def test_one_request_has_dense_sparse_and_multi_vectors(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    bundle = scorers.bundle(tmp_path_factory, "three")
    with Runtime(bundle, threads=1) as runtime, http_service(runtime) as service:
        dense, multi = runtime.encode(TEXTS), runtime.encode_multi_vector(TEXTS)
        sparse = runtime.encode_sparse(TEXTS)
        outputs = {key: dict[str, str]() for key in ("pooled", "sparse", "multi_vector")}
        body = {"inputs": [{"text": text} for text in TEXTS], "outputs": outputs}
        answer = service.ask("/v1/encode", body).json
        tei = {
            path: service.ask(path, {"inputs": TEXTS}).json
            for path in ("/", "/embed_sparse", "/embed_all")
        }
    np.testing.assert_allclose(tei["/"], dense, rtol=1e-5, atol=1e-6)
    for terms, each in zip(tei["/embed_sparse"], sparse, strict=True):
        same({one["index"]: one["value"] for one in terms}, each)
    np.testing.assert_allclose(tei["/embed_all"][0], multi[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(answer["pooled"][0]["data"], dense, rtol=1e-5, atol=1e-6)
    for at, each in enumerate(sparse):
        assert 0 < len(each.indices) < len(multi[at])  # special tokens have no weight
        row = zip(answer["sparse_indices"]["data"][at], answer["sparse"]["data"][at], strict=True)
        same({term: weight for term, weight in row if weight}, each)
        rows = answer["multi_vector"]["data"][at]
        np.testing.assert_allclose(rows, multi[at], rtol=1e-5, atol=1e-6)

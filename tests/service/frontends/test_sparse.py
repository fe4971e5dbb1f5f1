"""Sparse vectors by each door: gRPC, JSON and text-embeddings-inference."""

from __future__ import annotations

import dataclasses

import grpc
import numpy as np
import pytest

from headlight import AsyncClient, InvalidInput, SparseVector
from headlight.comparison import EvidenceSpec
from headlight.outputs.registry import OUTPUTS
from headlight.pb import headlight_pb2 as contract
from headlight.runtime import Runtime
from headlight.spec import SparseSpec
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


def vocabulary(runtime: Runtime, vector: SparseVector) -> tuple[str, ...]:
    assert runtime.tokenizer is not None
    return runtime.tokenizer.pieces(vector.indices.tolist())


def weights(vector: SparseVector) -> dict[int, float]:
    return dict(zip(vector.indices.tolist(), vector.values.tolist(), strict=True))


def same(terms: dict[int, float], expected: SparseVector) -> None:
    assert [*terms] == expected.indices.tolist()
    np.testing.assert_allclose([*terms.values()], expected.values, rtol=1e-5)


async def test_the_contract_and_tei_over_grpc(serve: Serve, weighting: Runtime) -> None:
    expected = weighting.encode_sparse(TEXTS)
    assert len({len(each.indices) for each in expected}) > 1
    async with serve(weighting) as service, AsyncClient(service.target) as client:
        for ours, each in zip(await client.encode_sparse(TEXTS), expected, strict=True):
            same(weights(ours), each)
        short = (await client.encode_sparse(TEXTS, top_k=3, min_weight=0.01))[1]
        assert set(short.indices) <= set(expected[1].indices)
        assert len(short.indices) == 3
        [spelled] = await client.encode_sparse(TEXTS[1], pieces=True)
        assert spelled.pieces == vocabulary(weighting, spelled) != ()
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
        sparse = {"top_k": 2, "pieces": True}
        body = {"inputs": [{"text": TEXTS[0]}], "outputs": {"sparse": sparse}}
        answer = service.ask("/v1/encode", body).json
        [best] = weighting.encode_sparse(TEXTS[0], top_k=2)
        assert answer["sparse_indices"]["data"] == [best.indices.tolist()]
        [item] = answer["items"]
        assert item["terms"] == {"pieces": [*vocabulary(weighting, best)]}
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


async def test_a_stream_spells_the_terms_of_many_texts(serve: Serve, weighting: Runtime) -> None:
    texts = TEXTS * 300
    async with serve(weighting) as service, AsyncClient(service.target) as client:
        streamed = await client.encode_sparse(texts, pieces=True)
        expected = weighting.encode_sparse(TEXTS, pieces=True)
        for ours, each in zip(streamed, expected * 300, strict=True):
            assert ours.pieces == each.pieces == vocabulary(weighting, each)


async def test_a_spelling_that_may_be_too_large_is_refused_before_it_is_computed(
    serve: Serve, weighting: Runtime
) -> None:
    async with serve(weighting, max_unary_response_bytes=3000) as service:
        inputs = [contract.Input(text="red")] * 4
        requests = [
            contract.EncodeRequest(
                inputs=inputs,
                outputs=contract.Outputs(sparse=contract.SparseOutput(top_k=60, pieces=pieces)),
            )
            for pieces in (False, True)
        ]
        assert (await service.stub.Encode(requests[0])).data_bytes == 4 * 60 * 8
        with pytest.raises(grpc.aio.AioRpcError, match=r"outputs\.sparse.* over 3000"):
            await service.stub.Encode(requests[1])


def test_terms_have_no_spelling_without_a_tokenizer(weighting: Runtime) -> None:
    model = dataclasses.replace(weighting.model(), accepts=("ids",))
    with pytest.raises(InvalidInput, match=r"outputs\.sparse\.pieces: this model has no tokenizer"):
        OUTPUTS["sparse"].choose(SparseSpec(pieces=True), model, weighting.forms)


QUERY = "red planet"
EVIDENCE = [EvidenceSpec(method="terms"), EvidenceSpec(method="occlusion", unit="token")]


def test_shared_terms_sum_to_the_score_of_a_comparison(weighting: Runtime) -> None:
    comparison = weighting.compare(QUERY, TEXTS, evidence=EVIDENCE)
    query, *passages = (weights(each) for each in weighting.encode_sparse([QUERY, *TEXTS]))
    assert comparison.similarity == "dot"
    for each, passage in zip(comparison, passages, strict=True):
        products = {term: weight * passage.get(term, 0.0) for term, weight in query.items()}
        assert each.score == pytest.approx(sum(products.values()), rel=1e-5)
        terms, occlusion = each.evidence
        assert terms.weights.sum() == pytest.approx(each.score, rel=1e-5)
        assert (np.diff(terms.weights) <= 0).all()
        assert terms.terms is not None
        assert {*terms.terms.terms} == {term for term, product in products.items() if product}
        for term, product in zip(terms.terms.terms, terms.weights, strict=True):
            assert product == pytest.approx(products[term], rel=1e-5)
        assert weighting.tokenizer is not None
        assert terms.terms.pieces == weighting.tokenizer.pieces(terms.terms.terms)
        assert len(occlusion.weights) == len(occlusion.units) > 0
    assert comparison.passages[1].evidence[1].weights.any()


LARGEST = [EvidenceSpec(method="terms", top_k=3)]


async def test_shared_terms_over_grpc(serve: Serve, weighting: Runtime) -> None:
    expected = weighting.compare(QUERY, TEXTS, evidence=LARGEST, sort=True)
    async with serve(weighting) as service, AsyncClient(service.target) as client:
        comparison = await client.compare(QUERY, TEXTS, evidence=LARGEST, sort=True)
        assert len(await client.compare(QUERY, TEXTS)) == len(TEXTS)
        with pytest.raises(InvalidInput, match=r"evidence\[0\]\.method: .* use terms or occlusion"):
            await client.compare(QUERY, TEXTS, evidence="attention")
    assert comparison.similarity == "dot"
    for ours, each in zip(comparison, expected, strict=True):
        assert ours.index == each.index
        assert ours.score == pytest.approx(each.score, rel=1e-5)
        [mine], [its] = ours.evidence, each.evidence
        assert mine.terms is not None
        assert its.terms is not None
        assert len(its.terms.terms) == 3
        assert (mine.terms.terms, mine.terms.pieces) == (its.terms.terms, its.terms.pieces)
        np.testing.assert_allclose(mine.weights, its.weights, rtol=1e-4)


def test_shared_terms_as_json(weighting: Runtime) -> None:
    expected = weighting.compare(QUERY, TEXTS, evidence=LARGEST)
    body = {
        "query": {"text": QUERY},
        "passages": [{"text": text} for text in TEXTS],
        "evidence": [{"method": "EVIDENCE_METHOD_TERMS", "top_k": 3}],
    }
    with http_service(weighting) as service:
        reply = service.ask("/v1/compare", body)
    assert reply.status == 200, reply.body
    for row, each in zip(reply.json["passages"], expected, strict=True):
        [listed], [its] = row["evidence"], each.evidence
        assert its.terms is not None
        assert listed["terms"]["terms"] == list(its.terms.terms)
        assert listed["terms"]["pieces"] == list(its.terms.pieces)
        np.testing.assert_allclose(listed["weights"]["data"], its.weights, rtol=1e-4)
        for side in ("query", "passage"):
            values = listed["terms"][side]["data"]
            np.testing.assert_allclose(values, getattr(its.terms, side), rtol=1e-4)


def test_other_models_have_no_shared_terms(ranking: Runtime, runtime: Runtime) -> None:
    for model, problem in (
        (ranking, "needs vectors of the query"),
        (runtime, "this model gives no sparse"),
    ):
        with pytest.raises(InvalidInput, match=rf"evidence\[0\]\.method: {problem}"):
            model.compare("a", ["b"], evidence="terms")


def test_a_model_of_three_kinds_has_shared_terms_beside_its_score(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with Runtime(scorers.bundle(tmp_path_factory, "three"), threads=1) as runtime:
        comparison = runtime.compare("red", TEXTS[:2], evidence="terms")
        query, *passages = (weights(each) for each in runtime.encode_sparse(["red", *TEXTS[:2]]))
    assert comparison.similarity == "cosine"
    for each, passage in zip(comparison, passages, strict=True):
        products = sum(weight * passage.get(term, 0.0) for term, weight in query.items())
        assert each.evidence[0].weights.sum() == pytest.approx(products, rel=1e-5)

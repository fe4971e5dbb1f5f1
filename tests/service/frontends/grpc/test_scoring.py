"""Rerank and Classify over headlight.v1: ranks and labels of the runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest

from headlight.pb import headlight_pb2 as pb
from headlight.runtime import Runtime
from headlight_service.core.admission.rate_limit import Quotas
from headlight_service.security.auth_tokens import AuthTokens
from headlight_service.security.authentication import Authenticator
from tests.service.batching import Clock
from tests.service.calls import refused
from tests.service.conftest import Serve
from tests.service.security.test_authentication import GOOD, TOKEN

QUERY, DOCUMENTS = "what is red", ["red", "a planet, and more of it", "x" * 60, "green"]
CUT = pb.TRUNCATION_CUT_END
INVALID = grpc.StatusCode.INVALID_ARGUMENT


def rerank(**fields: Any) -> pb.RerankRequest:
    return pb.RerankRequest(query=QUERY, documents=DOCUMENTS, truncation=CUT, **fields)


async def test_documents_are_ranked(serve: Serve, ranking: Runtime) -> None:
    expected = ranking.rerank(QUERY, DOCUMENTS)
    async with serve(ranking) as service:
        answer = await service.stub.Rerank(rerank())
        assert [each.index for each in answer.results] == [each.index for each in expected]
        for found, each in zip(answer.results, expected, strict=True):
            assert found.logit == pytest.approx(each.logit, abs=1e-5)
            assert found.score == pytest.approx(each.score, abs=1e-6)
            assert found.item.original_token_count - found.item.token_count == each.cut_tokens
            assert found.item.truncated == (each.index == 2)
            assert not found.HasField("document")
        assert answer.usage.token_count == sum(each.item.token_count for each in answer.results)
        assert answer.model.bundle_sha256 == ranking.model().bundle_sha256
        best = await service.stub.Rerank(rerank(top_n=1, return_documents=True))
        [found] = best.results
        assert (found.index, found.document) == (expected[0].index, expected[0].document)
        dry = await service.stub.Rerank(rerank(dry_run=True))
        assert (len(dry.results), dry.usage) == (0, answer.usage)


async def test_texts_and_pairs_are_classified(serve: Serve, classifying: Runtime) -> None:
    expected = classifying.classify(["a text", ("a text", "two")])
    pair = pb.Input(pair=pb.TextPair(first="a text", second="two"))
    inputs = [pb.Input(text="a text"), pair]
    async with serve(classifying) as service:
        answer = await service.stub.Classify(pb.ClassifyRequest(inputs=inputs))
        for found, labels in zip(answer.results, expected, strict=True):
            assert [each.label for each in found.labels] == [each.label for each in labels]
            for ours, theirs in zip(found.labels, labels, strict=True):
                assert ours.logit == pytest.approx(theirs.logit, abs=1e-5)
                assert ours.score == pytest.approx(theirs.score, abs=1e-6)
        best = await service.stub.Classify(pb.ClassifyRequest(inputs=inputs, top_n=1))
        assert [[each.label for each in found.labels] for found in best.results] == [
            [labels[0].label] for labels in expected
        ]
        dry = await service.stub.Classify(pb.ClassifyRequest(inputs=inputs, dry_run=True))
        assert (len(dry.results), dry.usage) == (0, answer.usage)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"documents": []}, "documents: is empty"),
        ({"documents": ["a", ""]}, "documents[1]: is empty"),
        ({"query": "", "documents": ["a"]}, "query: is empty"),
        ({"documents": ["a", "b" * 60]}, "documents[1]: has 72 tokens"),
        ({"documents": ["a"] * 2049}, "documents: has 2049 entries; give 1 to 2048"),
        ({"documents": ["a"], "top_n": 0}, "top_n: must be a whole number from 1"),
        ({"documents": ["a"], "truncation": 9}, "truncation: "),
        (
            {"query": "q" * 37, "documents": ["a"], "truncation": pb.TRUNCATION_CUT_SECOND},
            "query: has 40 tokens with special tokens",
        ),
        (
            {"documents": ["a " * 1000] * 100, "truncation": CUT, "return_documents": True},
            "documents: the answer would have 207",
        ),
    ],
)
async def test_refusals_name_the_fields_of_the_caller(
    serve: Serve, ranking: Runtime, fields: dict[str, Any], message: str
) -> None:
    async with serve(ranking, max_unary_response_bytes=100_000) as service:
        error = await refused(
            service.stub.Rerank(pb.RerankRequest(**{"query": QUERY, **fields})), INVALID
        )
        assert (error.details() or "").startswith(message)


async def test_models_of_other_tasks_are_refused(serve: Serve, classifying: Runtime) -> None:
    async with serve(classifying) as service:
        error = await refused(service.stub.Rerank(rerank()), INVALID)
        assert (error.details() or "").startswith("model: gives 3 scores")
    async with serve() as service:
        for call in (
            service.stub.Rerank(rerank()),
            service.stub.Classify(pb.ClassifyRequest(inputs=[pb.Input(text="a")])),
        ):
            error = await refused(call, INVALID)
            assert (error.details() or "").startswith("model: this model gives no scores")


async def test_quota_counts_the_query_for_each_document(
    serve: Serve, ranking: Runtime, tmp_path: Path
) -> None:
    quotas, tokens = Quotas(100, 200, Clock()), tmp_path / "tokens"
    tokens.write_text(f"search {TOKEN}\n", encoding="ascii")
    authenticator, bucket = Authenticator(AuthTokens(tokens, lambda: None)), quotas.of("search")
    request = pb.RerankRequest(query=QUERY, documents=[f"{at:03}" for at in range(1000)])
    async with serve(ranking, authenticator=authenticator, quotas=quotas) as service:
        answer = await service.stub.Rerank(request, **GOOD)
        each = len("whatisred") + 3 + 3  # a character is a token, and three are special
        assert answer.usage.token_count == 1000 * each == 20_000 - bucket.level
        bucket.spend(bucket.level - each * 400)
        await refused(service.stub.Rerank(request, **GOOD), grpc.StatusCode.RESOURCE_EXHAUSTED)
        assert bucket.level == each * 400, "nothing was tokenised"

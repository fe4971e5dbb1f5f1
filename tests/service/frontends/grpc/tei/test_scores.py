"""Ranks and labels over tei.v1: those of the runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest

from headlight.runtime import Runtime
from headlight_service.app.assembly import assemble
from headlight_service.app.executor import Executor
from headlight_service.config.options import Config
from headlight_service.frontends.grpc.tei import tei_messages as pb
from headlight_service.telemetry.metrics import Metrics
from tests.service.conftest import Serve
from tests.service.fakes import FakeRuntime
from tests.service.frontends.grpc.tei.tei_calls import call, call_stream

QUERY, TEXTS = "what is red", ["red", "a planet, and more of it", "x" * 60, "green"]
INVALID = grpc.StatusCode.INVALID_ARGUMENT


async def test_texts_are_ranked(serve: Serve, ranking: Runtime) -> None:
    expected = ranking.rerank(QUERY, TEXTS)
    request = pb.RerankRequest(query=QUERY, texts=TEXTS, truncate=True)
    async with serve(ranking) as service:
        asked = call(service.channel, "Rerank", request)
        answer = await asked
        assert [each.index for each in answer.ranks] == [each.index for each in expected]
        for rank, each in zip(answer.ranks, expected, strict=True):
            assert rank.score == pytest.approx(each.score, abs=1e-6)
            assert not rank.HasField("text")
        assert answer.metadata.compute_chars == sum(map(len, TEXTS)) + 4 * len(QUERY)
        headers = dict(await asked.initial_metadata())
        assert headers["x-compute-tokens"] == str(answer.metadata.compute_tokens)
        raw = pb.RerankRequest(raw_scores=True, return_text=True)
        raw.MergeFrom(request)
        best = (await call(service.channel, "Rerank", raw)).ranks[0]
        assert best.text == expected[0].document
        assert best.score == pytest.approx(expected[0].logit, abs=1e-5)


async def test_a_reranker_beside_the_default_model_ranks(serve: Serve, ranking: Runtime) -> None:
    expected = [each.index for each in ranking.rerank(QUERY, TEXTS)]
    config = Config(bundle=Path("none"))
    executor = Executor(config, ranking.workers.streams)
    async with serve(FakeRuntime()) as service:
        service.pipeline.models.add(assemble(ranking, config, Metrics(), executor))
        request = pb.RerankRequest(query=QUERY, texts=TEXTS, truncate=True)
        answer = await call(service.channel, "Rerank", request)
    executor.scheduler.close()
    assert [each.index for each in answer.ranks] == expected


async def test_texts_and_pairs_are_classified(serve: Serve, classifying: Runtime) -> None:
    [alone], [pair] = classifying.classify(["a text"]), classifying.classify([("a text", "two")])
    text = pb.PredictRequest(inputs="a text")
    texts = pb.PredictPairRequest(inputs=["a text", "two"])
    async with serve(classifying) as service:
        answers = [
            await call(service.channel, "Predict", text),
            *await call_stream(service.channel, "PredictStream", [text]),
            await call(service.channel, "PredictPair", texts),
            *await call_stream(service.channel, "PredictPairStream", [texts]),
        ]
        for answer, expected in zip(answers, [alone, alone, pair, pair], strict=True):
            assert [each.label for each in answer.predictions] == [each.label for each in expected]
            for found, each in zip(answer.predictions, expected, strict=True):
                assert found.score == pytest.approx(each.score, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "request_", "code", "message"),
    [
        ("Rerank", pb.RerankRequest(query="a"), INVALID, "texts: is empty"),
        ("Rerank", pb.RerankRequest(query="a", texts=["b", ""]), INVALID, "texts[1]: is empty"),
        ("Rerank", pb.RerankRequest(texts=["b"]), INVALID, "query: is empty"),
        ("Rerank", pb.RerankRequest(query="a", texts=TEXTS), INVALID, "texts[2]: has 64 tokens"),
        ("PredictPair", pb.PredictPairRequest(inputs="a"), INVALID, "inputs: must be a list of tw"),
        ("Predict", pb.PredictRequest(inputs=""), INVALID, "inputs: is empty"),
        ("Embed", pb.EmbedRequest(inputs="a"), INVALID, "inputs: this model gives no pooled"),
        (
            "RerankStream",
            [pb.RerankStreamRequest(query="a", text="b")],
            grpc.StatusCode.UNIMPLEMENTED,
            "a ranking needs all texts",
        ),
    ],
)
async def test_what_cannot_be_scored_is_named(
    serve: Serve, ranking: Runtime, name: str, request_: Any, code: Any, message: str
) -> None:
    async with serve(ranking) as service:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(
                service.channel, name, iter(request_) if name == "RerankStream" else request_
            )
        assert refused.value.code() == code
        assert str(refused.value.details()).startswith(message)

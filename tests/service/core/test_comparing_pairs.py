"""Compare by a model that reranks, over a real socket: sizes, tokens, waves, streams, refusals."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from headlight.pb import headlight_pb2 as pb
from headlight.runtime import Runtime
from tests.service.calls import details_of, refused
from tests.service.conftest import Serve
from tests.service.frontends.grpc.test_encode_stream import frames_of, kinds

INVALID = grpc.StatusCode.INVALID_ARGUMENT
HIDE, ATTEND = (
    pb.EvidenceRequest(method=method, unit=pb.UNIT_TOKEN)
    for method in (pb.EVIDENCE_METHOD_OCCLUSION, pb.EVIDENCE_METHOD_ATTENTION)
)

INTERACTIVE = {"model": "reranker", "priority": "interactive"}


def of(*passages: str, query: str = "abc", **fields: Any) -> pb.CompareRequest:
    texts = [pb.Input(text=each) for each in passages]
    return pb.CompareRequest(query=pb.Input(text=query), passages=texts, **fields)


async def test_tokens_count_the_query_once_for_each_passage(serve: Serve, ranking: Runtime) -> None:
    async with serve(ranking) as service:
        request = of("abcd", "ab", evidence=[HIDE])
        answer = await service.stub.Compare(request)
        texts = service.sample("headlight_texts_total", **INTERACTIVE)
        computed = service.sample("headlight_tokens_total", **INTERACTIVE)
        request.dry_run = True
        planned = await service.stub.Compare(request)
    pairs = [3 + 3 + 4, 3 + 3 + 2]
    assert answer.usage.token_count == sum(pairs)
    assert texts == 2 + (3 + 4) + (3 + 2), "both texts' tokens are hidden one by one"
    assert computed == pairs[0] * (1 + 7) + pairs[1] * (1 + 5)
    assert planned.data_bytes == answer.data_bytes == 4 * (2 + 7 + 5)
    assert [each.item for each in planned.passages] == [each.item for each in answer.passages]
    assert not planned.passages[0].evidence


async def test_pairs_of_more_tokens_than_a_request_has_are_refused(
    serve: Serve, ranking: Runtime
) -> None:
    async with serve(ranking, max_request_tokens=40) as service:
        error = await refused(service.stub.Compare(of(*["ab"] * 6)), INVALID)
        assert service.sample("headlight_texts_total", **INTERACTIVE) == 0
    assert (error.details() or "").startswith("passages: have more than 40 tokens together")


async def test_a_stream_answers_pairs_as_a_call_does(serve: Serve, ranking: Runtime) -> None:
    request = of("a b", "c", evidence=[HIDE, ATTEND], sort=True)
    async with serve(ranking) as service:
        expected = await service.stub.Compare(request)
        asked = pb.EncodeStreamRequest(id="one", compare=request)
        frames = await frames_of(service.stub.EncodeStream(iter([asked])))
    assert kinds(frames, "one") == ["comparison"]
    [found] = [frame.comparison for frame in frames]
    expected.ClearField("timings")
    found.ClearField("timings")
    assert found == expected
    assert not found.HasField("query")


async def test_a_head_mask_of_a_passage_is_that_of_its_pair(serve: Serve, ranking: Runtime) -> None:
    shape = ranking.bundle.manifest.architecture
    zeros = pb.HeadMask(values=[0.0] * shape.layers * shape.heads)
    request, pair = of("a b", "a b"), pb.TextPair(first="abc", second="a b")
    request.passages[1].head_mask.CopyFrom(zeros)
    encode = pb.EncodeRequest(inputs=[pb.Input(pair=pair, head_mask=zeros)])
    encode.outputs.scores.SetInParent()
    async with serve(ranking) as service:
        whole, masked = (await service.stub.Compare(request)).passages
        [expected] = memoryview((await service.stub.Encode(encode)).scores.data).cast("f")
        request.query.head_mask.CopyFrom(zeros)
        error = await refused(service.stub.Compare(request), INVALID)
    assert whole.score != masked.score == pytest.approx(expected, abs=1e-6)
    assert details_of(error)["BadRequest"].field_violations[0].field == "query.head_mask"


REFUSED: dict[str, tuple[pb.CompareRequest, str]] = {
    "late interaction": (of("a", late_interaction=pb.LateInteraction()), "late_interaction"),
    "method by default": (of("a", evidence=[pb.EvidenceRequest()]), "evidence[0].method"),
    "matrix": (of("a", matrix=pb.SimilarityMatrix()), "matrix"),
    "query prompt": (of("a", query_prompt_name="query"), "query_prompt_name"),
    "passage prompt": (of("a", passage_prompt_text="p: "), "passage_prompt_text"),
    "long": (of("a", "b" * 60), "passages[1]"),
    "empty": (of("a", ""), "passages[1].text"),
    "layer": (
        of(
            "a",
            evidence=[pb.EvidenceRequest(method=pb.EVIDENCE_METHOD_ATTENTION, layers=[9])],
        ),
        "evidence[0].layers[0]",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_pairs_cannot_have_is_refused_by_name(
    serve: Serve, ranking: Runtime, name: str
) -> None:
    request, field = REFUSED[name]
    async with serve(ranking) as service:
        error = await refused(service.stub.Compare(request), INVALID)
        admission = service.model.admission
        assert admission.outputs.held == admission.requests.held == admission.tokens.held == 0
    assert details_of(error)["BadRequest"].field_violations[0].field == field

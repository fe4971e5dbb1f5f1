"""Comparison by a model that reranks: against PyTorch, over each door, and its bad input."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headlight import AsyncClient, Encoder, HeadlightError, InvalidInput, Span
from headlight.comparison import Comparison, EvidenceSpec, UnitWeights
from headlight.results import TokenList
from headlight.runtime import Runtime
from headlight.spec import AttentionSpec
from headlight_export.parity.reference import WHOLE, Masks, Reference
from headlight_model.checkpoint import load_checkpoint
from tests import scorers
from tests.headlight.blocking import LoopThread
from tests.headlight.interface.conftest import each_kind
from tests.service.conftest import serving
from tests.service.fakes import FakeRuntime
from tests.service.frontends.http.http_service import http_service

KINDS = ("Runtime", "Client", "AsyncClient")
QUERY = "How to join? Say it."
PASSAGES = ["Join two. So!", "close it", "read the file and split the lines " * 3, "x"]
HIDE = EvidenceSpec(method="occlusion", unit="word")
ATTEND = EvidenceSpec(method="attention", unit="word", heads=(0, -1))
TEXT = st.text("ab .!", min_size=1, max_size=12).filter(str.strip)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of a model that reranks, and its bundle."""
    return scorers.folder(tmp_path_factory, "reranker")


@pytest.fixture(scope="module")
def reference(folder: Path) -> Reference:
    return Reference(load_checkpoint(folder / "checkpoint").eval())


@pytest.fixture(scope="module")
def rerankers(folder: Path, loop: LoopThread) -> Iterator[dict[str, Encoder]]:
    with each_kind(folder / "bundle", loop) as made:
        yield made


@pytest.fixture(scope="module")
def ranking(rerankers: dict[str, Encoder]) -> Runtime:
    return cast(Runtime, rerankers["Runtime"])


def compared(encoder: Encoder, **options: Any) -> Comparison:
    wanted: dict[str, Any] = {"evidence": [HIDE, ATTEND], "truncate": "only_second"}
    return encoder.compare(QUERY, PASSAGES, **wanted | options)


def outputs(reference: Reference, tokens: TokenList, masks: Masks = WHOLE) -> dict[str, Any]:
    ids, segments = np.array(tokens.ids, np.int64), np.array(tokens.segments, np.int64)
    return reference.outputs(ids, segments, masks=masks)


def logit(reference: Reference, tokens: TokenList, hidden: tuple[int, ...] = ()) -> float:
    """Return the score of a pair with some of its tokens hidden."""
    masks = Masks(occluded=cast(int, list(hidden))) if hidden else WHOLE
    return float(outputs(reference, tokens, masks)["scores"][0])


def shown(side: UnitWeights, text: str) -> list[str]:
    return [text[start:end] for start, end, _ in side.characters]


@settings(max_examples=25)
@given(TEXT, st.lists(TEXT, min_size=1, max_size=3), st.sampled_from(["token", "word", "sentence"]))
def test_occlusion_is_the_score_less_that_of_the_pair_with_a_unit_masked(
    ranking: Runtime, reference: Reference, query: str, passages: list[str], unit: Any
) -> None:
    found = ranking.compare(query, passages, evidence=EvidenceSpec(method="occlusion", unit=unit))
    assert found.similarity == "logit"
    scores = ranking.scores([(query, each) for each in passages])
    for passage, expected in zip(found, scores, strict=True):
        assert passage.score == pytest.approx(float(expected.logits[0]), abs=1e-5)
        [evidence] = passage.evidence
        assert passage.tokens is not None
        assert evidence.query is not None
        sides: list[Any] = [evidence, evidence.query]
        for side, text in zip(sides, (passages[passage.index], query), strict=True):
            assert "".join("".join(shown(side, text)).split()) == "".join(text.split())
            for tokens, weight in zip(side.units, side.weights, strict=True):
                assert {passage.tokens.segments[at] for at in tokens} == {int(side is evidence)}
                fall = passage.score - logit(reference, passage.tokens, tokens)
                assert fall == pytest.approx(weight, abs=1e-5)


def test_attention_is_that_of_the_querys_tokens_within_the_pair(ranking: Runtime) -> None:
    spec = AttentionSpec(
        heads=(0, -1), reduce=("head_mean", "layer_mean"), queries=Span(0, len(QUERY))
    )
    pairs = [(QUERY, each) for each in PASSAGES]
    maps = ranking.attention(pairs, spec, truncate="only_second")
    for passage, expected in zip(compared(ranking), maps, strict=True):
        evidence = passage.evidence_by("attention")
        row = expected.values.mean(axis=0)
        assert evidence.query is not None
        assert evidence.special is not None
        assert passage.tokens is not None
        special = [at for at, special in enumerate(passage.tokens.special) if special]
        assert evidence.special.units == tuple((at,) for at in special)
        assert evidence.special.characters == ()
        sides: list[Any] = [evidence, evidence.query, evidence.special]
        for side in sides:
            weights = [row[list(tokens)].sum() for tokens in side.units]
            np.testing.assert_allclose(side.weights, weights, atol=1e-6, rtol=0)
        assert sum(side.weights.sum() for side in sides) == pytest.approx(1, abs=1e-6)


def test_attention_of_chosen_layers_is_pytorchs(ranking: Runtime, reference: Reference) -> None:
    spec = EvidenceSpec(method="attention", unit="token", layers=(-1,), heads=(1,))
    for passage in compared(ranking, evidence=spec):
        assert passage.tokens is not None
        of_query = [
            at
            for at, (text, special) in enumerate(
                zip(passage.tokens.segments, passage.tokens.special, strict=True)
            )
            if not text and not special
        ]
        row = outputs(reference, passage.tokens)["attention"][-1, 1][of_query].mean(axis=0)
        [evidence] = passage.evidence
        expected = [row[token] for [token] in evidence.units]
        np.testing.assert_allclose(evidence.weights, expected, atol=1e-5, rtol=0)


def sides_of(found: Comparison) -> list[tuple[Any, ...]]:
    """Return units, characters and weights of all evidence, in its order."""
    return [
        (side.units, side.characters, side.weights)
        for passage in found
        for evidence in passage.evidence
        for side in (evidence, evidence.query, evidence.special)
        if side is not None
    ]


@pytest.mark.parametrize("kind", KINDS[1:])
def test_all_encoders_agree(rerankers: dict[str, Encoder], kind: str) -> None:
    options: dict[str, Any] = {"evidence": [HIDE, ATTEND], "sort": True}
    found, expected = (compared(rerankers[name], **options) for name in (kind, "Runtime"))
    assert (found.query, found.query_tokens, found.similarity) == (None, (), "logit")
    assert [each.index for each in found] == [each.index for each in expected]
    assert [each.tokens for each in found] == [each.tokens for each in expected]
    scores = [each.score for each in found]
    assert scores == pytest.approx([each.score for each in expected], abs=2e-6)
    assert scores == sorted(scores, reverse=True)
    assert len(sides_of(found)) == len(PASSAGES) * (2 + 3)
    for mine, its in zip(sides_of(found), sides_of(expected), strict=True):
        assert mine[:2] == its[:2]
        np.testing.assert_allclose(mine[2], its[2], atol=2e-6, rtol=0)


def test_http_gives_the_same(folder: Path, ranking: Runtime) -> None:
    request = {
        "query": {"text": QUERY},
        "passages": [{"text": each} for each in PASSAGES],
        "truncation": "TRUNCATION_CUT_SECOND",
        "evidence": [
            {"method": "EVIDENCE_METHOD_OCCLUSION", "unit": "UNIT_WORD"},
            {"method": "EVIDENCE_METHOD_ATTENTION", "unit": "UNIT_WORD", "heads": [0, -1]},
        ],
    }
    with Runtime(folder / "bundle", threads=1) as runtime, http_service(runtime) as service:
        reply = service.ask("/v1/compare", request)
        planned = service.ask("/v1/compare", request | {"dry_run": True}).json
    assert reply.status == 200, reply.body
    answer = json.loads(reply.body)
    assert (answer["similarity"], "query" in answer) == ("logit", False)
    assert planned["data_bytes"] == answer["data_bytes"]
    numbers = len(PASSAGES)
    for passage, expected in zip(answer["passages"], compared(ranking), strict=True):
        assert passage["score"] == pytest.approx(expected.score, abs=2e-6)
        for one, other in zip(passage["evidence"], expected.evidence, strict=True):
            sides = [(one, other), (one["query"], other.query), (one.get("special"), other.special)]
            for mine, its in sides:
                if its is None:
                    assert mine is None
                    continue
                numbers += len(its.weights)
                np.testing.assert_allclose(mine["weights"]["data"], its.weights, atol=2e-6)
                spans = [(each["start"], each["end"]) for each in mine["characters"]]
                assert spans == [(each.start, each.end) for each in its.characters]
    assert int(answer["data_bytes"]) == 4 * numbers


@pytest.mark.parametrize("kind", KINDS)
def test_the_largest_weights_of_each_text_come_first(
    rerankers: dict[str, Encoder], kind: str
) -> None:
    best = EvidenceSpec(method="occlusion", unit="word", top_k=2)
    whole = compared(rerankers[kind], evidence=HIDE)
    for one, other in zip(compared(rerankers[kind], evidence=best), whole, strict=True):
        mine, its = one.evidence[0], other.evidence[0]
        assert mine.query is not None
        assert its.query is not None
        for few, every in ((mine, its), (mine.query, its.query)):
            order = cast(UnitWeights, every).largest(2)
            assert few.units == tuple(every.units[at] for at in order)


@pytest.mark.parametrize("kind", KINDS)
def test_given_spans_are_of_passages_and_the_query_is_one_unit(
    rerankers: dict[str, Encoder], kind: str
) -> None:
    spans = ((Span(0, 4), Span(5, 8)), (Span(0, 5),))
    evidence = EvidenceSpec(method="occlusion", unit="span", spans=spans)
    found = rerankers[kind].compare(QUERY, PASSAGES[:2], evidence=evidence)
    for passage, own in zip(found, spans, strict=True):
        assert passage.evidence[0].characters == own
        assert passage.evidence[0].query is not None
        assert passage.evidence[0].query.characters == (Span(0, len(QUERY)),)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_more_passages_than_a_call_takes_are_merged_and_sorted(
    rerankers: dict[str, Encoder], kind: str
) -> None:
    passages = [f"file {at}" for at in range(600)]  # a call takes 512 inputs
    found = rerankers[kind].compare(QUERY, passages, sort=True)
    scores = [each.score for each in found]
    assert scores == sorted(scores, reverse=True)
    by_index = {each.index: each.score for each in found}
    assert sorted(by_index) == list(range(600))
    expected = rerankers["Runtime"].compare(QUERY, passages[510:514])
    assert [by_index[at] for at in range(510, 514)] == pytest.approx(
        [each.score for each in expected], abs=2e-6
    )


def test_a_contrast_is_the_occlusion_of_the_difference(
    ranking: Runtime, reference: Reference
) -> None:
    found = compared(ranking, evidence=HIDE)
    one, _, other, _ = found.passages
    contrast = found.contrast(one, other)
    assert contrast.difference == pytest.approx(one.score - other.score)
    assert shown(contrast.query, QUERY) == ["How", "to", "join", "?", "Say", "it", "."]
    assert one.tokens is not None
    assert other.tokens is not None
    for tokens, weight in zip(contrast.query.units, contrast.query.weights, strict=True):
        # The query comes first, so its tokens have the same places in both pairs.
        hidden = logit(reference, one.tokens, tokens) - logit(reference, other.tokens, tokens)
        assert contrast.difference - hidden == pytest.approx(weight, abs=2e-5)
    turned = found.contrast(other, one)
    np.testing.assert_allclose(turned.query.weights, -contrast.query.weights, atol=1e-7)


def test_a_contrast_of_queries_that_were_cut_differently_is_refused(ranking: Runtime) -> None:
    query = "a query that is almost as long as both"
    found = ranking.compare(query, ["so much more " * 9, "x"], evidence=HIDE, truncate="end")
    with pytest.raises(InvalidInput, match="other: has other units of the query") as error:
        found.contrast(*found.passages)
    assert 'truncate="only_second"' in str(error.value)
    scored = ranking.compare(QUERY, PASSAGES[:2])
    with pytest.raises(KeyError):
        scored.contrast(*scored.passages)


async def test_sentences_cost_at_most_ten_scores(folder: Path) -> None:
    text = "Ab. " * 8
    with Runtime(folder / "bundle", threads=1) as runtime:
        async with serving(cast(FakeRuntime, runtime)) as service:

            async def passes(**options: Any) -> float:
                texts = {"model": "reranker", "priority": "interactive"}
                before = service.sample("headlight_texts_total", **texts) or 0
                await client.compare("how to", [text], **options)
                return (service.sample("headlight_texts_total", **texts) or 0) - before

            async with AsyncClient(service.target) as client:
                score = await passes()
                sentences = EvidenceSpec(method="occlusion", unit="sentence")
                assert score == 1
                assert await passes(evidence=sentences) == 1 + 8 + 1, "the query is one sentence"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "late interaction": ({"late_interaction": True}, "late_interaction"),
    "matrix": ({"matrix": "float32"}, "matrix"),
    "evidence": ({"evidence": [HIDE, "late_interaction"]}, "evidence[1].method"),
    "query of ids": ({"query": [2, 9, 3]}, "query"),
    "passage of ids": ({"passages": ["a", [2, 9, 3]]}, "passages[1]"),
    "pair": ({"passages": [("a", "b")]}, "passages[0]"),
    "empty query": ({"query": ""}, "query.text"),
    "empty passage": ({"passages": ["a", ""]}, "passages[1].text"),
    "query without room": ({"query": "q" * 60, "truncate": "only_second"}, "query.text"),
    "long": ({"passages": ["a", "b" * 60], "truncate": "refuse"}, "passages[1]"),
    "span": (
        {"evidence": EvidenceSpec(method="occlusion", unit="span", spans=((Span(0, 9),),))},
        "evidence[0].spans[0].spans[0]",
    ),
    "query prompt": ({"query_prompt_name": "query"}, "query_prompt_name"),
    "passage prompt": ({"passage_prompt": "p: "}, "passage_prompt"),
    "no tokens": ({"query": " ", "evidence": ATTEND}, "query"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused_by_name(rerankers: dict[str, Encoder], kind: str, name: str) -> None:
    options, field = REFUSED[name]
    with pytest.raises(HeadlightError) as error:
        rerankers[kind].compare(**{"query": "q", "passages": ["a"]} | options)
    assert isinstance(error.value, InvalidInput), error.value
    assert error.value.field == field

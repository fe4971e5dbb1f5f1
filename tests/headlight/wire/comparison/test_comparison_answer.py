"""Answers to Compare that do not fit the request are refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from headlight.comparison import CompareSpec, EvidenceSpec
from headlight.errors import BadAnswer
from headlight.interface.arguments import Input
from headlight.pb import headlight_pb2 as pb
from headlight.spec import Span
from headlight.wire.client_codec import from_model
from headlight.wire.comparison.comparison_answer import ExpectedComparison

REF = pb.ModelRef(name="m", version="1", bundle_sha256="a", provider="cpu", precision="fp32")
INFO = pb.ModelInfo(layers=1, heads=1, dim=4, pooled_dim=4, vocab_size=9, max_length=9)
MODEL = from_model(pb.GetModelResponse(model=REF, info=INFO))
QUERY = "a b"
PASSAGES: list[Input] = ["a b c", [1, 2]]
SPEC = CompareSpec(
    late_interaction=True,
    matrix="float32",
    evidence=(EvidenceSpec(unit="token"), EvidenceSpec(method="occlusion", unit="token", top_k=2)),
)
EXPECTED = ExpectedComparison(MODEL, "", QUERY, SPEC)


def floats(*shape: int) -> pb.Tensor:
    data = np.linspace(0, 1, int(np.prod(shape)), dtype="<f4").tobytes()
    return pb.Tensor(dtype=pb.DATA_TYPE_FLOAT32, shape=shape, data=data)


def item(count: int, *, text: bool) -> pb.Item:
    ends = range(1, 2 * count, 2) if text else [0] * count
    tokens = pb.TokenInfo(
        ids=[1, 2, 3][:count],
        starts=range(0, 2 * count, 2) if text else [0] * count,
        ends=ends,
        special=[False] * count,
        segments=[0] * count,
    )
    return pb.Item(token_count=count, original_token_count=count, tokens=tokens)


def passage(index: int, count: int, *, text: bool) -> pb.PassageComparison:
    spans = [pb.TextSpan(start=2 * at, end=2 * at + 1) for at in range(count)] if text else []
    late = pb.Evidence(
        method=pb.EVIDENCE_METHOD_LATE_INTERACTION,
        units=pb.Units(tokens=range(count)),
        characters=spans,
        weights=floats(count),
        matched_tokens=[0, 1],
        matched_cosines=floats(2),
    )
    hidden = pb.Evidence(
        method=pb.EVIDENCE_METHOD_OCCLUSION,
        units=pb.Units(tokens=[1, 0]),
        characters=spans[:2],
        weights=floats(2),
    )
    return pb.PassageComparison(
        index=index,
        item=item(count, text=text),
        score=0.5,
        max_sim_mean=0.25,
        evidence=[late, hidden],
        tokens=range(count),
        matrix=floats(2, count),
    )


def answer() -> pb.CompareResponse:
    return pb.CompareResponse(
        model=REF,
        similarity="cosine",
        query=item(2, text=True),
        query_tokens=[0, 1],
        passages=[passage(0, 3, text=True), passage(1, 2, text=False)],
    )


def test_a_fitting_answer_is_decoded() -> None:
    first, second = EXPECTED.decode(answer(), PASSAGES, 600)
    assert (first.index, second.index) == (600, 601)
    assert first.evidence[0].units == ((0,), (1,), (2,))
    assert first.evidence[1].units == ((1,), (0,))
    assert [tuple(span) for span in first.evidence[0].characters] == [
        (0, 1, 0),
        (2, 3, 0),
        (4, 5, 0),
    ]
    assert first.evidence[1].matched_cosines is None
    assert second.evidence[0].characters == ()
    assert second.matrix is not None
    assert second.matrix.shape == (2, 2)


def test_requested_units_of_the_query_are_missed() -> None:
    specs = (dataclasses.replace(SPEC.evidence[0], query_units=True), SPEC.evidence[1])
    spec = dataclasses.replace(SPEC, evidence=specs)
    found = answer()
    with pytest.raises(BadAnswer, match=r"evidence\[0\]"):
        ExpectedComparison(MODEL, "", QUERY, spec).decode(found, PASSAGES, 0)
    for each in found.passages:
        each.evidence[0].query.units.tokens.extend((0, 1))
        each.evidence[0].query.weights.CopyFrom(floats(2))
        spans = [pb.TextSpan(start=0, end=1), pb.TextSpan(start=2, end=3)]
        each.evidence[0].query.characters.extend(spans)
    first = ExpectedComparison(MODEL, "", QUERY, spec).decode(found, PASSAGES, 0)[0]
    assert first.evidence[0].query is not None
    assert first.evidence[0].query.units == ((0,), (1,))
    found.passages[0].evidence[0].query.units.tokens[1] = 2  # the query has two tokens
    with pytest.raises(BadAnswer, match="do not name tokens of 2"):
        ExpectedComparison(MODEL, "", QUERY, spec).decode(found, PASSAGES, 0)


def no_matrix(message: Any) -> None:
    message.passages[0].ClearField("matrix")


BAD: dict[str, tuple[Callable[[Any], Any], str]] = {
    "similarity": (lambda a: setattr(a, "similarity", "odd"), "similarity is 'odd'"),
    "order": (lambda a: setattr(a.passages[0], "index", 1), "not in the order of 2 passages"),
    "count": (lambda a: a.passages.pop(), "1 comparisons"),
    "query tokens": (lambda a: a.query_tokens.append(7), "query_tokens are not tokens of 2"),
    "tokens": (lambda a: a.passages[0].item.tokens.ids.pop(), "differ in length"),
    "token count": (lambda a: setattr(a.passages[0].item, "token_count", 2), "3 tokens described"),
    "compared": (lambda a: a.passages[1].tokens.append(2), "tokens are not tokens of 2"),
    "score": (lambda a: setattr(a.passages[0], "score", float("nan")), "score and .max_sim_mean"),
    "late": (lambda a: a.passages[0].ClearField("max_sim_mean"), "other contents"),
    "matrix": (no_matrix, "other contents"),
    "methods": (lambda a: a.passages[0].evidence.pop(), "other contents"),
    "shape": (lambda a: a.passages[0].matrix.shape.pop(), "matrix.shape is"),
    "data": (lambda a: setattr(a.passages[0].matrix, "data", b""), "0 bytes of data where 24"),
    "unit": (
        lambda a: a.passages[0].evidence[0].units.tokens.append(5),
        "do not name tokens of 3",
    ),
    "starts": (
        lambda a: a.passages[0].evidence[0].units.starts.extend([0, 2, 1]),
        "do not name tokens of 3",
    ),
    "top": (
        lambda a: a.passages[0].evidence[1].units.tokens.append(2),
        "has 3 units, and 2 were requested",
    ),
    "weights": (
        lambda a: a.passages[0].evidence[0].weights.CopyFrom(floats(2)),
        "weights.shape is",
    ),
    "infinite": (
        lambda a: setattr(a.passages[0].evidence[0].weights, "data", b"\xff" * 12),
        "NaN or infinite",
    ),
    "characters": (
        lambda a: a.passages[0].evidence[0].characters.pop(),
        "has 2 spans for 3 units",
    ),
    "outside": (
        lambda a: setattr(a.passages[0].evidence[0].characters[2], "end", 6),
        "leave the text that was sent",
    ),
    "matches": (
        lambda a: a.passages[0].evidence[0].matched_tokens.append(1),
        "matches 3 tokens of 2",
    ),
    "match beyond": (
        lambda a: a.passages[0].evidence[0].matched_tokens.__setitem__(1, 3),
        "matches 2 tokens of 2",
    ),
    "model": (lambda a: setattr(a.model, "name", "other"), "weights were replaced"),
}


SENT = (Span(0, 1), Span(2, 3), Span(4, 5))


@pytest.mark.parametrize(
    ("top_k", "told", "fits"),
    [
        (None, [0, 1, 2], True),
        (None, [0, 2, 1], False),
        (None, [0, 1], False),
        (2, [2, 0], True),
        (2, [2], False),
        (2, [2, 2], False),
        (7, [1, 0, 2], True),
    ],
)
def test_units_are_the_spans_that_were_sent(top_k: int | None, told: list[int], fits: bool) -> None:
    evidence = EvidenceSpec(method="occlusion", unit="span", spans=((), SENT), top_k=top_k)
    changed = answer()
    changed.ClearField("query_tokens")
    del changed.passages[1:]
    [found] = changed.passages
    found.ClearField("matrix")
    found.ClearField("max_sim_mean")
    del found.evidence[0]
    found.evidence[0].CopyFrom(
        pb.Evidence(
            method=pb.EVIDENCE_METHOD_OCCLUSION,
            units=pb.Units(tokens=told if len(set(told)) == len(told) else [0, 1]),
            characters=[pb.TextSpan(start=SENT[at].start, end=SENT[at].end) for at in told],
            weights=floats(len(told)),
        )
    )
    expected = ExpectedComparison(MODEL, "", QUERY, CompareSpec(evidence=(evidence,)))
    if fits:
        assert len(expected.decode(changed, PASSAGES[:1], 1)[0].evidence[0].units) == len(told)
    else:
        with pytest.raises(BadAnswer, match="characters are not the spans that were sent"):
            expected.decode(changed, PASSAGES[:1], 1)


@pytest.mark.parametrize("name", BAD)
def test_a_misfit_is_named(name: str) -> None:
    change, problem = BAD[name]
    changed = answer()
    change(changed)
    kind = Exception if name == "model" else BadAnswer
    with pytest.raises(kind, match=problem):
        EXPECTED.decode(changed, PASSAGES, 0)


RERANKER = from_model(
    pb.GetModelResponse(
        model=REF,
        info=pb.ModelInfo(
            layers=1, heads=1, dim=4, pooled_dim=4, vocab_size=9, max_length=9, labels=["score"]
        ),
    )
)
OF_PAIR = ExpectedComparison(
    RERANKER, "", "a b", CompareSpec(evidence=(EvidenceSpec(method="attention", unit="token"),))
)


def of_pair() -> pb.CompareResponse:
    """Return an answer of a pair of two tokens and one, and a special token behind them."""
    tokens = pb.TokenInfo(
        ids=[1, 2, 3, 4],
        starts=[0, 2, 0, 0],
        ends=[1, 3, 1, 0],
        special=[False, False, False, True],
        segments=[0, 0, 1, 1],
    )
    spans = [pb.TextSpan(start=0, end=1), pb.TextSpan(start=2, end=3)]
    evidence = pb.Evidence(
        method=pb.EVIDENCE_METHOD_ATTENTION,
        units=pb.Units(tokens=[2]),
        characters=spans[:1],
        weights=floats(1),
        query=pb.UnitWeights(units=pb.Units(tokens=[0, 1]), characters=spans, weights=floats(2)),
        special=pb.UnitWeights(units=pb.Units(tokens=[3]), weights=floats(1)),
    )
    item = pb.Item(token_count=4, original_token_count=4, tokens=tokens)
    found = pb.PassageComparison(item=item, score=0.5, evidence=[evidence])
    return pb.CompareResponse(model=REF, similarity="logit", passages=[found])


BAD_PAIRS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "similarity": (lambda a: setattr(a, "similarity", "cosine"), "similarity is 'cosine'"),
    "query": (lambda a: a.query.SetInParent(), "a query beside pairs"),
    "query tokens": (lambda a: a.query_tokens.append(0), "query_tokens are not tokens of 0"),
    "no query": (lambda a: evidence_in(a).ClearField("query"), "query.weights"),
    "no special": (lambda a: evidence_in(a).ClearField("special"), "special.weights"),
    "query unit": (lambda a: evidence_in(a).query.units.tokens.append(7), "name tokens of 4"),
    "query span": (
        lambda a: setattr(evidence_in(a).query.characters[1], "end", 4),
        r"query.characters leave the text",
    ),
    "passage span": (
        lambda a: setattr(evidence_in(a).characters[0], "end", 2),
        r"\[0\].characters leave the text",
    ),
    "special span": (
        lambda a: evidence_in(a).special.characters.add(),
        "special has 1 spans for 1 units",
    ),
}


def evidence_in(message: Any) -> Any:
    return message.passages[0].evidence[0]


def test_sides_of_a_pair_are_decoded() -> None:
    [found] = OF_PAIR.decode(of_pair(), [("a b", "c")], 0)
    [evidence] = found.evidence
    assert evidence.characters == (Span(0, 1),)
    assert evidence.query is not None
    assert evidence.query.characters == (Span(0, 1), Span(2, 3))
    assert evidence.special is not None
    assert evidence.special.units == ((3,),)


@pytest.mark.parametrize("name", BAD_PAIRS)
def test_a_misfit_of_a_pair_is_named(name: str) -> None:
    change, problem = BAD_PAIRS[name]
    changed = of_pair()
    change(changed)
    with pytest.raises(BadAnswer, match=problem):
        OF_PAIR.decode(changed, [("a b", "c")], 0)


def test_special_tokens_beside_occlusion_are_refused() -> None:
    spec = CompareSpec(evidence=(EvidenceSpec(method="occlusion", unit="token"),))
    changed = of_pair()
    evidence_in(changed).method = pb.EVIDENCE_METHOD_OCCLUSION
    with pytest.raises(BadAnswer, match="other sides than were requested"):
        ExpectedComparison(RERANKER, "", "a b", spec).decode(changed, [("a b", "c")], 0)

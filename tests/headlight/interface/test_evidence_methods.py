"""Methods of evidence that read a mean of token vectors, and options of all methods."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headlight import Encoder, InvalidInput, Span
from headlight.comparison import EvidenceSpec
from headlight.evidence_methods import EvidenceMethod
from headlight.runtime import Runtime
from headlight.spec import RowType
from headlight_model.checkpoint import load_checkpoint
from headlight_model.config import Dense
from tests import scorers
from tests.conftest import MakeBundle
from tests.factory import small_config, with_options
from tests.headlight.blocking import LoopThread
from tests.headlight.interface.conftest import each_kind
from tests.once import once
from tests.span_reference import behind_pooling, pytorch_tokens

QUERY = "how to join paths"
PASSAGES = ["Join two paths. They are joined by a slash! It is quick.", "A file is closed.", "x y"]
KINDS = ("Runtime", "Client")
LAYERS = {
    "plain": (),
    "dense": (Dense(width=48, bias=True), Dense(width=20, bias=True)),
    "tanh": (Dense(width=20, bias=True, activation="tanh"),),
}


def folder(factory: pytest.TempPathFactory, name: str) -> Path:
    config = small_config(dense=LAYERS[name], layers=1)
    return once(factory, f"mean-{name}", lambda out: scorers.write(out, config))


@pytest.fixture(scope="module", params=["plain", "dense"])
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder(tmp_path_factory, request.param) / "checkpoint"


@pytest.fixture(scope="module")
def kinds(checkpoint: Path, loop: LoopThread) -> Iterator[dict[str, Encoder]]:
    with each_kind(checkpoint.with_name("bundle"), loop) as encoders:
        yield encoders


def unit(vectors: Any) -> Any:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


@pytest.mark.parametrize("kind", KINDS)
def test_contributions_are_parts_of_the_cosine_of_pytorch(
    checkpoint: Path, kinds: dict[str, Encoder], kind: str
) -> None:
    encoder = load_checkpoint(checkpoint).eval()
    evidence = EvidenceSpec(method="contributions", unit="word")
    prompts = {"query_prompt": "q: ", "passage_prompt": "p: "}
    compared = kinds[kind].compare(QUERY, PASSAGES, evidence=evidence, **prompts)  # type: ignore[arg-type]
    assert compared.query is not None
    query = behind_pooling(encoder, pytorch_tokens(encoder, compared.query.ids).mean(0)[None])[0]
    for passage in compared:
        assert passage.tokens is not None
        tokens = pytorch_tokens(encoder, passage.tokens.ids)
        rows = behind_pooling(encoder, tokens, unit=False)
        parts = rows @ unit(query) / (len(rows) * np.linalg.norm(rows.mean(axis=0)))
        [each] = passage.evidence
        assert each.special is not None
        for side in (each, each.special):
            expected = [parts[list(own)].sum() for own in side.units]
            np.testing.assert_allclose(side.weights, expected, atol=1e-5, rtol=0)
        total = each.weights.sum() + each.special.weights.sum()
        assert total == pytest.approx(passage.score, abs=1e-5)
        others = {own for [own] in each.special.units}
        marks = zip(passage.tokens.special, passage.tokens.prompt, strict=True)
        assert others == {at for at, mark in enumerate(marks) if any(mark)}


@pytest.mark.parametrize("kind", KINDS)
def test_contributions_of_pairs_of_tokens_sum_to_those_of_tokens_and_to_the_score(
    kinds: dict[str, Encoder], kind: str
) -> None:
    evidence = EvidenceSpec(method="contributions", unit="token", query_units=True)
    texts = {"query_prompt": "q: ", "passage_prompt": "p: ", "evidence": evidence}
    matrix = {"matrix": "float32", "matrix_kind": "contribution", "late_interaction": True}
    compared = kinds[kind].compare(QUERY, PASSAGES, **texts, **matrix)  # type: ignore[arg-type]
    assert compared.query is not None
    for passage in compared:
        assert passage.matrix is not None
        assert passage.tokens is not None
        assert passage.matrix.shape == (len(compared.query), len(passage.tokens))
        assert passage.matrix.sum() == pytest.approx(passage.score, abs=1e-5)
        [each] = passage.evidence
        assert each.query is not None
        for side, sums in ((each, passage.matrix.sum(0)), (each.query, passage.matrix.sum(1))):
            tokens = [token for [token] in side.units]
            np.testing.assert_allclose(side.weights, sums[tokens], atol=1e-5, rtol=0)
    half = kinds[kind].compare(QUERY, PASSAGES, **texts, **matrix | {"matrix": "float16"})  # type: ignore[arg-type]
    assert half.passages[0].matrix is not None
    assert half.passages[0].matrix.dtype == np.float16


@pytest.mark.parametrize("kind", KINDS)
def test_weights_by_span_are_similarities_of_span_vectors(
    kinds: dict[str, Encoder], kind: str
) -> None:
    encoder, text = kinds[kind], PASSAGES[0]
    [passage] = encoder.compare(
        QUERY, [text], evidence=EvidenceSpec(method="span", unit="sentence")
    )
    [vectors] = encoder.span_vectors([text], "sentences", role="document")
    [each] = passage.evidence
    assert each.characters == vectors.characters
    expected = unit(vectors.vectors) @ unit(encoder.encode(QUERY, role="query"))
    np.testing.assert_allclose(each.weights, expected, atol=1e-5, rtol=0)
    given = EvidenceSpec(method="span", unit="span", spans=(each.characters[:2],))
    [again] = encoder.compare(QUERY, [text], evidence=given)
    np.testing.assert_allclose(again.evidence[0].weights, expected[:2], atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["span", "contributions", "occlusion"])
def test_units_of_the_query_weigh_as_those_of_a_passage_in_its_place(
    kinds: dict[str, Encoder], kind: str, method: EvidenceMethod
) -> None:
    evidence = EvidenceSpec(method=method, unit="word", query_units=True)
    compared = kinds[kind].compare(QUERY, PASSAGES, evidence=evidence)
    for passage, text in zip(compared, PASSAGES, strict=True):
        [turned] = kinds[kind].compare(text, [QUERY], evidence=evidence)
        mine, its = passage.evidence[0], turned.evidence[0]
        assert mine.query is not None
        assert its.query is not None
        assert (mine.query.units, mine.query.characters) == (its.units, its.characters)
        np.testing.assert_allclose(mine.query.weights, its.weights, atol=2e-6, rtol=0)
        np.testing.assert_allclose(its.query.weights, mine.weights, atol=2e-6, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_contrast_is_the_difference_of_the_querys_weights(
    kinds: dict[str, Encoder], kind: str
) -> None:
    methods: tuple[EvidenceMethod, ...]
    methods = ("span", "contributions", "occlusion", "late_interaction")
    evidence = [EvidenceSpec(method=each, query_units=True) for each in methods]
    compared = kinds[kind].compare(QUERY, PASSAGES, evidence=evidence, late_interaction=True)
    one, other, _ = compared
    for method in methods:
        contrast = compared.contrast(one, other, method=method)
        assert contrast.difference == one.score - other.score
        sides = [each.evidence_by(method).query for each in (one, other)]
        assert sides[0] is not None
        assert sides[1] is not None
        np.testing.assert_array_equal(contrast.weights, sides[0].weights - sides[1].weights)
        assert [QUERY[a:b] for a, b, _ in contrast.query.characters] == QUERY.split()
    late = compared.contrast(one, other, method="late_interaction")
    assert one.max_sim_mean is not None
    assert other.max_sim_mean is not None
    assert late.weights.sum() == pytest.approx(one.max_sim_mean - other.max_sim_mean, abs=1e-5)
    with pytest.raises(KeyError):
        kinds[kind].compare(QUERY, PASSAGES, evidence="span").contrast(
            one, other, method="attention"
        )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unit_name", ["word", "token"])
def test_a_budget_of_occlusion_goes_to_the_best_sentences(
    kinds: dict[str, Encoder], kind: str, unit_name: Any
) -> None:
    encoder, text = kinds[kind], PASSAGES[0]

    def hidden(**fields: Any) -> Any:
        spec = EvidenceSpec(method="occlusion", **fields)
        [passage] = encoder.compare(QUERY, [text], evidence=spec)
        return passage.evidence[0]

    whole, sentences = hidden(unit=unit_name), hidden(unit="sentence")
    divided = hidden(unit=unit_name, max_encodings=7)
    assert len(divided.units) <= 7 < len(whole.units)
    assert sorted(sum(divided.units, ())) == sorted(sum(whole.units, ()))
    # Each weight is that of the whole passage without these characters.
    again = hidden(unit="span", spans=(divided.characters,))
    np.testing.assert_allclose(divided.weights, again.weights, atol=2e-6, rtol=0)
    [best] = sentences.largest(1)
    begin, end, _ = sentences.characters[best]
    inside = [span for span in divided.characters if begin <= span.start and span.end <= end]
    assert len(inside) > 1, "the best sentence is divided"
    assert set(sentences.characters) & set(divided.characters), "and another one is not"
    every = hidden(unit=unit_name, max_encodings=1000)
    assert every.units == whole.units
    np.testing.assert_allclose(every.weights, whole.weights, atol=2e-6, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_that_are_sums_are_given_per_token(kinds: dict[str, Encoder], kind: str) -> None:
    methods: tuple[EvidenceMethod, ...]
    methods = ("contributions", "occlusion", "late_interaction", "attention")

    def weights(*, per_token: bool, top_k: int | None = None) -> list[Any]:
        specs = [
            EvidenceSpec(method=each, unit="sentence", per_token=per_token, top_k=top_k)
            for each in methods
        ]
        return [*kinds[kind].compare(QUERY, PASSAGES[:1], evidence=specs).passages[0].evidence]

    best = weights(per_token=True, top_k=1)
    for whole, shared, first in zip(
        weights(per_token=False), weights(per_token=True), best, strict=True
    ):
        expected = whole.weights / [len(own) for own in whole.units]
        np.testing.assert_allclose(shared.weights, expected, atol=2e-7, rtol=0)
        assert first.units == tuple(shared.units[at] for at in shared.largest(1))


@pytest.mark.parametrize("kind", KINDS)
def test_what_passages_share_is_weighed_down(
    checkpoint: Path, kinds: dict[str, Encoder], kind: str
) -> None:
    encoder, methods = kinds[kind], ("contributions", "late_interaction")

    def compared(passages: list[str], *, distinct: bool) -> Any:
        evidence = [
            EvidenceSpec(method=each, unit="token", distinct=distinct)  # type: ignore[arg-type]
            for each in methods
        ]
        return encoder.compare(QUERY, passages, evidence=evidence)

    vectors = unit(encoder.encode(PASSAGES, role="document"))
    shared = unit(vectors.mean(axis=0))
    query = unit(encoder.encode(QUERY, role="query"))
    plain, weighed = (compared(PASSAGES, distinct=each) for each in (False, True))
    ids, seen = [each.tokens.ids for each in weighed], set[int]()
    for passage, whole, vector in zip(weighed, plain, vectors, strict=True):
        parts = passage.evidence[0]
        total = parts.weights.sum() + parts.special.weights.sum()
        rest = (query @ shared) * (shared @ vector)
        assert total == pytest.approx(passage.score - rest, abs=1e-5)
        late, undivided = passage.evidence[1], whole.evidence[1]
        within = np.array(
            [sum(passage.tokens.ids[at] in each for each in ids) for [at] in late.units]
        )
        rarity = np.log(1 + (len(PASSAGES) - within + 0.5) / (within + 0.5))
        np.testing.assert_allclose(late.weights, undivided.weights * rarity, atol=1e-5, rtol=0)
        seen |= set(within[np.flatnonzero(undivided.weights)].tolist())
    assert len(seen) > 1, "rare and common tokens were matched"
    alone, whole = (compared(PASSAGES[:1], distinct=each) for each in (True, False))
    for one, other in zip(alone.passages[0].evidence, whole.passages[0].evidence, strict=True):
        np.testing.assert_allclose(one.weights, other.weights, atol=1e-6, rtol=0)


def test_a_contrast_by_terms_is_of_the_terms_of_both(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with Runtime(scorers.bundle(tmp_path_factory, "sparse"), threads=1) as runtime:
        compared = runtime.compare("a planet", ["planets", "abcde"], evidence="terms")
    one, other = compared
    contrast = compared.contrast(one, other, method="terms")
    assert contrast.weights.sum() == pytest.approx(one.score - other.score, rel=1e-4, abs=1e-4)
    labels = [each.evidence[0].terms.labels() for each in compared if each.evidence[0].terms]
    assert set(contrast.terms) == {label for side in labels for label in side}
    assert list(contrast.weights) == sorted(contrast.weights, reverse=True)


CLS, ACTIVE, DISTANCE, MEAN = "cls", "active", "distance", "mean"
REFUSED: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "span of cls": (CLS, {"method": "span"}, "method", "pooling is cls; use occlusion"),
    "parts of cls": (CLS, {"method": "contributions"}, "method", "pooling is cls"),
    "activation": (ACTIVE, {"method": "contributions"}, "method", "an activation behind pooling"),
    "distance": (DISTANCE, {"method": "contributions"}, "method", "euclidean distance of this"),
    "per token": (MEAN, {"method": "span", "per_token": True}, "per_token", "no sums over tokens"),
    "distinct": (MEAN, {"method": "span", "distinct": True}, "distinct", "late_interaction"),
    "query": (MEAN, {"method": "attention", "query_units": True}, "query_units", "use one of span"),
    "budget of words": (MEAN, {"method": "span", "max_encodings": 9}, "max_encodings", "only of"),
    "budget of sentences": (
        *(MEAN, {"method": "occlusion", "unit": "sentence", "max_encodings": 9}),
        *("max_encodings", "of words or tokens; leave it out"),
    ),
    "budget of one": (
        *(MEAN, {"method": "occlusion", "max_encodings": 1}),
        *("max_encodings", "is 1; hide at least 2"),
    ),
}


@pytest.fixture(scope="module")
def refusing(
    loop: LoopThread, make_bundle: MakeBundle, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, dict[str, Encoder]]]:
    plain = folder(tmp_path_factory, "plain") / "bundle"
    distant = with_options(
        plain, tmp_path_factory.mktemp("distant") / "bundle", similarity="euclidean"
    )
    bundles = {
        CLS: make_bundle("sinusoidal"),
        ACTIVE: folder(tmp_path_factory, "tanh") / "bundle",
        DISTANCE: distant,
        MEAN: plain,
    }
    with contextlib.ExitStack() as stack:
        yield {name: stack.enter_context(each_kind(path, loop)) for name, path in bundles.items()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", REFUSED)
def test_what_a_model_or_a_method_lacks_is_refused_by_name(
    refusing: dict[str, dict[str, Encoder]], kind: str, name: str
) -> None:
    model, fields, field, says = REFUSED[name]
    evidence = ["occlusion" if fields["method"] != "occlusion" else "span"][: model == MEAN]
    with pytest.raises(InvalidInput) as error:
        refusing[model][kind].compare(
            QUERY,
            PASSAGES,
            evidence=[*evidence, EvidenceSpec(**fields)],  # type: ignore[list-item]
        )
    assert error.value.field == f"evidence[{len(evidence)}].{field}"
    assert says in str(error.value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("model", "matrix", "says"),
    [
        (CLS, "float32", "pooling is cls"),
        (ACTIVE, "float32", "an activation behind pooling"),
        (DISTANCE, "float32", "euclidean distance of this"),
        (MEAN, None, "no matrix is requested"),
    ],
)
def test_contributions_of_pairs_are_refused_by_name(
    refusing: dict[str, dict[str, Encoder]],
    kind: str,
    model: str,
    matrix: RowType | None,
    says: str,
) -> None:
    with pytest.raises(InvalidInput) as error:
        refusing[model][kind].compare(QUERY, PASSAGES, matrix=matrix, matrix_kind="contribution")
    assert error.value.field == "matrix_kind"
    assert says in str(error.value)


@pytest.mark.parametrize("kind", KINDS)
def test_span_vectors_pass_through_an_activation(
    refusing: dict[str, dict[str, Encoder]], kind: str
) -> None:
    text = PASSAGES[1]
    spec = EvidenceSpec(method="span", unit="span", spans=((Span(0, len(text)),),))
    [passage] = refusing[ACTIVE][kind].compare(QUERY, [text], evidence=spec)
    [spans] = refusing[ACTIVE][kind].span_vectors([text], [[(0, len(text))]])
    query = refusing[ACTIVE][kind].encode(QUERY)
    assert passage.evidence[0].weights[0] == pytest.approx(spans.vectors[0] @ query, abs=1e-5)

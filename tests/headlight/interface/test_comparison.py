"""Comparison by each kind of encoder: against NumPy on PyTorch's outputs, and its properties."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
import pytest

from headlight import Client, Encoder, HeadlightError, InvalidInput, Span
from headlight.comparison import Comparison, EvidenceSpec
from headlight.evidence_methods import METHODS, UNIT_METHODS
from headlight.interface.similarity import similarity
from headlight.runtime import Runtime
from headlight_export.parity.reference import WHOLE, Masks, Reference
from headlight_model.checkpoint import load_checkpoint
from tests.conftest import MakeBundle
from tests.factory import KINDS as SCHEMES
from tests.service.conftest import serving
from tests.service.fakes import FakeRuntime

KINDS = ("Runtime", "Client", "AsyncClient")
QUERY = "how to join paths"
PASSAGES = [
    "Join two paths. They are joined by a slash!",
    "A file is closed.",
    "read the file and split the lines of it " * 6,  # truncated
    "x",
]
EVIDENCE = (
    EvidenceSpec(method="late_interaction", unit="token"),
    EvidenceSpec(method="attention", unit="word", heads=(0, -1)),
    EvidenceSpec(method="occlusion", unit="sentence"),
)


def compared(encoder: Encoder, passages: list[Any] = PASSAGES, **options: Any) -> Comparison:
    wanted: dict[str, Any] = {"evidence": EVIDENCE, "matrix": "float32", "truncate": "end"}
    return encoder.compare(QUERY, passages, late_interaction=True, **wanted | options)


def assert_equal(found: Comparison, expected: Comparison, atol: float) -> None:
    assert (found.similarity, found.query) == (expected.similarity, expected.query)
    assert found.query_tokens == expected.query_tokens
    for one, other in zip(found, expected, strict=True):
        assert one.matrix is not None
        assert other.matrix is not None
        assert (one.index, one.tokens) == (other.index, other.tokens)
        assert one.compared_tokens == other.compared_tokens
        assert one.score == pytest.approx(other.score, abs=atol)
        assert one.max_sim_mean == pytest.approx(other.max_sim_mean, abs=atol)
        np.testing.assert_allclose(one.matrix, other.matrix, atol=atol, rtol=0)
        for mine, its in zip(one.evidence, other.evidence, strict=True):
            assert (mine.method, mine.units, mine.characters) == (
                *(its.method, its.units),
                its.characters,
            )
            assert mine.matched_tokens == its.matched_tokens
            np.testing.assert_allclose(mine.weights, its.weights, atol=atol, rtol=0)


class Served(NamedTuple):
    """Comparisons over the wire, one with prompts; PyTorch's model, and its pooling."""

    plain: Comparison
    prompted: Comparison
    reference: Reference
    pooling: str


@pytest.fixture(scope="module", params=sorted(SCHEMES))
def served(
    request: pytest.FixtureRequest, make_bundle: MakeBundle, make_checkpoint: MakeBundle
) -> Served:
    """Return the comparisons of one position scheme."""
    kind: str = request.param
    runtime = Runtime(make_bundle(kind), threads=1)
    pooling = runtime.bundle.manifest.pooling
    evidence = [each for each in EVIDENCE if pooling != "max" or each.method != "attention"]

    async def over_the_wire() -> tuple[Comparison, Comparison]:
        async with serving(cast(FakeRuntime, runtime)) as service:
            with Client(service.target) as client:
                call = functools.partial(compared, client, evidence=evidence)
                prompted = functools.partial(call, query_prompt="q: ", passage_prompt="p: ")
                return await asyncio.to_thread(call), await asyncio.to_thread(prompted)

    with runtime:
        plain, prompted = asyncio.run(over_the_wire())
    reference = Reference(load_checkpoint(make_checkpoint(kind)).eval())
    return Served(plain, prompted, reference, pooling)


def segments_of(reference: Reference, tokens: Any) -> Any:
    if not reference.encoder.config.segments:
        return None
    return np.array(tokens.segments, np.int64)


def masks_of(reference: Reference, tokens: Any, masks: Masks = WHOLE) -> Masks:
    """Return masks that also leave a prompt out of pooling, if the model does."""
    if reference.encoder.config.include_prompt or not any(tokens.prompt):
        return masks
    return masks._replace(left_out=tokens.prompt.index(True) + sum(tokens.prompt))


def outputs(reference: Reference, tokens: Any, masks: Masks = WHOLE) -> dict[str, Any]:
    ids = np.array(tokens.ids, np.int64)
    segments = segments_of(reference, tokens)
    masks = masks_of(reference, tokens, masks)
    return reference.outputs(ids, segments, masks=masks)


def unit(vectors: Any) -> Any:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


@pytest.mark.parametrize("prompts", [False, True], ids=["plain", "prompts"])
def test_scores_and_late_interaction_are_those_of_pytorch(served: Served, prompts: bool) -> None:
    found, reference = served.prompted if prompts else served.plain, served.reference
    assert found.query is not None
    query = outputs(reference, found.query)
    rows = unit(query["tokens"][list(found.query_tokens)])
    assert len(rows) == len(QUERY.replace(" ", ""))
    for passage in found:
        assert passage.tokens is not None
        expected = outputs(reference, passage.tokens)
        score = unit(query["pooled"]) @ unit(expected["pooled"])
        assert passage.score == pytest.approx(float(score), abs=1e-5)
        assert passage.matrix is not None
        cosines = rows @ unit(expected["tokens"][list(passage.compared_tokens)]).T
        np.testing.assert_allclose(passage.matrix, cosines, atol=1e-5, rtol=0)
        assert passage.max_sim_mean == pytest.approx(cosines.max(axis=1).mean(), abs=1e-5)
        evidence = passage.evidence_by("late_interaction")
        places = [passage.compared_tokens.index(token) for token in evidence.matched_tokens]
        best = cosines[np.arange(len(rows)), places]
        # Without positions, equal tokens have equal vectors.
        np.testing.assert_allclose(best, cosines.max(axis=1), atol=1e-6, rtol=0)
        np.testing.assert_allclose(evidence.matched_cosines, best, atol=1e-5, rtol=0)  # type: ignore[arg-type]
        weights = np.zeros(len(passage.tokens))
        np.add.at(weights, list(evidence.matched_tokens), best / len(rows))
        expected_weights = [weights[list(own)].sum() for own in evidence.units]
        np.testing.assert_allclose(evidence.weights, expected_weights, atol=1e-5, rtol=0)


@pytest.mark.parametrize("prompts", [False, True], ids=["plain", "prompts"])
def test_attention_evidence_is_what_the_pooled_vector_reads_from(
    served: Served, prompts: bool
) -> None:
    plain, prompted, reference, pooling = served
    if pooling == "max":
        pytest.skip("max pooling refuses attention: see the next test")
    found = prompted if prompts else plain
    for passage in found:
        assert passage.tokens is not None
        count = len(passage.tokens)
        maps = outputs(reference, passage.tokens)["attention"][:, [0, -1]].mean(axis=(0, 1))
        left_out = masks_of(reference, passage.tokens).left_out
        shares = np.arange(1.0, count + 1) if pooling == "weighted_mean" else np.ones(count)
        mean = np.average(maps[left_out:], axis=0, weights=shares[left_out:])
        row = {"cls": maps[left_out], "last": maps[count - 1]}.get(pooling, mean)
        evidence = passage.evidence_by("attention")
        expected = [row[list(own)].sum() for own in evidence.units]
        np.testing.assert_allclose(evidence.weights, expected, atol=1e-5, rtol=0)


def test_attention_evidence_of_max_pooling_is_refused(make_bundle: MakeBundle) -> None:
    with Runtime(make_bundle("none"), threads=1) as runtime:
        assert runtime.bundle.manifest.pooling == "max"
        with pytest.raises(InvalidInput) as error:
            compared(runtime)
    assert error.value.field == "evidence[1].method"


@pytest.mark.parametrize("prompts", [False, True], ids=["plain", "prompts"])
def test_occlusion_evidence_is_that_of_the_input_with_its_unit_masked(
    served: Served, prompts: bool
) -> None:
    found, reference = served.prompted if prompts else served.plain, served.reference
    assert found.query is not None
    query = unit(outputs(reference, found.query)["pooled"])
    for passage in found:
        evidence = passage.evidence_by("occlusion")
        assert passage.tokens is not None
        for own, weight in zip(evidence.units, evidence.weights, strict=True):
            masks = Masks(occluded=cast(int, list(own)))  # an index of several tokens
            hidden = unit(outputs(reference, passage.tokens, masks)["pooled"])
            assert passage.score - float(query @ hidden) == pytest.approx(weight, abs=1e-5)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_all_encoders_agree(encoders: dict[str, Encoder], kind: str) -> None:
    assert_equal(compared(encoders[kind]), compared(encoders["Runtime"]), 2e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_by_the_measure_of_the_model(encoders: dict[str, Encoder], kind: str) -> None:
    found = encoders[kind].compare(QUERY, PASSAGES[:2])
    query = encoders[kind].encode(QUERY, prompt_name="query")
    vectors = encoders[kind].encode(PASSAGES[:2])
    assert found.similarity == "dot"
    assert [each.score for each in found] == pytest.approx(
        similarity("dot", query, vectors)[0].tolist(), abs=1e-5
    )
    assert found.query is None
    assert {each.tokens for each in found} == {None}


def test_batch_mates_and_order_move_nothing(encoders: dict[str, Encoder]) -> None:
    whole = compared(encoders["Runtime"])
    for place, passage in enumerate(PASSAGES):
        alone = compared(encoders["Runtime"], [passage])
        [only] = alone
        mate = whole.passages[place]
        assert only.score == pytest.approx(mate.score, abs=1e-6)
        assert only.max_sim_mean == pytest.approx(mate.max_sim_mean, abs=1e-6)
        for one, other in zip(only.evidence, mate.evidence, strict=True):
            np.testing.assert_allclose(one.weights, other.weights, atol=1e-6, rtol=0)
    turned = compared(encoders["Runtime"], PASSAGES[::-1])
    assert [each.score for each in turned][::-1] == pytest.approx(
        [each.score for each in whole], abs=1e-6
    )


@pytest.mark.parametrize("unit_name", ["token", "word", "sentence"])
def test_late_interaction_evidence_sums_to_the_score(
    encoders: dict[str, Encoder], unit_name: Any
) -> None:
    spec = EvidenceSpec(unit=unit_name)
    for passage in compared(encoders["Runtime"], evidence=spec):
        assert passage.evidence[0].weights.sum() == pytest.approx(passage.max_sim_mean, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_the_highest_scores_and_the_best_units_come_first(
    encoders: dict[str, Encoder], kind: str
) -> None:
    spec = EvidenceSpec(method="occlusion", unit="word", top_k=2)
    every = EvidenceSpec(method="occlusion", unit="word")
    whole = compared(encoders[kind], evidence=every)
    found = compared(encoders[kind], evidence=spec, sort=True)
    order = sorted(whole, key=lambda each: -each.score)
    assert [each.index for each in found] == [each.index for each in order]
    for one, other in zip(found, order, strict=True):
        evidence = other.evidence[0]
        best = evidence.largest(2)
        assert one.evidence[0].units == tuple(evidence.units[at] for at in best)
        assert one.evidence[0].characters == tuple(evidence.characters[at] for at in best)
        np.testing.assert_allclose(
            one.evidence[0].weights, evidence.weights[best], atol=2e-6, rtol=0
        )


@pytest.mark.parametrize("kind", KINDS)
def test_more_passages_than_a_call_takes_are_merged_and_sorted(
    encoders: dict[str, Encoder], kind: str
) -> None:
    passages = [f"file {at}" for at in range(700)]  # a call takes 512 inputs
    found = encoders[kind].compare(QUERY, passages, sort=True, evidence="late_interaction")
    scores = [each.score for each in found]
    assert scores == sorted(scores, reverse=True)
    assert sorted(each.index for each in found) == list(range(700))
    expected = encoders["Runtime"].compare(QUERY, passages[600:602])
    by_index = {each.index: each for each in found}
    assert [by_index[at].score for at in (600, 601)] == pytest.approx(
        [each.score for each in expected], abs=1e-6
    )


@pytest.mark.parametrize("unit_name", ["token", "word", "sentence"])
def test_a_passage_without_tokens_to_compare_has_no_units(
    encoders: dict[str, Encoder], unit_name: Any
) -> None:
    of_any_pooling = [each for each in UNIT_METHODS if not METHODS[each].token_rows]
    specs = [EvidenceSpec(method=method, unit=unit_name) for method in of_any_pooling]
    found, _ = compared(encoders["Runtime"], [" ", "a b"], evidence=specs)
    assert found.max_sim_mean == 0
    assert found.matrix is not None
    assert found.matrix.shape[1] == 0
    for evidence in found.evidence:
        assert (evidence.units, evidence.characters, evidence.weights.shape) == ((), (), (0,))


def test_ids_are_compared_by_token(encoders: dict[str, Encoder]) -> None:
    ids = [2, 9, 12, 3]
    spec = EvidenceSpec(unit="token")
    found = encoders["Runtime"].compare(ids, [ids, "a"], evidence=spec, late_interaction=True)
    first, second = found
    assert found.query_tokens == first.compared_tokens == (0, 1, 2, 3)
    assert first.evidence[0].characters == ()
    assert first.evidence[0].matched_tokens == (0, 1, 2, 3), "each token is nearest to itself"
    assert first.max_sim_mean == pytest.approx(1, abs=1e-5)
    assert second.evidence[0].characters == (Span(0, 1),)


@pytest.mark.parametrize("kind", KINDS)
def test_ids_have_no_prompt_and_a_requested_one_is_refused_on_its_side_alone(
    encoders: dict[str, Encoder], kind: str
) -> None:
    ids = [2, 9, 12, 3]
    found = encoders[kind].compare(ids, ["a"], passage_prompt="p: ")
    expected = encoders[kind].compare(ids, ["p: a"], passage_prompt="")
    assert found.passages[0].score == pytest.approx(expected.passages[0].score, abs=1e-6)
    with pytest.raises(InvalidInput, match=r"^query\.ids: a prompt is put before a text"):
        encoders[kind].compare(ids, ["a"], query_prompt="q: ")
    with pytest.raises(InvalidInput, match=r"^passages\[1\]\.ids: a prompt is put before"):
        encoders[kind].compare("a", ["a", ids], passage_prompt="q: ")


@pytest.mark.parametrize("kind", KINDS)
def test_a_target_gives_the_fall_of_the_similarity(encoders: dict[str, Encoder], kind: str) -> None:
    encoder, text = encoders[kind], PASSAGES[1]
    by_text = encoder.occlusion(text, target=QUERY)
    vector = encoder.encode(QUERY, prompt_name="query")
    by_vector = encoder.occlusion(text, target=vector)
    spec = EvidenceSpec(method="occlusion", unit="token")
    [expected] = encoder.compare(QUERY, [text], evidence=spec)
    for found in (by_text, by_vector):
        assert found.similarity == pytest.approx(expected.score, abs=1e-5)
        assert found.fall is not None
        np.testing.assert_allclose(found.fall, expected.evidence[0].weights, atol=1e-5, rtol=0)
    assert encoder.occlusion(text).fall is None


REFUSED: dict[str, tuple[Callable[[Encoder], Any], str]] = {
    "no passages": (lambda model: model.compare(QUERY, []), "passages"),
    "empty query": (lambda model: model.compare("", PASSAGES), "query.text"),
    "empty passage": (lambda model: model.compare(QUERY, ["a", ""]), "passages[1].text"),
    "pair": (lambda model: model.compare(("a", "b"), ["a"]), "query"),
    "pair of passages": (lambda model: model.compare(QUERY, [("a", "b")]), "passages[0]"),
    "long": (lambda model: compared(model, truncate="refuse"), "passages[2].text"),
    "method": (lambda model: model.compare(QUERY, ["a"], evidence="shap"), "evidence[0].method"),  # type: ignore[arg-type]
    "evidence": (lambda model: model.compare(QUERY, ["a"], evidence=5), "evidence"),  # type: ignore[arg-type]
    "twice": (
        lambda model: model.compare(QUERY, ["a"], evidence=["attention", "attention"]),
        "evidence[1].method",
    ),
    "unit": (
        lambda model: compared(model, evidence=EvidenceSpec(unit="line")),  # type: ignore[arg-type]
        "evidence[0].unit",
    ),
    "top of none": (
        lambda model: compared(model, evidence=EvidenceSpec(top_k=0)),
        "evidence[0].top_k",
    ),
    "layers of occlusion": (
        lambda model: compared(model, evidence=EvidenceSpec(method="occlusion", layers=(0,))),
        "evidence[0].layers",
    ),
    "head": (
        lambda model: compared(model, evidence=EvidenceSpec(method="attention", heads=(3,))),
        "evidence[0].heads[0]",
    ),
    "spans of words": (
        lambda model: compared(model, evidence=EvidenceSpec(spans=((Span(0, 1),),))),
        "evidence[0].spans",
    ),
    "spans of one": (
        lambda model: compared(model, evidence=EvidenceSpec(unit="span", spans=((Span(0, 1),),))),
        "evidence[0].spans",
    ),
    "overlap": (
        lambda model: model.compare(
            QUERY,
            ["a", "a b c"],
            evidence=EvidenceSpec(unit="span", spans=((Span(0, 1),), (Span(0, 3), Span(2, 4)))),
        ),
        "evidence[0].spans[1].spans",
    ),
    "words of ids": (
        lambda model: model.compare(QUERY, ["a", [2, 3]], evidence="occlusion"),
        "evidence[0].unit",
    ),
    "nothing left": (
        lambda model: model.compare(
            QUERY, ["a", [9]], evidence=EvidenceSpec(method="occlusion", unit="token")
        ),
        "passages[1]",
    ),
    "matrix": (lambda model: compared(model, matrix="uint8"), "matrix"),
    "matrix bytes": (lambda model: compared(model, matrix_max_bytes=9), "matrix_max_bytes"),
    "bytes alone": (
        lambda model: model.compare(QUERY, ["a"], matrix_max_bytes=9),
        "matrix_max_bytes",
    ),
    "query prompt": (
        lambda model: model.compare(QUERY, ["a"], query_prompt_name="passage"),
        "query_prompt_name",
    ),
    "passage prompt": (
        lambda model: model.compare(QUERY, ["a"], passage_prompt="x" * 5000),
        "passage_prompt",
    ),
    "two prompts": (
        lambda model: model.compare(QUERY, ["a"], query_prompt_name="query", query_prompt="q"),
        "query_prompt",
    ),
    "target": (lambda model: model.occlusion("a b", target=[1.0]), "target"),
    "target of none": (lambda model: model.occlusion("a b", target=object()), "target"),  # type: ignore[arg-type]
    "empty target": (lambda model: model.occlusion("a b", target=""), "target"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused_by_name(encoders: dict[str, Encoder], kind: str, name: str) -> None:
    call, field = REFUSED[name]
    with pytest.raises(HeadlightError) as error:
        call(encoders[kind])
    assert isinstance(error.value, InvalidInput), error.value
    assert error.value.field == field


@pytest.mark.parametrize("kind", KINDS[1:])
def test_a_refusal_in_a_later_call_names_the_passage_of_the_caller(
    encoders: dict[str, Encoder], kind: str
) -> None:
    passages = ["a"] * 600 + [""]
    with pytest.raises(InvalidInput) as error:
        encoders[kind].compare(QUERY, passages)
    assert error.value.field == "passages[600].text"

"""Prompts of pairs: before the query, or in a template's place, by each kind of encoder."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headlight import Encoder, InvalidInput
from headlight.comparison import EvidenceSpec
from tests import scorers
from tests.factory import with_options
from tests.headlight.blocking import LoopThread
from tests.headlight.interface.conftest import each_kind

KINDS = ("Runtime", "Client", "AsyncClient")
PROMPTS: dict[str, Any] = {"prompts": {"usual": "it ", "other": "find "}, "default_prompt": "usual"}
PLAIN = ["q ", " d ", " end"]
TEMPLATES: dict[str, dict[str, Any]] = {
    "none": {},
    "with a place": {"pair_template": {"plain": PLAIN, "prompted": ["do ", *PLAIN]}},
    "without a place": {"pair_template": {"plain": PLAIN, "prompted": []}},
}
QUERY, DOCUMENTS = "red", ["a planet", "red", "green"]
Kinds = dict[str, Encoder]


@pytest.fixture(scope="module")
def rerankers(
    tmp_path_factory: pytest.TempPathFactory, loop: LoopThread
) -> Iterator[Callable[[str], Kinds]]:
    """Return each kind of encoder of the model with one of TEMPLATES."""
    with contextlib.ExitStack() as served:

        @functools.cache
        def made(template: str) -> Kinds:
            folder = bundle(tmp_path_factory, "reranker", **TEMPLATES[template])
            return served.enter_context(each_kind(folder, loop))

        yield made


@pytest.fixture(scope="module")
def classifiers(tmp_path_factory: pytest.TempPathFactory, loop: LoopThread) -> Iterator[Kinds]:
    with each_kind(bundle(tmp_path_factory, "classifier"), loop) as made:
        yield made


def bundle(factory: pytest.TempPathFactory, name: str, **options: Any) -> Path:
    target = factory.mktemp(name) / "bundle"
    return with_options(scorers.bundle(factory, name), target, **PROMPTS, **options)


def ranks(encoder: Encoder, query: str = QUERY, **options: Any) -> list[float]:
    """Return the logits in the order of the documents."""
    found = encoder.rerank(query, DOCUMENTS, **options)
    return [each.logit for each in sorted(found, key=lambda each: each.index)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_prompt_goes_before_the_query(rerankers: Callable[[str], Kinds], kind: str) -> None:
    encoder = rerankers("none")[kind]
    for options, before in (
        ({}, "it "),
        ({"prompt_name": "other"}, "find "),
        ({"prompt": "say "}, "say "),
        ({"prompt": ""}, ""),
    ):
        expected = ranks(encoder, before + QUERY, prompt="")
        np.testing.assert_allclose(ranks(encoder, **options), expected, atol=1e-6)
        sides: dict[str, Any] = {f"query_{name}": value for name, value in options.items()}
        hide = EvidenceSpec(method="occlusion", unit="token")
        compared = encoder.compare(QUERY, DOCUMENTS, evidence=hide, **sides)
        np.testing.assert_allclose([each.score for each in compared], expected, atol=1e-6)
        for passage in compared:
            assert passage.evidence[0].query is not None
            places = [(begin, end) for begin, end, _ in passage.evidence[0].query.characters]
            assert places == [(0, 1), (1, 2), (2, 3)], "no unit is of the prompt"


@pytest.mark.parametrize("kind", KINDS)
def test_a_template_has_its_place(rerankers: Callable[[str], Kinds], kind: str) -> None:
    encoder = rerankers("with a place")[kind]
    found = ranks(encoder, prompt_name="other")
    np.testing.assert_allclose(found, ranks(encoder, prompt="find "), atol=1e-6)
    assert found != pytest.approx(ranks(encoder), abs=1e-6)
    compared = encoder.compare(QUERY, DOCUMENTS, query_prompt="find ")
    np.testing.assert_allclose([each.score for each in compared], found, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("template", "options", "field", "problem"),
    [
        ("none", {"prompt_name": "none"}, "prompt_name", "choose usual, other"),
        ("none", {"prompt": "x" * 5000}, "prompt", "has 5000 characters"),
        ("none", {"prompt": "a", "prompt_name": "other"}, "prompt", "are both given"),
        ("without a place", {"prompt": "say "}, "prompt", "pairs are used unchanged"),
        ("without a place", {"prompt_name": "other"}, "prompt_name", "pairs are used unchanged"),
    ],
)
def test_a_prompt_is_refused_by_its_name(
    rerankers: Callable[[str], Kinds],
    kind: str,
    template: str,
    options: dict[str, Any],
    field: str,
    problem: str,
) -> None:
    encoder = rerankers(template)[kind]
    with pytest.raises(InvalidInput, match=problem) as error:
        encoder.rerank(QUERY, DOCUMENTS, **options)
    assert error.value.field == field
    sides: dict[str, Any] = {f"query_{name}": value for name, value in options.items()}
    with pytest.raises(InvalidInput, match=problem) as error:
        encoder.compare(QUERY, DOCUMENTS, **sides)
    assert error.value.field == f"query_{field}"


def test_a_default_without_a_place_is_left_out(rerankers: Callable[[str], Kinds]) -> None:
    encoder = rerankers("without a place")["Client"]
    assert ranks(encoder) == ranks(encoder, prompt="")


@pytest.mark.parametrize("kind", KINDS)
def test_texts_and_pairs_are_classified_with_a_prompt(classifiers: Kinds, kind: str) -> None:
    encoder = classifiers[kind]
    with_prompt = encoder.classify(["red", ("red", "green")], prompt_name="other")
    spelled = encoder.classify(["find red", ("find red", "green")], prompt="")
    assert with_prompt != encoder.classify(["red", ("red", "green")])
    for one, other in zip(with_prompt, spelled, strict=True):
        assert [each.label for each in one] == [each.label for each in other]
        np.testing.assert_allclose(
            [each.logit for each in one], [each.logit for each in other], atol=1e-6
        )

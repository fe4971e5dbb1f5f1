"""Plans of comparisons: occlusion leaves something to pool, and costs what was planned."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tokenizers import processors

from headlight import InvalidInput
from headlight.comparison import CompareSpec, EvidenceSpec, EvidenceUnit
from headlight.runtime.comparison.comparison_layout import ComparisonLayout, layout_of
from headlight.runtime.encode_items import EncodeItem, ItemResult, Selection, item_of
from headlight.runtime.occluded_tokens import hidden_tokens
from headlight.runtime.plans.compare import compare
from headlight.runtime.plans.plan import drive
from headlight.runtime.tokenization.tokenizer import Tokenizer
from tests.factory import small_tokenizer
from tests.service.fakes import manifest


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """A tokenizer without special tokens, whose prompts are not pooled."""
    path: Path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    made = small_tokenizer()
    made.post_processor = processors.TemplateProcessing(
        single="$A", pair="$A $B:1", special_tokens=[]
    )
    made.save(str(path))
    return Tokenizer(path, 64, include_prompt=False)


def plan(tokenizer: Tokenizer, passage: str, unit: EvidenceUnit, pooling: str) -> ComparisonLayout:
    inputs = [
        tokenizer.encode("a", with_info=True),
        tokenizer.encode(passage, prompt="p: ", with_info=True),
    ]
    assert inputs[1].left_out == 2
    spec = CompareSpec(evidence=(EvidenceSpec(method="occlusion", unit=unit),))
    return layout_of(spec, manifest(pooling=pooling), "pooled", inputs, ["a", passage])


def test_a_unit_that_leaves_nothing_to_pool_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(InvalidInput, match=r"^passages\[0\]: is a single unit, and hiding it"):
        plan(tokenizer, "ab cd.", "sentence", "mean")
    found = plan(tokenizer, "ab cd.", "word", "mean")
    assert [each.tokens for each in found.occluded] == [(2, 3), (4, 5), (6,)]
    # The pooled token is never hidden.
    found = plan(tokenizer, "ab cd.", "sentence", "last")
    assert [each.tokens for each in found.occluded] == [(2, 3, 4, 5)]


@pytest.mark.parametrize(("most", "hidden"), [(2, 2), (3, 3), (4, 4), (7, 7), (30, 10)])
def test_a_budget_is_spent_and_never_exceeded(tokenizer: Tokenizer, most: int, hidden: int) -> None:
    texts = ["a", "ab cd. ef gh ij. kl mn."]
    inputs = [tokenizer.encode(each, with_info=True) for each in texts]
    evidence = EvidenceSpec(method="occlusion", unit="word", max_encodings=most, query_units=True)
    other = EvidenceSpec(method="span", unit="word")
    described = manifest(pooling="mean")
    with pytest.raises(InvalidInput, match=r"^query: is a single unit, and hiding it"):
        layout_of(CompareSpec(evidence=(evidence, other)), described, "pooled", inputs, texts)
    spec = CompareSpec(evidence=(dataclasses.replace(evidence, query_units=False),))
    layout = layout_of(spec, described, "pooled", inputs, texts)
    selection, draw = Selection(), np.random.default_rng(1)
    items = [item_of(each, selection, "mean") for each in inputs]
    seen = list[tuple[int, ...]]()

    def run(batch: Sequence[EncodeItem]) -> list[ItemResult]:
        seen.extend(each.occluded for each in batch if each.occluded)
        rows = draw.normal(size=(len(batch), 4)).astype(np.float32)
        return [ItemResult(pooled=row) for row in rows]

    [numbers] = drive(compare(layout, items, selection, lambda rows: rows), run)  # type: ignore[arg-type]
    lengths = [len(each.ids) for each in inputs]
    assert len(seen) == hidden <= most
    assert hidden * lengths[1] <= layout.hidden_tokens(lengths) <= most * lengths[1]
    units = numbers.evidence[0].units
    assert sorted(token for own in units.each() for token in own) == list(range(lengths[1]))
    assert set(units.each()) <= set(seen)


def test_occlusion_of_the_only_pooled_token_is_refused(tokenizer: Tokenizer) -> None:
    tokenized = tokenizer.encode("a", prompt="p: ", with_info=True)
    with pytest.raises(InvalidInput, match=r"^tokens: hiding these tokens would leave nothing"):
        hidden_tokens("all", "mean", tokenized)
    assert hidden_tokens((0, 1), "mean", tokenized).tolist() == [0, 1]

"""Plans of comparisons: occlusion leaves something to pool."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import processors

from headlight import InvalidInput
from headlight.comparison import CompareSpec, EvidenceSpec, EvidenceUnit
from headlight.runtime.comparison.comparison_layout import ComparisonLayout, layout_of
from headlight.runtime.occluded_tokens import hidden_tokens
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


def test_occlusion_of_the_only_pooled_token_is_refused(tokenizer: Tokenizer) -> None:
    tokenized = tokenizer.encode("a", prompt="p: ", with_info=True)
    with pytest.raises(InvalidInput, match=r"^tokens: hiding these tokens would leave nothing"):
        hidden_tokens("all", "mean", tokenized)
    assert hidden_tokens((0, 1), "mean", tokenized).tolist() == [0, 1]

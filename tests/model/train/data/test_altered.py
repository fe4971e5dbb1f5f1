from __future__ import annotations

import numpy as np
import pytest
import torch

from headlight_model.train.data.altered import (
    IGNORED,
    MASKED_SHARE,
    altered_batch,
    corrupt,
    other_brackets,
)
from headlight_model.train.data.stored import Data
from headlight_model.train.data.tokenizer import MASK_ID, SPECIALS
from headlight_model.train.recipe import QUICK, Recipe

PIECES = [*SPECIALS, "(", ")", "[", "]", "{", "}", *(f"word{number}" for number in range(200))]
NO_BRACKETS = np.zeros((len(PIECES), 2), dtype=np.int64)


def test_shares_of_corrupted_tokens() -> None:
    vocabulary = 1000
    ids = np.random.default_rng(0).integers(0, vocabulary, size=(400, 256))
    shown, labels = corrupt(ids, vocabulary, np.random.default_rng(1))
    truth = torch.from_numpy(ids)
    asked = labels != IGNORED
    ordinary = truth >= len(SPECIALS)
    assert not (asked & ~ordinary).any()
    assert (shown[~asked] == truth[~asked]).all()
    assert (labels[asked] == truth[asked]).all()
    assert asked.sum().item() / ordinary.sum().item() == pytest.approx(MASKED_SHARE, abs=0.005)
    assert (shown[asked] == MASK_ID).float().mean().item() == pytest.approx(0.8, abs=0.015)
    assert (shown[asked] == truth[asked]).float().mean().item() == pytest.approx(0.1, abs=0.015)
    assert shown[asked & (shown != MASK_ID)].min().item() >= len(SPECIALS)


def source(random: np.random.Generator) -> Data:
    """A stream of random tokens, brackets among them."""
    stream = random.integers(len(SPECIALS), len(PIECES), size=50_000).astype(np.uint16)
    stream[::5] = random.integers(len(SPECIALS), len(SPECIALS) + 6, size=10_000)
    return Data(stream, {})


def test_hidden_tokens_are_asked_and_replaced_ones_are_marked() -> None:
    recipe = Recipe(window_tokens=32 * 1024, lengths=(128,))
    data = source(np.random.default_rng(0))
    batch = altered_batch(data, recipe, NO_BRACKETS, seed=0, step=0)
    hidden = batch.labels != IGNORED
    assert (batch.ids[hidden] == MASK_ID).all()
    assert not (batch.ids[~hidden] == MASK_ID).any()
    assert not (hidden & batch.visible).any()
    assert not (batch.replaced & ~batch.visible).any()
    plain = hidden | batch.visible
    assert torch.equal(plain.sum(dim=1), torch.full((256,), 126))  # all but [CLS] and [SEP]
    assert hidden.sum() / plain.sum() == pytest.approx(recipe.hidden, abs=0.01)
    assert batch.replaced.sum() / plain.sum() == pytest.approx(recipe.replaced, abs=0.01)


def test_a_wrong_bracket_keeps_its_direction() -> None:
    recipe = Recipe(window_tokens=32 * 1024, lengths=(128,), hidden=0.0, replaced=0.0)
    data, others = source(np.random.default_rng(0)), other_brackets(PIECES)
    straight = altered_batch(data, recipe, NO_BRACKETS, seed=0, step=0).ids
    batch = altered_batch(data, recipe, others, seed=0, step=0)
    changed = batch.ids != straight
    assert torch.equal(changed, batch.replaced)
    pairs = {
        (PIECES[before], PIECES[after])
        for before, after in zip(
            straight[changed].tolist(), batch.ids[changed].tolist(), strict=True
        )
    }
    assert pairs == {
        (one, other) for kinds in ("([{", ")]}") for one in kinds for other in kinds if one != other
    }
    brackets = torch.from_numpy(others.any(axis=1))[straight]
    assert changed.sum() / brackets.sum() == pytest.approx(recipe.replaced_brackets, abs=0.02)


def test_batches_depend_on_seed_and_step_alone() -> None:
    data = source(np.random.default_rng(0))
    first, again, other_step, other_seed = (
        altered_batch(data, QUICK, NO_BRACKETS, seed, step).ids
        for seed, step in ((0, 5), (0, 5), (0, 6), (1, 5))
    )
    assert torch.equal(first, again)
    assert not (first.shape == other_step.shape and torch.equal(first, other_step))
    assert not (first.shape == other_seed.shape and torch.equal(first, other_seed))


def test_a_vocabulary_without_brackets_has_none_to_replace() -> None:
    assert not other_brackets([*SPECIALS, "(", "word"]).any()

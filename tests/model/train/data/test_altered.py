from __future__ import annotations

import numpy as np
import pytest
import torch

from headlight_model.train.data.altered import (
    HIDDEN_SHARE,
    IGNORED,
    altered_batch,
    hide,
    other_brackets,
)
from headlight_model.train.data.stored import Data
from headlight_model.train.data.tokenizer import MASK_ID, SPECIALS
from headlight_model.train.recipe import QUICK, Recipe

PIECES = [*SPECIALS, "(", ")", "[", "]", "{", "}", *(f"word{number}" for number in range(200))]
NO_BRACKETS = np.zeros((len(PIECES), 2), dtype=np.int64)


def test_a_share_of_the_ordinary_tokens_is_hidden() -> None:
    ids = np.random.default_rng(0).integers(0, 1000, size=(400, 256))
    shown, labels = hide(ids, np.random.default_rng(1))
    truth, hidden = torch.from_numpy(ids), labels != IGNORED
    ordinary = truth >= len(SPECIALS)
    assert not (hidden & ~ordinary).any()
    assert (shown[~hidden] == truth[~hidden]).all()
    assert (shown[hidden] == MASK_ID).all()
    assert (labels[hidden] == truth[hidden]).all()
    assert hidden.sum().item() / ordinary.sum().item() == pytest.approx(HIDDEN_SHARE, abs=0.005)


def source(random: np.random.Generator) -> Data:
    """Return a stream of random tokens, brackets among them."""
    stream = random.integers(len(SPECIALS), len(PIECES), size=50_000).astype(np.uint16)
    stream[::5] = random.integers(len(SPECIALS), len(SPECIALS) + 6, size=10_000)
    return Data(stream, {})


def test_hidden_tokens_are_targets_and_replaced_ones_are_marked() -> None:
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

"""Source code with hidden and replaced tokens, which the encoder learns to restore.

Guesses of hidden tokens follow Devlin et al. 2018, 3.1; the search for replaced ones follows
Clark et al. 2020, "ELECTRA".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headlight_model.train.data.batches import WINDOWS, windows
from headlight_model.train.data.stored import Data
from headlight_model.train.data.tokenizer import MASK_ID, SPECIALS
from headlight_model.train.recipe import Recipe

IGNORED = -100  # label of a token that is not to be guessed
HIDDEN_SHARE = 0.15  # in evaluation, as Devlin et al. 2018, 3.1
OPENING, CLOSING = ("(", "[", "{"), (")", "]", "}")


class Altered(NamedTuple):
    """Windows of one length without padding; each [B, S]."""

    ids: Tensor  # int64
    labels: Tensor  # int64, the true token where one is hidden, IGNORED elsewhere
    visible: Tensor  # bool, True at tokens that are shown, special ones left out
    replaced: Tensor  # bool, True at tokens that are shown and wrong
    original: Tensor  # int64, the ids before the change


def other_brackets(pieces: Sequence[str]) -> NDArray[np.int64]:
    """Return two other brackets of the same direction for each bracket: int64 [V, 2], else 0.

    Args:
        pieces: of the vocabulary, in the order of the ids.
    """
    others = np.zeros((len(pieces), 2), dtype=np.int64)
    number = {piece: place for place, piece in enumerate(pieces)}
    for kinds in (OPENING, CLOSING):
        for kind in kinds if number.keys() >= set(kinds) else ():
            others[number[kind]] = [number[other] for other in kinds if other != kind]
    return others


def altered_batch(
    data: Data, recipe: Recipe, others: NDArray[np.int64], seed: int, step: int
) -> Altered:
    """Return the windows of one step, a pure function of seed and step.

    Args:
        others: as `other_brackets` returns.
    """
    random = np.random.default_rng([seed, WINDOWS, step])
    length = int(random.choice(recipe.lengths))
    ids = windows(data.stream, recipe.window_tokens // length, length, random)
    plain = ids >= len(SPECIALS)
    fate = random.random(ids.shape)
    hidden = plain & (fate < recipe.hidden)
    replaced = plain & ~hidden & (fate < recipe.hidden + recipe.replaced)
    shown = np.where(replaced, random.choice(ids[plain], size=ids.shape), ids)
    bracket = (
        others[ids].any(axis=-1) & ~hidden & (random.random(ids.shape) < recipe.replaced_brackets)
    )
    another = random.integers(2, size=(*ids.shape, 1))
    shown = np.where(bracket, np.take_along_axis(others[ids], another, axis=-1)[..., 0], shown)
    shown = np.where(hidden, MASK_ID, shown)
    labels = np.where(hidden, ids, IGNORED)
    parts = (shown, labels, plain & ~hidden, plain & ~hidden & (shown != ids), ids)
    return Altered(*(torch.from_numpy(part) for part in parts))


def hide(ids: NDArray[np.int64], random: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Hide HIDDEN_SHARE of the tokens of int64 [B, S], special ones never.

    Returns:
        Ids and labels, both int64 [B, S]; a label is the true id of a hidden token, else IGNORED.
    """
    hidden = (random.random(ids.shape) < HIDDEN_SHARE) & (ids >= len(SPECIALS))
    parts = np.where(hidden, MASK_ID, ids), np.where(hidden, ids, IGNORED)
    return torch.from_numpy(parts[0]), torch.from_numpy(parts[1])

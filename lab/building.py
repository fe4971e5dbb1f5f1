"""Untrained encoders of the lab's trainings."""

from __future__ import annotations

from typing import Any

import torch

from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder
from headlight_model.positions.position_schemes import Learned
from headlight_model.positions.sinusoidal import positional_encoding
from lab.plans import Training
from lab.schemes import config
from lab.tasks import TASKS

MAX_LENGTH = 2048  # accepted tokens, for schemes without a learned table


def encoder_config(training: Training) -> EncoderConfig:
    """Return the encoder config of a training.

    A table of learned positions ends with the longest training sequence.
    """
    longest = training.lengths[1] + TASKS[training.task].marks
    values: dict[str, Any] = {
        "vocab_size": TASKS[training.task].vocabulary,
        "rope_theta": training.rope_theta,
        "trained_length": longest,
        "max_length": longest if training.scheme == "learned" else MAX_LENGTH,
    }
    return config(training.scheme, **{**values, **training.fields})


def build(training: Training) -> Encoder:
    """Return the untrained encoder of a training, with random weights from torch's random state."""
    encoder = Encoder(encoder_config(training))
    with torch.no_grad():
        encoder.embedding.weight.mul_(training.initial_std)
    if training.word_width:
        concatenate(encoder, training.word_width)
    return encoder


def concatenate(encoder: Encoder, word_width: int) -> None:
    """Give words and positions dimensions of their own; training keeps them apart.

    [word, 0] + [0, PE] is the concatenation of word and PE. So the encoder needs no code of its
    own: the words' other dimensions stay zero, and the table of positions is fixed.

    Args:
        encoder: with learned positions.
        word_width: dimensions of the word; the others are those of the position.
    """
    assert isinstance(encoder.positions, Learned)  # the scheme with a table
    table, words = encoder.positions.table.weight, encoder.embedding.weight
    width = words.shape[1]
    with torch.no_grad():
        table.zero_()
        table[:, word_width:] = positional_encoding(len(table), width - word_width)
        words[:, word_width:] = 0
    table.requires_grad_(False)  # torch names it differently
    of_word = torch.arange(width) < word_width  # bool [D]
    words.register_hook(lambda gradient: gradient * of_word)  # type: ignore[no-untyped-call]

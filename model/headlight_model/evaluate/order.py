"""What a model does with order: how it guesses hidden tokens with and without it, and what its heads look at."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch

from headlight_model.evaluate.heads import Head, analyse
from headlight_model.evaluate.neural import Shipped
from headlight_model.train.data.batches import HELD_OUT, prepare, windows
from headlight_model.train.data.corpus import Part
from headlight_model.train.evaluate import masked_token_metrics
from headlight_model.train.loop import vocabulary

HEAD_WINDOWS = 128  # looked at


@dataclasses.dataclass(frozen=True)
class Order:
    """The figures of one model on the test modules."""

    name: str
    masked: dict[str, float | int]  # see masked_token_metrics
    heads: list[Head]
    uniform: dict[str, float]  # by kind: the weight of a head that looks everywhere alike


def measure(model: Shipped) -> Order:
    """Masked tokens and heads of one model."""
    data = prepare(model.tokenizer, model.recipe, Part.TEST)
    seed, length = model.facts["seed"], model.encoder.config.trained_length
    seen = windows(data.stream, HEAD_WINDOWS, length, np.random.default_rng([seed, HELD_OUT]))
    heads, uniform = analyse(model.encoder, torch.from_numpy(seen), vocabulary(model.tokenizer))
    return Order(model.name, masked_token_metrics(model.encoder, model.head, data, seed), heads, uniform)

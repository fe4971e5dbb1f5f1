"""Effect of token order: hidden tokens with and without it, roles and importance of heads."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from torch import Tensor

from headlight_model.evaluate.heads import Head, analyse
from headlight_model.evaluate.neural import Shipped
from headlight_model.evaluate.order_pairs import OrderPairs
from headlight_model.evaluate.order_pairs import measure as measure_pairs
from headlight_model.texts import corpus
from headlight_model.texts.corpus import Part
from headlight_model.train.data.altered import IGNORED, hide
from headlight_model.train.data.batches import HELD_OUT, source_stream, windows
from headlight_model.train.data.tokenizer import vocabulary
from headlight_model.train.evaluate import masked_token_metrics

HEAD_WINDOWS = 128  # windows on which heads are measured


@dataclasses.dataclass(frozen=True)
class Order:
    """The figures of one model on the test modules of the standard library."""

    name: str
    masked: dict[str, float | int]  # see masked_token_metrics
    pairs: OrderPairs
    heads: list[Head]
    uniform: dict[str, float]  # by kind: the weight under uniform attention
    importance: list[float]  # by head: the loss of masked accuracy without it


def measure(model: Shipped) -> Order:
    """Measure masked tokens, order pairs and heads of one model."""
    stream = source_stream(
        model.tokenizer, (each for each in corpus.sources() if each.part is Part.TEST)
    )
    seed, length = model.facts["seed"], model.encoder.config.trained_length
    seen = windows(stream, HEAD_WINDOWS, length, np.random.default_rng([seed, HELD_OUT]))
    heads, uniform = analyse(model.encoder, torch.from_numpy(seen), vocabulary(model.tokenizer))
    masked = masked_token_metrics(model.encoder, model.head, stream, seed)
    pairs = measure_pairs(model.text_vectors)
    return Order(model.name, masked, pairs, heads, uniform, importance(model, seen))


@torch.inference_mode()
def importance(model: Shipped, seen: np.ndarray) -> list[float]:
    """Return the loss of masked accuracy without each head, layer by layer."""
    config = model.encoder.config
    ids, labels = hide(seen, np.random.default_rng(HELD_OUT))
    everything = torch.ones(1, config.layers, config.heads)
    whole = masked_accuracy(model, ids, labels, everything)
    lost = []
    for layer in range(config.layers):
        for head in range(config.heads):
            without = everything.clone()
            without[0, layer, head] = 0
            lost.append(round(whole - masked_accuracy(model, ids, labels, without), 4))
    return lost


def masked_accuracy(model: Shipped, ids: Tensor, labels: Tensor, head_mask: Tensor) -> float:
    """Return the share of hidden tokens guessed correctly; `head_mask`: float [1, L, H]."""
    hidden = labels != IGNORED
    vectors = model.encoder(ids, head_mask=head_mask.expand(len(ids), -1, -1)).tokens[hidden]
    guesses = model.head(vectors, model.encoder.embedding.weight).argmax(dim=-1)
    return float((guesses == labels[hidden]).float().mean())

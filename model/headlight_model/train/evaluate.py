"""Measurements on modules that took no part in training.

The figures of the validation part are written beside the weights.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headlight_model.encoder import Encoder
from headlight_model.train.data.altered import IGNORED, hide
from headlight_model.train.data.batches import HELD_OUT, embed, windows
from headlight_model.train.data.stored import Pairs
from headlight_model.train.objectives import MaskedTokenHead, masked_token_loss

WINDOW_COUNT, BATCH = 512, 32
CUTOFF = 10  # a right answer below this rank counts nothing


@torch.inference_mode()
def masked_token_metrics(
    encoder: Encoder, head: MaskedTokenHead, stream: NDArray[np.integer], seed: int
) -> dict[str, float | int]:
    """Return masked-token accuracy with order intact, destroyed in two ways, and no positions.

    For an encoder that knows order from its positions alone, permuting the position ids and
    permuting the tokens are equivalent. Two figures that agree (they are two draws) confirm it.
    [CLS] and [SEP] stay in place.
    """
    random = np.random.default_rng([seed, HELD_OUT])
    length = encoder.config.trained_length
    ids, labels = hide(windows(stream, WINDOW_COUNT, length, random), random)
    straight = torch.arange(length).expand_as(ids)
    moved = shuffles(len(ids), length, random)
    tokens_moved = shuffles(len(ids), length, random)
    nowhere = torch.zeros_like(straight)
    return {
        "masked_tokens": int((labels != IGNORED).sum()),
        "masked_accuracy": accuracy(encoder, head, ids, labels, straight),
        "masked_accuracy_positions_shuffled": accuracy(encoder, head, ids, labels, moved),
        "masked_accuracy_tokens_shuffled": accuracy(
            encoder, head, ids.gather(1, tokens_moved), labels.gather(1, tokens_moved), straight
        ),
        "masked_accuracy_positions_ablated": accuracy(encoder, head, ids, labels, nowhere),
    }


def shuffles(count: int, length: int, random: np.random.Generator) -> Tensor:
    """Return random orders, int64 [count, length], in which 0 and length-1 stay in place."""
    inner = random.permuted(np.tile(np.arange(1, length - 1), (count, 1)), axis=1)
    return torch.from_numpy(
        np.pad(inner, ((0, 0), (1, 1)), constant_values=((0, 0), (0, length - 1)))
    )


def accuracy(
    encoder: Encoder, head: MaskedTokenHead, ids: Tensor, labels: Tensor, positions: Tensor
) -> float:
    """Return the share of the asked tokens guessed correctly. All int64 [B, S]."""
    right, hidden = 0.0, 0
    for start in range(0, len(ids), BATCH):
        rows = slice(start, start + BATCH)
        count = int((labels[rows] != IGNORED).sum())
        right += (
            float(masked_token_loss(encoder, head, ids[rows], labels[rows], positions[rows])[1])
            * count
        )
        hidden += count
    return round(right / hidden, 4)


@torch.inference_mode()
def retrieval_metrics(encoder: Encoder, pairs: Pairs) -> dict[str, float | int]:
    """Return MRR at 10 and recall at 10 of the function that a sentence describes.

    The candidates are all described functions.
    """
    # [N, D]
    queries, documents = embed(encoder, pairs.queries)[0], embed(encoder, pairs.documents)[0]
    scores = queries @ documents.T  # [N, N] cosines
    ranks = (scores > scores.diagonal()[:, None]).sum(dim=1) + 1  # [N], 1 is best
    hits = ranks <= CUTOFF
    return {
        "retrieval_candidates": len(pairs.documents),
        "retrieval_mrr_at_10": round(float((hits / ranks).mean()), 4),
        "retrieval_recall_at_10": round(float(hits.float().mean()), 4),
    }

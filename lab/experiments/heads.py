"""Attention of single heads, and the accuracy lost without each."""

from __future__ import annotations

import torch
from torch import Tensor

from headlight_model.encoder import Encoder
from lab.plans import Training
from lab.tasks import TASKS, Examples
from lab.training import accuracy, places, tested

FRESH_SEED = 0xF4E5  # of the sequences on which pruned models are tested
ORDERS = 8  # random orders


@torch.inference_mode()
def maps(encoder: Encoder, ids: Tensor, *, blind: bool = False) -> Tensor:
    """Return the attention of every head: float [L, B, H, S, S], rows are queries.

    Arguments as in `training.accuracy`.
    """
    return torch.stack(encoder(ids, positions=places(ids, blind=blind), fused=False).attention)


def antidiagonal_mass(weights: Tensor) -> Tensor:
    """Return the share of attention on the mirrored token: [..., S, S] -> [...].

    That token is as far from the end as the query is from the start.

    mean_i A[i, S-1-i]: 1 for a head that attends to nothing else, 1/S for uniform attention.
    """
    return weights.flip(-1).diagonal(dim1=-2, dim2=-1).mean(dim=-1)


def lost_without(encoder: Encoder, examples: Examples, kind: str) -> list[list[float]]:
    """Return the loss of accuracy if one head is removed: [L][H].

    The other heads stay as they are (Michel et al. 2019, 3.2).
    """
    config = encoder.config
    whole = accuracy(encoder, examples)[kind]
    lost: list[list[float]] = []
    for layer in range(config.layers):
        lost.append([])
        for head in range(config.heads):
            mask = torch.ones(1, config.layers, config.heads)
            mask[0, layer, head] = 0
            lost[-1].append(whole - accuracy(encoder, examples, head_mask=mask)[kind])
    return lost


def pruned(
    encoder: Encoder, training: Training, length: int, lost: list[list[float]]
) -> dict[str, list[list[float]]]:
    """Return the accuracy with 0, 1, ... all heads removed, in several orders.

    Args:
        encoder: in evaluation mode.
        training: of one kind of question.
        length: tokens of the sequences; they are not those of `held_out`.
        lost: importance of each head, as `lost_without` returns it: [L][H].

    Returns:
        "least first", "most first": [1][heads + 1]; "random": [ORDERS][heads + 1].
    """
    ranked = torch.tensor(lost).flatten().argsort(stable=True)  # [layers * heads]
    random = torch.Generator().manual_seed(FRESH_SEED)
    orders = [torch.randperm(len(ranked), generator=random) for _ in range(ORDERS)]
    fresh = TASKS[training.task].make(tested(training, length), length, random)
    [kind] = fresh.targets
    return {
        name: [without_in_turn(encoder, fresh, kind, order) for order in some]
        for name, some in (
            ("least first", [ranked]),
            ("most first", [ranked.flip(0)]),
            ("random", orders),
        )
    }


def without_in_turn(encoder: Encoder, examples: Examples, kind: str, order: Tensor) -> list[float]:
    """Return the accuracy after each removal of a head: [heads + 1].

    Args:
        encoder: in evaluation mode.
        examples: of one kind of question.
        kind: that kind.
        order: int64 [layers * heads], a permutation of the heads, counted layer by layer.
    """
    config = encoder.config
    mask = torch.ones(config.layers * config.heads)
    accuracies = [accuracy(encoder, examples)[kind]]
    for head in order.tolist():
        mask[head] = 0
        shaped = mask.view(1, config.layers, config.heads)
        accuracies.append(accuracy(encoder, examples, head_mask=shaped)[kind])
    return accuracies

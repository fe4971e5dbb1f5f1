"""Conversion of rotary checkpoints from the interleaved layout (RoFormer, GPT-J) to the half-split.

Used when they are imported.
"""

from __future__ import annotations

import torch
from torch import Tensor


def to_half_split(rows: Tensor, heads: int, width: int) -> Tensor:
    """Reorder the rows of W_q or W_k, and likewise the entries of their biases.

    Rope then rotates the pairs that were trained.

    The interleaved layout rotates the pairs (2i, 2i+1) of a head, Rope (i, i + width/2). A
    head's rotated rows are therefore put into the order 0, 2, 4, ..., 1, 3, 5, ...; Q and K alike,
    so every score is the sum of the same products.

    Args:
        rows: [heads * d, ...], of Q or of K alone.
        heads: number of heads in the rows.
        width: rotated dimensions of each head (config.rope_width); the others stay in place.

    Raises:
        ValueError: the rows do not divide into the heads, or the width is odd or more than a head
            has.
    """
    head_dim, left_over = divmod(len(rows), heads)
    if left_over or width % 2 or width > head_dim:
        raise ValueError(
            f"{len(rows)} rows of {heads} heads cannot hold {width} rotated dimensions in pairs "
            "in each head"
        )
    order = torch.cat(
        (torch.arange(0, width, 2), torch.arange(1, width, 2), torch.arange(width, head_dim))
    )
    return rows.reshape(heads, head_dim, *rows.shape[1:])[:, order].reshape(rows.shape)

"""Roles of attention heads, measured on source code that the model has not seen.

A head is named after the kind of key that its strongest weight falls on for at least half of the
tokens, as Voita et al. 2019 ("Analyzing multi-head self-attention", 4) do for positions; Clark et
al. 2019 ("What does BERT look at?") find the same kinds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from headlight_model.encoder import Encoder
from headlight_model.train.attention_roles import ROLES, targets

CALLED = 0.5  # share of the tokens from which a head has the name
BATCH = 16


@dataclasses.dataclass(frozen=True)
class Head:
    """One head; each figure is a mean over the tokens that it applies to."""

    layer: int
    head: int
    weight: dict[str, float]  # by kind: attention that falls on such keys
    # By kind: share of the tokens whose strongest weight falls on such a key.
    strongest: dict[str, float]

    @property
    def name(self) -> str:
        """The first kind that reaches CALLED; empty if none does."""
        return next((kind for kind in ROLES if self.strongest[kind] >= CALLED), "")


@torch.inference_mode()
def analyse(
    encoder: Encoder, windows: Tensor, pieces: Sequence[str]
) -> tuple[list[Head], dict[str, float]]:
    """Measure the roles of all heads.

    Args:
        encoder: in evaluation mode.
        windows: int64 [N, S], each [CLS] ... [SEP] without padding; special tokens are not queries.
        pieces: of the vocabulary, in the order of the ids.

    Returns:
        The heads in order, and by kind the weight on such keys under uniform attention.
    """
    shape = (encoder.config.layers, encoder.config.heads)
    weight = {kind: torch.zeros(shape, dtype=torch.float64) for kind in ROLES}
    strongest = {kind: torch.zeros(shape, dtype=torch.float64) for kind in ROLES}
    counts, uniform = dict.fromkeys(ROLES, 0), dict.fromkeys(ROLES, 0.0)
    for start in range(0, len(windows), BATCH):
        ids = windows[start : start + BATCH]
        attention = torch.stack(encoder(ids, fused=False).attention, dim=1)  # [B, L, H, S, S]
        top = attention.argmax(dim=-1, keepdim=True)  # [B, L, H, S, 1]
        for kind, linked in targets(ids, pieces).items():  # bool [B, S, S]
            queries = linked.any(dim=-1)  # [B, S]
            counts[kind] += int(queries.sum())
            uniform[kind] += float(linked.float().mean(dim=-1)[queries].sum())
            keys = linked[:, None, None].expand_as(attention)
            weight[kind] += (attention * keys).sum(dim=(0, 3, 4))
            strongest[kind] += keys.gather(-1, top).sum(dim=(0, 3, 4))
    heads = [
        Head(
            layer,
            head,
            {kind: float(weight[kind][layer, head]) / max(1, counts[kind]) for kind in ROLES},
            {kind: float(strongest[kind][layer, head]) / max(1, counts[kind]) for kind in ROLES},
        )
        for layer in range(shape[0])
        for head in range(shape[1])
    ]
    return heads, {kind: uniform[kind] / max(1, counts[kind]) for kind in ROLES}

"""Roles of attention heads, measured on source code that the model has not seen.

A head is called what its strongest weight falls on for at least half of the tokens, as Voita et al.
2019 ("Analyzing multi-head self-attention", 4) do for positions; Clark et al. 2019 ("What does BERT
look at?") find the same kinds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from headlight_model.encoder import Encoder
from headlight_model.syntax import is_identifier, links
from headlight_model.train.data.tokenizer import SPECIALS

# Broad ones first: a head is called by the first that holds.
KINDS = (
    "previous",
    "next",
    "same identifier",
    "matching bracket",
    "call to arguments",
    "def to name",
)
CALLED = 0.5  # of the tokens
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
        """The first kind that holds; empty where none does."""
        return next((kind for kind in KINDS if self.strongest[kind] >= CALLED), "")


@torch.inference_mode()
def analyse(
    encoder: Encoder, windows: Tensor, pieces: Sequence[str]
) -> tuple[list[Head], dict[str, float]]:
    """Look at all heads.

    Args:
        encoder: in evaluation mode.
        windows: int64 [N, S], each [CLS] ... [SEP] without padding; special tokens are no queries.
        pieces: of the vocabulary, in the order of the ids.

    Returns:
        The heads in order, and by kind the weight that falls on such keys if a head looks
        everywhere alike.
    """
    shape = (encoder.config.layers, encoder.config.heads)
    weight = {kind: torch.zeros(shape, dtype=torch.float64) for kind in KINDS}
    strongest = {kind: torch.zeros(shape, dtype=torch.float64) for kind in KINDS}
    asked, uniform = dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, 0.0)
    for start in range(0, len(windows), BATCH):
        ids = windows[start : start + BATCH]
        attention = torch.stack(encoder(ids, fused=False).attention, dim=1)  # [B, L, H, S, S]
        top = attention.argmax(dim=-1, keepdim=True)  # [B, L, H, S, 1]
        for kind, wanted in targets(ids, pieces).items():  # bool [B, S, S]
            queries = wanted.any(dim=-1)  # [B, S]
            asked[kind] += int(queries.sum())
            uniform[kind] += float(wanted.float().mean(dim=-1)[queries].sum())
            keys = wanted[:, None, None].expand_as(attention)
            weight[kind] += (attention * keys).sum(dim=(0, 3, 4))
            strongest[kind] += keys.gather(-1, top).sum(dim=(0, 3, 4))
    heads = [
        Head(
            layer,
            head,
            {kind: float(weight[kind][layer, head]) / max(1, asked[kind]) for kind in KINDS},
            {kind: float(strongest[kind][layer, head]) / max(1, asked[kind]) for kind in KINDS},
        )
        for layer in range(shape[0])
        for head in range(shape[1])
    ]
    return heads, {kind: uniform[kind] / max(1, asked[kind]) for kind in KINDS}


def targets(ids: Tensor, pieces: Sequence[str]) -> dict[str, Tensor]:
    """By kind, the keys that a query would look at: bool [B, S, S].

    Rows are queries; all False for no query.

    Args:
        ids: int64 [B, S].
        pieces: of the vocabulary, in the order of the ids.
    """
    named = torch.tensor([is_identifier(piece) for piece in pieces])
    places = torch.arange(ids.shape[1])
    distance = places[None, :] - places[:, None]  # [S, S]: key less query
    plain = (ids >= len(SPECIALS))[:, :, None]  # [B, S, 1]
    same = (ids[:, :, None] == ids[:, None, :]) & named[ids][:, :, None] & (distance != 0)
    found = {
        "previous": plain & (distance == -1),
        "next": plain & (distance == 1),
        "same identifier": same,
    }
    syntax = {kind: torch.zeros_like(same) for kind in KINDS if kind not in found}
    for row, numbers in enumerate(ids.tolist()):
        for kind, query, key in links([pieces[number] for number in numbers]):
            syntax[kind][row, query, key] = True
    return found | syntax

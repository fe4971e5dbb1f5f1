"""What each attention head looks at, on source code that the model has not seen.

A head is called what its strongest weight falls on for at least half of the tokens, as Voita et al. 2019 ("Analyzing
multi-head self-attention", 4) do for positions; Clark et al. 2019 ("What does BERT look at?") find the same kinds.
"""

from __future__ import annotations

import dataclasses
import keyword
import re
from collections.abc import Sequence

import torch
from torch import Tensor

from headlight_model.encoder import Encoder
from headlight_model.train.data.tokenizer import SPECIALS

KINDS = ("previous", "next", "same identifier")
CALLED = 0.5  # of the tokens
BATCH = 16
IDENTIFIER = re.compile(r"[a-z_]\w+")


@dataclasses.dataclass(frozen=True)
class Head:
    """One head; each figure is a mean over the tokens that it applies to."""

    layer: int
    head: int
    weight: dict[str, float]  # by kind: attention that falls on such keys
    strongest: dict[str, float]  # by kind: share of the tokens whose strongest weight falls on such a key

    @property
    def name(self) -> str:
        """The kind that the head is called; empty where none holds."""
        kind = max(KINDS, key=self.strongest.__getitem__)
        return kind if self.strongest[kind] >= CALLED else ""


@torch.inference_mode()
def analyse(encoder: Encoder, windows: Tensor, pieces: Sequence[str]) -> tuple[list[Head], dict[str, float]]:
    """Look at all heads.

    Args:
        encoder: in evaluation mode.
        windows: int64 [N, S], each [CLS] ... [SEP] without padding; special tokens are no queries.
        pieces: of the vocabulary, in the order of the ids.

    Returns:
        The heads in order, and by kind the weight that falls on such keys if a head looks everywhere alike.
    """
    named = torch.tensor([is_identifier(piece) for piece in pieces])
    shape = (encoder.config.layers, encoder.config.heads)
    weight = {kind: torch.zeros(shape, dtype=torch.float64) for kind in KINDS}
    strongest = {kind: torch.zeros(shape, dtype=torch.float64) for kind in KINDS}
    asked, uniform = dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, 0.0)
    for start in range(0, len(windows), BATCH):
        ids = windows[start : start + BATCH]
        attention = torch.stack(encoder(ids, fused=False).attention, dim=1)  # [B, L, H, S, S]
        top = attention.argmax(dim=-1, keepdim=True)  # [B, L, H, S, 1]
        for kind, wanted in targets(ids, named).items():  # bool [B, S, S]
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
            {kind: float(weight[kind][layer, head]) / asked[kind] for kind in KINDS},
            {kind: float(strongest[kind][layer, head]) / asked[kind] for kind in KINDS},
        )
        for layer in range(shape[0])
        for head in range(shape[1])
    ]
    return heads, {kind: uniform[kind] / asked[kind] for kind in KINDS}


def is_identifier(piece: str) -> bool:
    """Whether a piece can be a whole name; keywords and pieces inside words are not."""
    return bool(IDENTIFIER.fullmatch(piece)) and not keyword.iskeyword(piece)


def targets(ids: Tensor, named: Tensor) -> dict[str, Tensor]:
    """By kind, the keys that a query would look at: bool [B, S, S], rows are queries; all False for no query.

    Args:
        ids: int64 [B, S].
        named: bool [V], True for pieces that are identifiers.
    """
    places = torch.arange(ids.shape[1])
    distance = places[None, :] - places[:, None]  # [S, S]: key less query
    plain = (ids >= len(SPECIALS))[:, :, None]  # [B, S, 1]
    same = (ids[:, :, None] == ids[:, None, :]) & named[ids][:, :, None] & (distance != 0)
    return {"previous": plain & (distance == -1), "next": plain & (distance == 1), "same identifier": same}

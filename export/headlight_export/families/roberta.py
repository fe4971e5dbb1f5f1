"""RoBERTa, XLM-RoBERTa, CamemBERT: BERT whose positions are counted from behind the padding id."""

from __future__ import annotations

from torch import Tensor

from headlight_export.families import bert
from headlight_export.families.source import Config, Weights
from headlight_model.encoder import Encoder


def convert(config: Config, tensors: dict[str, Tensor], longest: int | None) -> Encoder:
    """See `headlight_export.families.Convert`."""
    weights = Weights(tensors, ("roberta.", "camembert."), (*bert.IDLE, "lm_head."))
    # The first token stands at pad_token_id + 1; the rows before it are for padding.
    return bert.table(config, weights, unused=config.get(int, "pad_token_id", default=1) + 1)

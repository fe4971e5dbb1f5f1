"""RoBERTa, XLM-RoBERTa, CamemBERT: BERT with positions counted from after the padding id."""

from __future__ import annotations

from torch import Tensor

from headlight_export.families import bert
from headlight_export.families.source import Config
from headlight_model.encoder import Encoder

PREFIXES, IDLE = ("roberta.", "camembert."), (*bert.IDLE, "lm_head.")


def convert(config: Config, tensors: dict[str, Tensor], longest: int | None) -> Encoder:
    """Convert a RoBERTa folder; see `headlight_export.families.Convert`."""
    config.demand(
        "lora_adaptations",
        ([],),
        "adapters for each task that its own code adds to the weights; only plain weights are read",
    )
    # The first token has position pad_token_id + 1; the rows before it are for padding.
    unused = config.get(int, "pad_token_id", default=1) + 1
    return bert.table(config, tensors, PREFIXES, IDLE, unused=unused)

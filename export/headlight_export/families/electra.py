"""ELECTRA: BERT whose embeddings may be narrower than its layers."""

from __future__ import annotations

from torch import Tensor

from headlight_export.families import bert
from headlight_export.families.source import Config
from headlight_model.encoder import Encoder

IDLE = (*bert.IDLE, "discriminator_predictions.", "generator_predictions.", "generator_lm_head.")


def convert(config: Config, tensors: dict[str, Tensor], longest: int | None) -> Encoder:
    """Convert an ELECTRA folder; see `headlight_export.families.Convert`."""
    width = config.get(int, "embedding_size", default=128, least=1)
    return bert.table(config, tensors, ("electra.",), IDLE, embedding_dim=width)

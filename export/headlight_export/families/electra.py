"""ELECTRA: BERT whose embeddings may be narrower than its layers."""

from __future__ import annotations

from torch import Tensor

from headlight_export.families import bert
from headlight_export.families.source import Config, Weights
from headlight_model.encoder import Encoder

IDLE = (*bert.IDLE, "discriminator_predictions.", "generator_predictions.", "generator_lm_head.")


def convert(config: Config, tensors: dict[str, Tensor], longest: int | None) -> Encoder:
    """Convert an ELECTRA folder; see `headlight_export.families.Convert`."""
    weights = Weights(tensors, ("electra.",), IDLE)
    width = config.get(int, "embedding_size", default=128, least=1)
    return bert.table(config, weights, unused=0, embedding_dim=width)

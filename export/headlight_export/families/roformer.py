"""RoFormer: BERT with rotary positions over pairs of neighbouring dimensions."""

from __future__ import annotations

import torch
from torch import Tensor

from headlight_export.families import bert
from headlight_export.families.source import Config, Weights
from headlight_export.families.words import activation
from headlight_export.folders.model_folder import Refused
from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder
from headlight_model.positions.angles import inverse_wavelengths
from headlight_model.positions.interleaved import to_half_split

ANGLES = "encoder.embed_positions.weight"


def convert(config: Config, tensors: dict[str, Tensor], longest: int | None) -> Encoder:
    """Convert a RoFormer folder; see `headlight_export.families.Convert`."""
    trained = config.get(int, "max_position_embeddings", default=1536, least=1)
    values = config.get(bool, "rotary_value", default=False)
    wide = config.get(int, "embedding_size", default=config.get(int, "hidden_size"))
    built = EncoderConfig(
        **bert.common(config),
        embedding_dim=wide,
        positions="rope",
        rope_values=values,
        activation=activation(config),
        trained_length=trained,
        max_length=max(longest or 0, trained),
    )
    weights = Weights(built, tensors, ("roformer.",), bert.IDLE)
    bert.move_embeddings(
        weights,
        "embeddings.word_embeddings",
        "embeddings.token_type_embeddings",
        "embeddings.LayerNorm",
    )
    if wide != built.dim:
        weights.move_linear("embedding_project", "embeddings_project")

    _check_angles(weights, built)

    def reorder(rows: Tensor) -> Tensor:
        return to_half_split(rows, built.heads, built.rope_width)

    for at in range(built.layers):
        ours, layer = f"blocks.{at}", f"encoder.layer.{at}"
        bert.move_attention(
            weights,
            ours,
            layer,
            change=reorder,
            turned=("query", "key", *(("value",) if values else ())),
        )
        if values:  # the heads' outputs are in the new order, too
            name = f"{ours}.attention.project_out.weight"
            weights.state[name] = reorder(weights.state[name].T.contiguous()).T.contiguous()
        bert.move_feed_forward(weights, ours, layer)
    return weights.build()


def _check_angles(weights: Weights, built: EncoderConfig) -> None:
    """Check the file's sines (first half) and cosines (second half) against ours.

    Raises:
        Refused: they differ.
    """
    if ANGLES not in weights:
        return
    table = weights.take(ANGLES)
    places = torch.arange(len(table), dtype=torch.float64)
    angles = places[:, None] * inverse_wavelengths(built.head_dim, built.rope_theta)
    expected = torch.cat((angles.sin(), angles.cos()), dim=1)
    if table.shape != expected.shape or (table - expected).abs().max() > 1e-3:
        raise Refused(
            f"{ANGLES} are not the angles of 10000^(-2i/d), which alone are served; "
            "the model is another one"
        )

"""JinaBERT v2: BERT with symmetric ALiBi and gated networks, in the names of its own code."""

from __future__ import annotations

from torch import Tensor

from headlight_export.families import bert
from headlight_export.families.source import Config, Weights
from headlight_export.families.words import activation
from headlight_export.folders.model_folder import Refused
from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder

GATES = {"geglu": "gelu", "reglu": "relu"}


def convert(config: Config, tensors: dict[str, Tensor], longest: int | None) -> Encoder:
    """Convert a JinaBERT folder; see `headlight_export.families.Convert`."""
    gate = config.get(str, "feed_forward_type", default="original")
    if gate not in (*GATES, "original"):
        raise Refused(
            f"config.json: feed_forward_type {gate!a:.40} cannot be served; served are "
            "original, geglu, reglu"
        )
    # It was trained with 512 tokens, and is served with max_position_embeddings, 8,192.
    trained = config.get(int, "max_position_embeddings", least=1)
    built = EncoderConfig(
        **bert.common(config),
        positions="alibi",
        ffn="plain" if gate == "original" else "gated",
        ffn_bias=gate == "original",
        activation=GATES[gate] if gate in GATES else activation(config),
        trained_length=trained,
        max_length=max(longest or 0, trained),
    )
    weights = Weights(built, tensors, bert.PREFIXES, bert.IDLE)
    bert.move_embeddings(
        weights,
        "embeddings.word_embeddings",
        "embeddings.token_type_embeddings",
        "embeddings.LayerNorm",
    )
    for at in range(built.layers):
        ours, layer = f"blocks.{at}", f"encoder.layer.{at}"
        bert.move_attention(weights, ours, layer)
        if gate == "original":
            bert.move_feed_forward(weights, ours, layer)
        else:
            _move_gated(weights, ours, f"{layer}.mlp")
    return weights.build()


def _move_gated(weights: Weights, ours: str, theirs: str) -> None:
    """Move one matrix of two halves, the first of which is activated."""
    feed_forward = f"{ours}.feed_forward"
    weights.move_halves(
        f"{feed_forward}.gate.weight", f"{feed_forward}.up.weight", f"{theirs}.gated_layers.weight"
    )
    weights.move_linear(f"{ours}.feed_forward.down", f"{theirs}.wo")
    weights.move_norm(f"{ours}.feed_forward_norm", f"{theirs}.layernorm")

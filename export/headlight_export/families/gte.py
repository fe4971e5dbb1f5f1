"""GTE since 2024: BERT with rotary positions and gated networks.

Names are those of its own code (NewModel), which transformers 5 writes too, or transformers' inner
ones.
"""

from __future__ import annotations

import functools

from torch import Tensor

from headlight_export.families import bert
from headlight_export.families.nomic_bert import move_native
from headlight_export.families.rotary import NTK, SCALINGS, rotary
from headlight_export.families.source import Config, Weights
from headlight_export.families.words import activation
from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder

IDLE = ("pooler.", "lm_head.", "classifier.", "qa_outputs.")
DEMANDS = {
    "position_embedding_type": ("rope",),
    "layer_norm_type": ("layer_norm",),
    "pack_qkv": (True,),
    "logn_attention_scale": (False,),
}


def convert(
    config: Config, tensors: dict[str, Tensor], longest: int | None, *, theta: float
) -> Encoder:
    """Convert a GTE folder; see `headlight_export.families.Convert`.

    `theta`: of the rotary positions, if config.json has none.
    """
    for name, accepted in DEMANDS.items():
        config.demand(
            name, accepted, f"which this family is not served with; only {accepted[0]} is"
        )
    trained = config.get(int, "max_position_embeddings", default=8192, least=1)
    built = EncoderConfig(
        **bert.common(config)
        | {"segments": config.get(int, "type_vocab_size", default=1, least=0)},
        ffn="gated",
        ffn_bias=False,
        activation=activation(config),
        positions="rope",
        **rotary(
            config,
            default_theta=theta,
            trained=trained,
            longest=longest or trained,
            scalings=(*SCALINGS, NTK),
        ),
        trained_length=trained,
        max_length=max(longest or 0, trained),
    )
    weights = Weights(built, tensors, ("new.", "gte."), IDLE)
    weights.move("embedding.weight", "embeddings.word_embeddings.weight")
    if built.segments:
        weights.move("segment_embedding.weight", "embeddings.token_type_embeddings.weight")
    weights.move_norm("embedding_norm", "embeddings.LayerNorm")
    native = "layers.0.self_attn.q_proj.weight" in weights
    for at in range(built.layers):
        if native:
            move_native(weights, f"blocks.{at}", f"layers.{at}", bias=True)
        else:
            _move_original(weights, f"blocks.{at}", f"encoder.layer.{at}")
    return weights.build()


def _move_original(weights: Weights, ours: str, layer: str) -> None:
    attention, feed_forward = f"{ours}.attention", f"{ours}.feed_forward"
    weights.move_linear(f"{attention}.project_in", f"{layer}.attention.qkv_proj")
    weights.move_linear(f"{attention}.project_out", f"{layer}.attention.o_proj")
    weights.move_norm(f"{ours}.attention_norm", f"{layer}.attn_ln")
    # The second half is activated.
    up, gate = f"{feed_forward}.up.weight", f"{feed_forward}.gate.weight"
    weights.move_halves(up, gate, f"{layer}.mlp.up_gate_proj.weight")
    weights.move_linear(f"{feed_forward}.down", f"{layer}.mlp.down_proj")
    weights.move_norm(f"{ours}.feed_forward_norm", f"{layer}.mlp_ln")


new = functools.partial(convert, theta=10_000.0)
gte = functools.partial(convert, theta=160_000.0)

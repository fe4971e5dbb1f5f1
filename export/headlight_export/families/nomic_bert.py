"""NomicBERT: BERT with rotary positions and gated networks.

Names are those of its own code or of transformers 5.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from torch import Tensor

from headlight_export.families.rotary import rotary
from headlight_export.families.source import Config, Weights
from headlight_export.families.words import ACTIVATIONS
from headlight_export.folders.model_folder import Refused
from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder

IDLE = ("pooler.", "cls.", "lm_head.")
DEMANDS = {
    "causal": (False,),
    "prenorm": (False,),
    "use_rms_norm": (False,),
    "rotary_emb_interleaved": (False,),
    "rotary_emb_scale_base": (None, 0),
    "qkv_proj_bias": (False,),
    "mlp_fc1_bias": (False,),
    "mlp_fc2_bias": (False,),
    "parallel_block": (False,),
}


def convert(config: Config, tensors: dict[str, Tensor], longest: int | None) -> Encoder:
    """Convert a NomicBERT folder; see `headlight_export.families.Convert`."""
    config.demand("moe_every_n_layers", (0,), "so that layers choose among experts; none may")
    for name, accepted in DEMANDS.items():
        config.demand(
            name, accepted, f"which this family is not served with; only {accepted[0]} is"
        )
    gate = config.get(str, "activation_function", "hidden_act", default="silu")
    gate = {"swiglu": "silu", "geglu": "gelu"}.get(gate, gate)
    if gate not in ACTIVATIONS:
        raise Refused(
            f"config.json: activation_function {gate!a:.40} cannot be served; "
            "served are swiglu and geglu"
        )
    trained = config.get(
        int,
        "max_trained_positions",
        "max_position_embeddings",
        "n_positions",
        default=2048,
        least=1,
    )
    built = EncoderConfig(
        vocab_size=config.get(int, "vocab_size", least=1),
        dim=config.get(int, "hidden_size", "n_embd"),
        heads=config.get(int, "num_attention_heads", "n_head"),
        layers=config.get(int, "num_hidden_layers", "n_layer"),
        ffn_dim=config.get(int, "intermediate_size", "n_inner"),
        head_width=config.get(int, "head_dim", default=0),
        norm="post",
        norm_eps=config.get(float, "layer_norm_eps", "layer_norm_epsilon", default=1e-12),
        attention_bias=False,
        attention_out_bias=False,
        ffn="gated",
        ffn_bias=False,
        ffn_out_bias=False,
        activation=ACTIVATIONS[gate],
        segments=config.get(int, "type_vocab_size", default=2),
        positions="rope",
        **_turning(config, trained, longest or trained),
        normalize=False,
        trained_length=trained,
        max_length=max(longest or 0, trained),
        pad_id=config.get(int, "pad_token_id", default=0),
    )
    weights = Weights(built, tensors, ("bert.", "nomic_bert."), IDLE)
    padded = len(weights.peek("embeddings.word_embeddings.weight"))
    weights.built = dataclasses.replace(built, vocab_size=padded)
    native = "layers.0.self_attn.q_proj.weight" in weights
    weights.move("embedding.weight", "embeddings.word_embeddings.weight")
    weights.move("segment_embedding.weight", "embeddings.token_type_embeddings.weight")
    weights.move_norm("embedding_norm", "embeddings.LayerNorm" if native else "emb_ln")
    for at in range(built.layers):
        move = move_native if native else _move_original
        move(weights, f"blocks.{at}", f"layers.{at}" if native else f"encoder.layers.{at}")
    return weights.build()


def _turning(config: Config, trained: int, longest: int) -> dict[str, Any]:
    """Return the rope_ fields.

    Its own code scales by the longest text of a batch. We scale for the longest text that is
    served, or not at all.
    """
    values = {
        "rope_theta": config.values.get("rotary_emb_base"),
        "partial_rotary_factor": config.values.get("rotary_emb_fraction"),
    }
    factor = config.values.get("rotary_scaling_factor")
    scaling = {"rope_scaling": {"rope_type": "dynamic", "factor": factor}} if factor else {}
    values = {
        **{name: value for name, value in values.items() if value is not None},
        **scaling,
        **config.values,
    }
    return rotary(Config(values), default_theta=1000.0, trained=trained, longest=longest)


def _move_original(weights: Weights, ours: str, layer: str) -> None:
    weights.move(f"{ours}.attention.project_in.weight", f"{layer}.attn.Wqkv.weight")
    weights.move(f"{ours}.attention.project_out.weight", f"{layer}.attn.out_proj.weight")
    weights.move_norm(f"{ours}.attention_norm", f"{layer}.norm1")
    weights.move(f"{ours}.feed_forward.up.weight", f"{layer}.mlp.fc11.weight")
    weights.move(f"{ours}.feed_forward.gate.weight", f"{layer}.mlp.fc12.weight")
    weights.move(f"{ours}.feed_forward.down.weight", f"{layer}.mlp.fc2.weight")
    weights.move_norm(f"{ours}.feed_forward_norm", f"{layer}.norm2")


def move_native(weights: Weights, ours: str, layer: str, *, bias: bool = False) -> None:
    """Move a layer in the names of transformers 5.

    `bias`: the projections of attention have biases, and the one out of the feed-forward network.
    """
    attention, feed_forward = f"{ours}.attention", f"{ours}.feed_forward"
    projections = (f"{layer}.self_attn.{part}_proj" for part in "qkv")
    weights.move_linear(f"{attention}.project_in", *projections, bias=bias)
    weights.move_linear(f"{attention}.project_out", f"{layer}.self_attn.o_proj", bias=bias)
    weights.move_norm(f"{ours}.attention_norm", f"{layer}.post_attention_layernorm")
    for part in ("gate", "up"):
        weights.move_linear(f"{feed_forward}.{part}", f"{layer}.mlp.{part}_proj", bias=False)
    weights.move_linear(f"{feed_forward}.down", f"{layer}.mlp.down_proj", bias=bias)
    weights.move_norm(f"{ours}.feed_forward_norm", f"{layer}.post_mlp_layernorm")

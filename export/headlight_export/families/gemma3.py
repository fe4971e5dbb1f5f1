"""Gemma 3's text models, causal or, as EmbeddingGemma, bidirectional: four norms in each block.

Norms multiply by 1 + w, and attention scores by query_pre_attn_scalar^-0.5: both are folded into
the weights of norms. Embeddings are multiplied by sqrt(hidden_size) in float32, as transformers
does in float32; in bfloat16 it rounds that factor.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from headlight_export.families.llama import IDLE, move_layers
from headlight_export.families.rotary import rotary_by_kind
from headlight_export.families.source import GLOBAL, LOCAL, Config, Weights, local_layers
from headlight_export.families.words import activation, shared
from headlight_export.folders.model_folder import Refused
from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder

THETAS = {GLOBAL: ("rope_theta", 1_000_000.0), LOCAL: ("rope_local_base_freq", 10_000.0)}
# Ours, and theirs.
NORMS = {
    "attention_norm": "input_layernorm",
    "attention_out_norm": "post_attention_layernorm",
    "feed_forward_norm": "pre_feedforward_layernorm",
    "feed_forward_out_norm": "post_feedforward_layernorm",
    "attention.key_norm": "self_attn.k_norm",
}


def convert(config: Config, tensors: dict[str, Tensor], longest: int | None) -> Encoder:
    """Convert a folder of Gemma 3's text model; see `headlight_export.families.Convert`."""
    causal = _is_causal(config)
    config.demand(
        "attn_logit_softcapping", (), "which caps scores by a tanh; that cannot be served"
    )
    trained = config.get(int, "max_position_embeddings", default=131_072, least=1)
    biases = config.get(bool, "attention_bias", default=False)
    built = EncoderConfig(
        **shared(config),
        **_window(config, causal),
        head_width=config.get(int, "head_dim", default=256, least=1),
        kv_heads=config.get(int, "num_key_value_heads", default=4, least=1),
        norm="sandwich",
        norm_type="rms",
        norm_eps=config.get(float, "rms_norm_eps", default=1e-6),
        attention_bias=biases,
        attention_out_bias=biases,
        qk_norm="head",
        causal=causal,
        ffn="gated",
        ffn_bias=False,
        ffn_out_bias=False,
        activation=activation(config, "hidden_activation", default="gelu_pytorch_tanh"),
        scale_embeddings=True,
        positions="rope",
        **rotary_by_kind(
            config, THETAS, trained=trained, longest=longest or trained, scaled=(GLOBAL,)
        ),
        pooling="last" if causal else "mean",
        trained_length=trained,
        max_length=max(longest or 0, trained),
    )
    scalar = config.get(float, "query_pre_attn_scalar", default=256.0, least=1)
    scale = (built.head_dim / scalar) ** 0.5  # the encoder divides scores by sqrt(head_dim)
    weights = Weights(built, tensors, ("model.",), IDLE)
    weights.move("embedding.weight", "embed_tokens.weight")
    _move_norm(weights, "final_norm", "norm")
    for at in range(built.layers):
        ours, layer = f"blocks.{at}", f"layers.{at}"
        move_layers(weights, built, ours, layer)
        for place, name in NORMS.items():
            _move_norm(weights, f"{ours}.{place}", f"{layer}.{name}")
        _move_norm(weights, f"{ours}.attention.query_norm", f"{layer}.self_attn.q_norm", scale)
    return weights.build()


def _move_norm(weights: Weights, ours: str, theirs: str, scale: float = 1.0) -> None:
    """Move a norm's weight w as scale (1 + w)."""
    weights.move(f"{ours}.weight", f"{theirs}.weight", change=lambda w: (1 + w) * scale)


def _is_causal(config: Config) -> bool:
    """Return whether the model is causal.

    Raises:
        Refused: is_causal is false. It was not read before transformers 5.2; since then it changes
            the windows, too.
    """
    config.demand(
        "is_causal",
        (True,),
        "which versions of transformers read differently in this family; remove it, and set "
        "use_bidirectional_attention to true if the model sees both ways",
    )
    return not config.get(bool, "use_bidirectional_attention", default=False)


def _window(config: Config, causal: bool) -> dict[str, Any]:
    """Return the fields of local layers: those that layer_types names, or all but every sixth."""
    layers = config.get(int, "num_hidden_layers")
    kinds = config.values.get("layer_types")
    if kinds is None:
        every = config.get(int, "sliding_window_pattern", default=6, least=1)
        kinds = [LOCAL if at % every else GLOBAL for at in range(1, layers + 1)]
    local = local_layers(kinds, layers)
    if not local:
        return {}
    if config.values.get("sliding_window", 0) is None:
        raise Refused("config.json: sliding_window is null, but layer_types names local layers")
    width = config.get(int, "sliding_window", default=4096, least=2)
    if causal:  # it counts the token itself
        return {"window": width - 1, "local_layers": local}
    if width % 2:
        config.remarks.append(
            f"sliding_window {width} is read as transformers does, {width // 2} tokens each way; "
            f"but transformers 4 wrote such odd numbers for {2 * (width - 1)}, which is "
            f"{width - 1} each way: set that in config.json if it was so in training"
        )
    return {"window": width // 2, "local_layers": local}

"""ModernBERT: pre-norm, rotary positions, mostly local layers, gated networks."""

from __future__ import annotations

from torch import Tensor

from headlight_export.families.rotary import rotary_by_kind
from headlight_export.families.source import GLOBAL, LOCAL, Config, Weights, local_layers
from headlight_export.families.words import activation, shared
from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder

IDLE = ("head.", "decoder.", "classifier.")
THETAS = {GLOBAL: ("global_rope_theta", 160_000.0), LOCAL: ("local_rope_theta", 10_000.0)}


def convert(config: Config, tensors: dict[str, Tensor], longest: int | None) -> Encoder:
    """Convert a ModernBERT folder; see `headlight_export.families.Convert`."""
    norm_bias = config.get(bool, "norm_bias", default=False)
    attention_bias = config.get(bool, "attention_bias", default=False)
    ffn_bias = config.get(bool, "mlp_bias", default=False)
    trained = config.get(int, "max_position_embeddings", default=8192, least=1)
    local_layers = _local_layers(config)
    built = EncoderConfig(
        **shared(config),
        norm="pre",
        norm_bias=norm_bias,
        norm_eps=config.get(float, "norm_eps", default=1e-5),
        embedding_norm=True,
        first_norm=False,
        attention_bias=attention_bias,
        attention_out_bias=attention_bias,
        local_layers=local_layers,
        window=config.get(int, "local_attention", default=128, least=2) // 2 if local_layers else 0,
        ffn="gated",
        ffn_bias=ffn_bias,
        ffn_out_bias=ffn_bias,
        activation=activation(config, "hidden_activation"),
        positions="rope",
        **rotary_by_kind(config, THETAS, trained=trained, longest=longest or trained),
        trained_length=trained,
        max_length=max(longest or 0, trained),
    )
    weights = Weights(built, tensors, ("model.",), IDLE)
    weights.move("embedding.weight", "embeddings.tok_embeddings.weight")
    weights.move_norm("embedding_norm", "embeddings.norm", bias=norm_bias)
    weights.move_norm("final_norm", "final_norm", bias=norm_bias)
    for at in range(built.layers):
        ours, layer = f"blocks.{at}", f"layers.{at}"
        if at:
            weights.move_norm(f"{ours}.attention_norm", f"{layer}.attn_norm", bias=norm_bias)
        weights.move_linear(
            f"{ours}.attention.project_in", f"{layer}.attn.Wqkv", bias=attention_bias
        )
        weights.move_linear(
            f"{ours}.attention.project_out", f"{layer}.attn.Wo", bias=attention_bias
        )
        weights.move_norm(f"{ours}.feed_forward_norm", f"{layer}.mlp_norm", bias=norm_bias)
        for part in ("weight", "bias") if ffn_bias else ("weight",):
            gate, up = f"{ours}.feed_forward.gate.{part}", f"{ours}.feed_forward.up.{part}"
            weights.move_halves(gate, up, f"{layer}.mlp.Wi.{part}")  # the first half is activated
        weights.move_linear(f"{ours}.feed_forward.down", f"{layer}.mlp.Wo", bias=ffn_bias)
    return weights.build()


def _local_layers(config: Config) -> tuple[int, ...]:
    """Return the layers that the config calls local, or all but every third."""
    layers = config.get(int, "num_hidden_layers")
    kinds = config.values.get("layer_types")
    if kinds is None:
        every = config.get(int, "global_attn_every_n_layers", default=3, least=1)
        return tuple(layer for layer in range(layers) if layer % every)
    return local_layers(kinds, layers)

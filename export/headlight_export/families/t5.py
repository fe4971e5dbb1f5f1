"""Encoders of T5, mT5 and umT5, which know order by a relative bias alone."""

from __future__ import annotations

import functools
import math

from torch import Tensor

from headlight_export.families.source import Config, Weights
from headlight_export.families.words import ACTIVATIONS
from headlight_export.folders.model_folder import Refused
from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder

EMBEDDING, COPY = "shared.weight", "encoder.embed_tokens.weight"  # either or both
IDLE = ("decoder.", "lm_head.", "classification_head.", "classifier.", "qa_outputs.", COPY)


def convert(
    config: Config,
    tensors: dict[str, Tensor],
    longest: int | None,
    *,
    feed_forward: str = "gated-gelu",
    per_layer: bool = False,
) -> Encoder:
    """Convert a T5 folder; see `headlight_export.families.Convert`.

    Args:
        config, tensors, longest: as there.
        feed_forward: kind of the networks if config.json has none.
        per_layer: each layer has its own biases; else the first has those of all.
    """
    config.demand("is_decoder", (False,), "which makes it causal; only the encoder is served")
    gated, activation = _feed_forward(config, feed_forward)
    trained = config.get(int, "n_positions", default=512, least=1)
    built = EncoderConfig(
        vocab_size=config.get(int, "vocab_size", least=1),
        dim=config.get(int, "d_model", least=1),
        heads=config.get(int, "num_heads", least=1),
        head_width=config.get(int, "d_kv", least=1),
        layers=config.get(int, "num_layers", least=1),
        ffn_dim=config.get(int, "d_ff", least=1),
        norm="pre",
        norm_type="rms",
        norm_eps=config.get(float, "layer_norm_epsilon", default=1e-6),
        attention_bias=False,
        attention_out_bias=False,
        ffn="gated" if gated else "plain",
        ffn_bias=False,
        ffn_out_bias=False,
        activation=activation,
        positions="relative",
        relative_buckets=config.get(int, "relative_attention_num_buckets", default=32),
        relative_distance=config.get(int, "relative_attention_max_distance", default=128),
        relative_per_layer=per_layer,
        normalize=False,
        trained_length=trained,
        max_length=max(longest or 0, trained),
        pad_id=config.get(int, "pad_token_id", default=0),
    )
    weights = Weights(built, tensors, ("transformer.",), IDLE)
    weights.move("embedding.weight", EMBEDDING if EMBEDDING in weights else COPY)
    weights.move_norm("final_norm", "encoder.final_layer_norm", bias=False)
    weights.move(
        "positions.tables",
        *(
            f"encoder.block.{at}.layer.0.SelfAttention.relative_attention_bias.weight"
            for at in range(built.layers if per_layer else 1)
        ),
        change=lambda table: table[None],
    )
    for at in range(built.layers):
        _move_block(weights, built, f"blocks.{at}", f"encoder.block.{at}")
    return weights.build()


def _feed_forward(config: Config, default: str) -> tuple[bool, str]:
    """Return whether the networks are gated, and our name of their activation."""
    kind = config.get(str, "feed_forward_proj", default=default)
    # T5 1.1 says gelu and computes with the approximation by tanh.
    names = {f"gated-{name}": name for name in ACTIVATIONS} | {"gated-gelu": "gelu_new"}
    name = names.get(kind, kind)
    if name not in ACTIVATIONS:
        raise Refused(
            f"config.json: feed_forward_proj {kind!a:.40} cannot be served; served are relu, "
            f"gated-gelu, and gated- before any of {', '.join(sorted(ACTIVATIONS))}"
        )
    return kind in names, ACTIVATIONS[name]


def _move_block(weights: Weights, built: EncoderConfig, ours: str, block: str) -> None:
    attention, feed_forward = f"{block}.layer.0", f"{block}.layer.1"
    weights.move_norm(f"{ours}.attention_norm", f"{attention}.layer_norm", bias=False)
    query, key, value = (weights.take(f"{attention}.SelfAttention.{part}.weight") for part in "qkv")
    # T5 does not divide scores by sqrt(d).
    weights.join(
        f"{ours}.attention.project_in.weight",
        f"{attention}.SelfAttention.q.weight",
        [query * math.sqrt(built.head_dim), key, value],
    )
    weights.move_linear(f"{ours}.attention.project_out", f"{attention}.SelfAttention.o", bias=False)
    weights.move_norm(f"{ours}.feed_forward_norm", f"{feed_forward}.layer_norm", bias=False)
    parts = {"gate": "wi_0", "up": "wi_1"} if built.ffn == "gated" else {"up": "wi"}
    for part, theirs in (parts | {"down": "wo"}).items():
        weights.move_linear(
            f"{ours}.feed_forward.{part}", f"{feed_forward}.DenseReluDense.{theirs}", bias=False
        )


t5 = functools.partial(convert, feed_forward="relu")
umt5 = functools.partial(convert, per_layer=True)

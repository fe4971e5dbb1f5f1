"""GPT-2: a causal decoder with learned positions, whose matrices are stored by columns."""

from __future__ import annotations

import math

from torch import Tensor

from headlight_export.families.source import Config, Weights
from headlight_export.families.words import activation
from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder

IDLE = ("lm_head.", "score.", "classifier.", "qa_outputs.", "multiple_choice_head.")
MASKS = (".attn.bias", ".attn.masked_bias")  # in old files: which keys a query sees


def convert(config: Config, tensors: dict[str, Tensor], longest: int | None) -> Encoder:
    """Convert a GPT-2 folder; see `headlight_export.families.Convert`."""
    config.demand(
        "add_cross_attention", (False,), "which reads a second text; decoders alone are served"
    )
    for name in [name for name in tensors if name.endswith(MASKS)]:
        del tensors[name]
    vocabulary, dim = config.get(int, "vocab_size", least=1), config.get(int, "n_embd", least=1)
    rows = config.get(int, "n_positions", default=1024, least=1)
    pad = config.get(int, "pad_token_id", default=0)
    built = EncoderConfig(
        vocab_size=vocabulary,
        dim=dim,
        heads=config.get(int, "n_head", least=1),
        layers=config.get(int, "n_layer", least=1),
        ffn_dim=config.get(int, "n_inner", default=4 * dim, least=1),
        positions="learned",
        norm="pre",
        norm_eps=config.get(float, "layer_norm_epsilon", default=1e-5),
        causal=True,
        activation=activation(config, "activation_function", default="gelu_new"),
        pooling="last",
        normalize=False,
        trained_length=rows,
        max_length=rows,
        pad_id=pad if 0 <= pad < vocabulary else 0,
    )
    weights = Weights(built, tensors, ("transformer.",), IDLE)
    weights.move("embedding.weight", "wte.weight")
    weights.move("positions.table.weight", "wpe.weight")
    weights.move_norm("final_norm", "ln_f")
    scaled = config.get(bool, "scale_attn_weights", default=True)
    by_layer = config.get(bool, "scale_attn_by_inverse_layer_idx", default=False)
    for at in range(built.layers):
        # Factors on scores, other than 1 / sqrt(d), become factors on queries.
        factor = (1.0 if scaled else math.sqrt(built.head_dim)) / (at + 1 if by_layer else 1)
        _move_block(weights, f"blocks.{at}", f"h.{at}", factor)
    return weights.build()


def _move_block(weights: Weights, ours: str, layer: str, factor: float) -> None:
    """Move a layer; `factor` is on its queries."""
    packed = f"{layer}.attn.c_attn"
    for part in ("weight", "bias"):
        query, *others = weights.take(f"{packed}.{part}").chunk(3, dim=-1)
        joined = [each.T if part == "weight" else each for each in (query * factor, *others)]
        weights.join(f"{ours}.attention.project_in.{part}", f"{packed}.{part}", joined)
    places = {
        "attention.project_out": "attn.c_proj",
        "feed_forward.up": "mlp.c_fc",
        "feed_forward.down": "mlp.c_proj",
    }
    for place, name in places.items():
        weights.move(f"{ours}.{place}.weight", f"{layer}.{name}.weight", change=lambda rows: rows.T)
        weights.move(f"{ours}.{place}.bias", f"{layer}.{name}.bias")
    weights.move_norm(f"{ours}.attention_norm", f"{layer}.ln_1")
    weights.move_norm(f"{ours}.feed_forward_norm", f"{layer}.ln_2")

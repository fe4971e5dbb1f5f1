"""MPNet: BERT with learned positions and a relative bias, without token types."""

from __future__ import annotations

from torch import Tensor

from headlight_export.families import bert
from headlight_export.families.source import Config, Weights
from headlight_export.families.words import activation
from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder

PAD = 1  # of every MPNet: the first token has the position after it
BUCKETS = 32  # its own code reads no other number


def convert(config: Config, tensors: dict[str, Tensor], longest: int | None) -> Encoder:
    """Convert an MPNet folder; see `headlight_export.families.Convert`."""
    config.demand(
        "relative_attention_num_buckets",
        (BUCKETS,),
        f"which this family has no code for; only {BUCKETS} is served",
    )
    unused = PAD + 1
    rows = config.get(int, "max_position_embeddings", least=unused + 1) - unused
    built = EncoderConfig(
        **bert.common(config) | {"segments": 0, "pad_id": PAD},
        positions="learned+relative",
        relative_buckets=BUCKETS,
        activation=activation(config),
        trained_length=rows,
        max_length=rows,
    )
    weights = Weights(built, tensors, ("mpnet.",), (*bert.IDLE, "lm_head."))
    weights.move("embedding.weight", "embeddings.word_embeddings.weight")
    weights.move_norm("embedding_norm", "embeddings.LayerNorm")
    weights.move(
        "positions.schemes.learned.table.weight",
        "embeddings.position_embeddings.weight",
        change=lambda table: table[unused : unused + rows],
    )
    weights.move(
        "positions.schemes.relative.tables",
        "encoder.relative_attention_bias.weight",
        change=lambda table: table[None],
    )
    for at in range(built.layers):
        ours, layer = f"blocks.{at}", f"encoder.layer.{at}"
        attention = f"{layer}.attention.attn"
        weights.move_linear(
            f"{ours}.attention.project_in", *(f"{attention}.{part}" for part in "qkv")
        )
        weights.move_linear(f"{ours}.attention.project_out", f"{attention}.o")
        weights.move_norm(f"{ours}.attention_norm", f"{layer}.attention.LayerNorm")
        bert.move_feed_forward(weights, ours, layer)
    return weights.build()

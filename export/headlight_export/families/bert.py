"""BERT and models of its structure: MiniLM, E5, BGE, GTE (2023)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from headlight_export.families.source import Config, Weights
from headlight_export.families.words import activation, shared
from headlight_export.folders.model_folder import Refused
from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder

PREFIXES = ("bert.",)
IDLE = ("pooler.", "cls.", "classifier.", "qa_outputs.", "embeddings.token_type_ids")


def convert(config: Config, tensors: dict[str, Tensor], longest: int | None) -> Encoder:
    """Convert a BERT folder; see `headlight_export.families.Convert`."""
    return table(config, tensors, PREFIXES, IDLE)


def table(
    config: Config,
    tensors: dict[str, Tensor],
    prefixes: Sequence[str],
    idle: Sequence[str],
    *,
    unused: int = 0,
    embedding_dim: int = 0,
) -> Encoder:
    """Return an encoder with a table of positions.

    Args:
        config, tensors, prefixes, idle: see `Weights`.
        unused: first rows of the table that no token has.
        embedding_dim: width of the embeddings, which are projected if the layers are wider; 0: as
            wide as the layers.
    """
    config.demand(
        "position_embedding_type",
        ("absolute",),
        "which this family does not have; only absolute ones are served",
    )
    rows = config.get(int, "max_position_embeddings", least=1) - unused
    if rows < 1:
        raise Refused(
            f"config.json: pad_token_id is {unused - 1}, so max_position_embeddings leaves no "
            "position for a token; save the model again"
        )
    built = EncoderConfig(
        **common(config),
        positions="learned",
        activation=activation(config),
        embedding_dim=embedding_dim,
        trained_length=rows,
        max_length=rows,
    )
    weights = Weights(built, tensors, prefixes, idle)
    kept = slice(unused, unused + rows)
    move_embeddings(
        weights,
        "embeddings.word_embeddings",
        "embeddings.token_type_embeddings",
        "embeddings.LayerNorm",
    )
    weights.move(
        "positions.table.weight",
        "embeddings.position_embeddings.weight",
        change=lambda table: table[kept],
    )
    move_blocks(config, weights, "encoder.layer.{}")
    if built.embedding_width != built.dim:
        weights.move_linear("embedding_project", "embeddings_project")
    return weights.build()


def common(config: Config) -> dict[str, Any]:
    """Return the config fields that BERT's descendants share. Raises Refused for a decoder."""
    config.demand(
        "is_decoder", (False,), "which makes it causal; this family is served as an encoder alone"
    )
    return shared(config) | {
        "norm": "post",
        "norm_eps": config.get(float, "layer_norm_eps", default=1e-12),
        "segments": config.get(int, "type_vocab_size", default=2),
    }


def move_embeddings(weights: Weights, words: str, segments: str, norm: str) -> None:
    """Move the embeddings of words and segments, and the norm over their sum."""
    weights.move("embedding.weight", f"{words}.weight")
    weights.move("segment_embedding.weight", f"{segments}.weight")
    weights.move_norm("embedding_norm", norm)


def move_attention(
    weights: Weights,
    ours: str,
    layer: str,
    *,
    change: Callable[[Tensor], Tensor] | None = None,
    turned: Sequence[str] = (),
) -> None:
    """Move the four projections of a layer and the norm after them.

    `change` reorders the rows of those named in `turned`.
    """
    for part in ("weight", "bias"):
        names = ("query", "key", "value")
        parts = [weights.take(f"{layer}.attention.self.{name}.{part}") for name in names]
        if change is not None:
            parts = [
                change(rows) if name in turned else rows
                for name, rows in zip(names, parts, strict=True)
            ]
        weights.join(
            f"{ours}.attention.project_in.{part}", f"{layer}.attention.self.query.{part}", parts
        )
    weights.move_linear(f"{ours}.attention.project_out", f"{layer}.attention.output.dense")
    weights.move_norm(f"{ours}.attention_norm", f"{layer}.attention.output.LayerNorm")


def move_blocks(config: Config, weights: Weights, pattern: str) -> None:
    """Move every layer; its number replaces {} in `pattern`."""
    for at in range(config.get(int, "num_hidden_layers")):
        ours, layer = f"blocks.{at}", pattern.format(at)
        move_attention(weights, ours, layer)
        move_feed_forward(weights, ours, layer)


def move_feed_forward(weights: Weights, ours: str, layer: str) -> None:
    """Move the plain feed-forward network of a layer and the norm after it."""
    weights.move_linear(f"{ours}.feed_forward.up", f"{layer}.intermediate.dense")
    weights.move_linear(f"{ours}.feed_forward.down", f"{layer}.output.dense")
    weights.move_norm(f"{ours}.feed_forward_norm", f"{layer}.output.LayerNorm")

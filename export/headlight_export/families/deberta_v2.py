"""DeBERTa 2 and 3: BERT whose positions have keys and queries (disentangled attention)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from headlight_export.families import bert
from headlight_export.families.source import Config, Weights
from headlight_export.families.words import activation
from headlight_export.folders.model_folder import Refused
from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder

IDLE = ("pooler.", "classifier.", "cls.", "lm_predictions.", "mask_predictions.", "qa_outputs.")
BOTH = ("c2p", "p2c")  # scores of content by position, and of position by content
PROJECTIONS = ("query", "key", "value")


def convert(config: Config, tensors: dict[str, Tensor], longest: int | None) -> Encoder:
    """Convert a DeBERTa folder; see `headlight_export.families.Convert`."""
    _check(config)
    sizes = bert.common(config)
    config.demand(
        "embedding_size",
        (sizes["dim"],),
        f"which is not hidden_size {sizes['dim']}; projected embeddings are not served here",
    )
    rows = config.get(int, "max_position_embeddings", default=512, least=1)
    reach = config.get(int, "max_relative_positions", default=-1)
    built = EncoderConfig(
        **sizes
        | {
            "norm_eps": config.get(float, "layer_norm_eps", default=1e-7),
            "segments": config.get(int, "type_vocab_size", default=0, least=0),
        },
        positions="disentangled",
        relative_buckets=2 * config.get(int, "position_buckets"),
        relative_distance=reach if reach > 0 else rows,
        activation=activation(config),
        trained_length=rows,
        max_length=max(longest or 0, rows),
    )
    weights = Weights(built, tensors, ("deberta.",), IDLE)
    weights.move("embedding.weight", "embeddings.word_embeddings.weight")
    if built.segments:
        weights.move("segment_embedding.weight", "embeddings.token_type_embeddings.weight")
    weights.move_norm("embedding_norm", "embeddings.LayerNorm")
    relative = _relative_embeddings(config, weights, built)
    for at in range(built.layers):
        ours, layer = f"blocks.{at}", f"encoder.layer.{at}"
        _move_attention(config, weights, built, at, relative)
        weights.move_linear(f"{ours}.attention.project_out", f"{layer}.attention.output.dense")
        weights.move_norm(f"{ours}.attention_norm", f"{layer}.attention.output.LayerNorm")
        bert.move_feed_forward(weights, ours, layer)
    return weights.build()


def _check(config: Config) -> None:
    """Check that nothing but disentangled attention has positions. Raises Refused."""
    if not config.get(bool, "relative_attention", default=False):
        raise Refused("config.json: relative_attention is false; DeBERTa is not served without it")
    if config.get(bool, "position_biased_input", default=True):
        raise Refused(
            "config.json: position_biased_input is true, and embeddings of positions are not "
            "served together with relative ones"
        )
    if config.get(int, "conv_kernel_size", default=0):
        raise Refused(
            "config.json: conv_kernel_size is set, and a convolution after the first layer cannot "
            "be served (deberta-v2-xlarge)"
        )
    if (buckets := config.get(int, "position_buckets", default=-1)) < 2:
        raise Refused(
            f"config.json: position_buckets is {buckets}; distances are served in buckets"
        )
    kinds = config.values.get("pos_att_type") or ()
    kinds = kinds.split("|") if isinstance(kinds, str) else kinds
    if not isinstance(kinds, list | tuple) or sorted(str(each).strip() for each in kinds) != [
        *BOTH
    ]:
        raise Refused(f"config.json: pos_att_type is {kinds!a:.60}; only both of {BOTH} are served")


def _relative_embeddings(config: Config, weights: Weights, built: EncoderConfig) -> Tensor:
    """Return the embeddings of positions, float [buckets, dim], normed if config.json says so."""
    name = "encoder.rel_embeddings.weight"
    rows = weights.take(name)
    expected = (built.relative_buckets, built.dim)
    if tuple(rows.shape) != expected:
        raise Refused(
            f"{name} has the shape {list(rows.shape)}; config.json makes it {list(expected)}"
        )
    if "layer_norm" not in config.get(str, "norm_rel_ebd", default="none").lower():
        return rows
    gain, bias = (weights.take(f"encoder.LayerNorm.{part}") for part in ("weight", "bias"))
    return torch.nn.functional.layer_norm(rows, expected[1:], gain, bias, built.norm_eps)


def _move_attention(
    config: Config, weights: Weights, built: EncoderConfig, at: int, relative: Tensor
) -> None:
    """Move the projections of layer `at`, and make the keys and queries of its positions.

    Scores are divided by sqrt(3 d), ours by sqrt(d): the rest is a factor on queries.
    """
    layer, shared = (
        f"encoder.layer.{at}.attention.self",
        config.get(bool, "share_att_key", default=False),
    )
    factors = {"query": 1 / math.sqrt(3), "pos_query": 1 / math.sqrt(3)}
    projections = {
        name: [
            weights.take(f"{layer}.{name}_proj.{part}") * factors.get(name, 1.0)
            for part in ("weight", "bias")
        ]
        for name in (*PROJECTIONS, *(() if shared else ("pos_key", "pos_query")))
    }
    for place, part in enumerate(("weight", "bias")):
        weights.join(
            f"blocks.{at}.attention.project_in.{part}",
            f"{layer}.query_proj.{part}",
            [projections[name][place] for name in PROJECTIONS],
        )
    for ours, name in (("keys", "key"), ("queries", "query")):
        weight, bias = projections[name if shared else f"pos_{name}"]
        made = torch.nn.functional.linear(relative, weight, bias)  # [buckets, dim]
        heads = made.view(len(made), built.heads, built.head_dim).permute(1, 2, 0)
        weights.join(f"positions.{ours}.{at}", f"{layer}.{name}_proj.weight", [heads])

"""LLaMA and models of its structure.

Mistral, Qwen2 and Qwen3 are causal embedders with the last token; EuroBERT is bidirectional.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from headlight_export.families.heads import POOLED_DECODER
from headlight_export.families.rotary import rotary
from headlight_export.families.source import GLOBAL, LOCAL, Config, Weights, local_layers
from headlight_export.families.words import activation, shared
from headlight_export.folders.model_folder import Refused
from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder

IDLE = ("lm_head.", "score.", "dense.", "decoder.", "head.", "classifier.", "qa_outputs.")
NONE, ALL, SOME = "none", "all", "some"  # layers that may be local
# Pooling in the config.json of models that are bidirectional by name, in our words.
POOLINGS = {"avg": "mean", "cls": "cls", "last": "last"}
# If config.json has no sliding_window, in all families with windows; null means no window.
DEFAULT_WINDOW = 4096


def convert(
    config: Config,
    tensors: dict[str, Tensor],
    longest: int | None,
    *,
    causal: bool,
    theta: float,
    biases: bool | None = None,
    qk_norm: bool = False,
    windows: str = NONE,
) -> Encoder:
    """Convert a LLaMA-like folder; see `headlight_export.families.Convert`.

    Args:
        config, tensors, longest: as there.
        causal: the default if config.json has no value; see `_is_causal`.
        theta: the default if config.json has none.
        biases: True: Q, K and V have biases and the projection after them has none; None: both
            follow attention_bias.
        qk_norm: each head's queries and keys are normed.
        windows: NONE: sliding_window is ignored; ALL: every layer is local unless it is null; SOME:
            if it is used, the layers that the config names are local.
    """
    causal = _is_causal(config, causal)
    both = config.get(bool, "attention_bias", default=False)
    ffn_bias = config.get(bool, "mlp_bias", default=False)
    trained = config.get(int, "max_position_embeddings", default=2048, least=1)
    built = EncoderConfig(
        **shared(config),
        **({} if windows == NONE else _window(config, windows, causal)),
        head_width=config.get(int, "head_dim", default=0),
        kv_heads=config.get(int, "num_key_value_heads", default=0),
        norm="pre",
        norm_type="rms",
        norm_eps=config.get(float, "rms_norm_eps", default=1e-6),
        attention_bias=both if biases is None else biases,
        attention_out_bias=both if biases is None else False,
        qk_norm="head" if qk_norm else "none",
        causal=causal,
        ffn="gated",
        ffn_bias=ffn_bias,
        ffn_out_bias=ffn_bias,
        activation=activation(config, default="silu"),
        positions="rope",
        **rotary(config, default_theta=theta, trained=trained, longest=longest or trained),
        pooling="last" if causal else _pooling(config),
        trained_length=trained,
        max_length=max(longest or 0, trained),
    )
    weights = Weights(built, tensors, ("model.",), IDLE)
    weights.move("embedding.weight", "embed_tokens.weight")
    weights.move_norm("final_norm", "norm", bias=False)
    for at in range(built.layers):
        _move_block(weights, built, f"blocks.{at}", f"layers.{at}")
    return weights.build()


def _move_block(weights: Weights, built: EncoderConfig, ours: str, layer: str) -> None:
    weights.move_norm(f"{ours}.attention_norm", f"{layer}.input_layernorm", bias=False)
    weights.move_norm(f"{ours}.feed_forward_norm", f"{layer}.post_attention_layernorm", bias=False)
    move_layers(weights, built, ours, layer)
    if built.qk_norm == "head":
        attention = f"{ours}.attention"
        weights.move_norm(f"{attention}.query_norm", f"{layer}.self_attn.q_norm", bias=False)
        weights.move_norm(f"{attention}.key_norm", f"{layer}.self_attn.k_norm", bias=False)


def move_layers(weights: Weights, built: EncoderConfig, ours: str, layer: str) -> None:
    """Move the linear layers of a block."""
    attention = f"{ours}.attention"
    projections = (f"{layer}.self_attn.{part}_proj" for part in "qkv")
    weights.move_linear(f"{attention}.project_in", *projections, bias=built.attention_bias)
    weights.move_linear(
        f"{attention}.project_out", f"{layer}.self_attn.o_proj", bias=built.attention_out_bias
    )
    for part in ("gate", "up", "down"):
        weights.move_linear(
            f"{ours}.feed_forward.{part}", f"{layer}.mlp.{part}_proj", bias=built.ffn_bias
        )


def _is_causal(config: Config, usual: bool) -> bool:
    """Return whether the model is causal.

    A name decides if it says that the model is bidirectional. Else is_causal does, which
    transformers reads. A folder's own code reads use_bidirectional_attention instead. Without all
    of them, `usual` holds.

    Raises:
        Refused: a decoder has its own code, which usually makes attention bidirectional, and sets
            neither. Or it has bidirectional attention in a field that only other code reads.
    """
    if bidirectional_by_name(config.values):
        return False
    both_ways = config.get(bool, "use_bidirectional_attention", default=False)
    auto_map = config.values.get("auto_map")
    has_code = isinstance(auto_map, dict) and "AutoModel" in auto_map
    if config.values.get("is_causal") is None and usual and has_code:
        if config.values.get("use_bidirectional_attention") is None:
            raise Refused(
                "config.json: auto_map has an AutoModel of the folder's own code, which is never "
                "run, and nothing says whether it is causal; look there, "
                "and add is_causal true or false"
            )
        return not both_ways
    causal = config.get(bool, "is_causal", default=usual)
    if causal and both_ways:
        raise Refused(
            "config.json: use_bidirectional_attention is true, which transformers does not read "
            "for this family: there the model is causal; set is_causal to false if it was trained "
            "to see both ways, else take use_bidirectional_attention out"
        )
    return causal


def bidirectional_by_name(values: Mapping[str, Any]) -> bool:
    """Return whether the name of the model_type or of a class says that it is bidirectional.

    llama_bidirec, LlamaBidirectionalModel and its classifier, and Voyage's class
    (VoyageQwen3BidirectionalEmbedModel in vLLM) are: LLaMA and Qwen3 without a causal mask.
    """
    if values.get("model_type") == POOLED_DECODER:
        return True
    classes, auto_map = values.get("architectures"), values.get("auto_map")
    names = [*classes] if isinstance(classes, list) else []
    names += [*auto_map.values()] if isinstance(auto_map, dict) else []
    return any("Bidirectional" in str(name).rpartition(".")[2] for name in names)


def _pooling(config: Config) -> str:
    """Return the pooling of a bidirectional model; config.json has it if a name says that."""
    named = bidirectional_by_name(config.values)
    word = config.get(str, "pooling", default="avg") if named else "avg"
    if word not in POOLINGS:
        raise Refused(
            f"config.json: pooling {word!a:.40} cannot be served; served are {', '.join(POOLINGS)}"
        )
    return POOLINGS[word]


def _window(config: Config, windows: str, causal: bool) -> dict[str, Any]:
    """Return the fields of local layers; none if sliding_window is null.

    With SOME, use_sliding_window, layer_types and max_window_layers select the layers.
    """
    layers = config.get(int, "num_hidden_layers")
    if not config.values.get("sliding_window", DEFAULT_WINDOW) or (
        windows == SOME and not config.get(bool, "use_sliding_window", default=False)
    ):
        return {}
    kinds = [LOCAL] * layers
    if windows == SOME:
        whole = min(config.get(int, "max_window_layers", default=28), layers)
        kinds = config.values.get("layer_types") or [GLOBAL] * whole + [LOCAL] * (layers - whole)
    local = local_layers(kinds, layers)
    # In a window of 1 a token would see only itself.
    width = (
        config.get(int, "sliding_window", default=DEFAULT_WINDOW, least=2 if causal else 1)
        if local
        else 0
    )
    # Our window is the distance that a token sees. Theirs is the same if bidirectional; if causal,
    # it counts the token itself.
    return {"window": width - 1 if causal else width, "local_layers": local} if local else {}


eurobert = functools.partial(convert, causal=False, theta=250_000.0)
llama = functools.partial(convert, causal=True, theta=10_000.0)
mistral = functools.partial(llama, windows=ALL)
qwen2 = functools.partial(llama, windows=SOME, biases=True)
qwen3 = functools.partial(llama, windows=SOME, qk_norm=True)

"""Models of third-party code with random weights.

Every option is set that its default would hide.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import transformers
from torch import Tensor

VOCABULARY = 83
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 30,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 44,
    "max_position_embeddings": 96,
}
ROTARY = SIZES | {"hidden_size": 36}  # heads of 12: pairs
GROUPED = ROTARY | {
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "pad_token_id": 0,
}
DISTILBERT: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "dim": 30,
    "n_layers": 2,
    "n_heads": 3,
    "hidden_dim": 44,
    "max_position_embeddings": 96,
}

GPT2: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "n_embd": 30,
    "n_layer": 3,
    "n_head": 3,
    "n_positions": 96,
    "pad_token_id": 0,
}

DEBERTA = SIZES | {
    "relative_attention": True,
    "position_buckets": 16,
    "max_relative_positions": 40,
    "pos_att_type": "p2c|c2p",
    "position_biased_input": False,
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
    "type_vocab_size": 2,
    "pad_token_id": 0,
}


def rope(kind: str, **values: Any) -> dict[str, Any]:
    """Return the rope_parameters of a scaling."""
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 5000.0, **values}}


YARN = rope("yarn", factor=4.0, original_max_position_embeddings=24)
LLAMA3 = rope(
    "llama3",
    factor=8.0,
    original_max_position_embeddings=24,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
)

T5: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_model": 30,
    "d_kv": 8,  # of 3 heads: not 30 / 3
    "d_ff": 44,
    "num_layers": 3,
    "num_heads": 3,
    "initializer_factor": 0.3,  # with 1, layers would multiply rounding errors
}

# Name: the classes of the model and of its config, and the config values.
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("Bert", SIZES | {"hidden_act": "gelu_new"}),
    "roberta": (
        "XLMRoberta",
        SIZES | {"pad_token_id": 1, "type_vocab_size": 1, "max_position_embeddings": 98},
    ),
    # Its projected embeddings are not normed: smaller ones would need far larger queries and keys.
    "electra": ("Electra", SIZES | {"embedding_size": 20, "initializer_range": 0.05}),
    "distilbert": ("DistilBert", DISTILBERT),
    # Texts are longer than the 40 tokens beyond which all distances share a bucket.
    "deberta-v2": ("DebertaV2", DEBERTA),
    "deberta-v2-unshared": (
        "DebertaV2",
        DEBERTA
        | {
            "share_att_key": False,
            "norm_rel_ebd": "none",
            "num_hidden_layers": 2,
            "initializer_range": 0.05,
        },
    ),
    "distilbert-sinusoidal": (
        "DistilBert",
        DISTILBERT | {"sinusoidal_pos_embds": True, "n_layers": 2},
    ),
    "roformer": ("RoFormer", ROTARY | {"embedding_size": 20}),
    "roformer-values": ("RoFormer", ROTARY | {"rotary_value": True, "num_hidden_layers": 2}),
    "modernbert": (
        "ModernBert",
        ROTARY
        | {
            "local_attention": 12,
            "num_hidden_layers": 4,
            "pad_token_id": 0,
            "norm_bias": True,
            "mlp_bias": True,
        },
    ),
    "mpnet": ("MPNet", SIZES | {"pad_token_id": 1, "max_position_embeddings": 98}),
    "nomic_bert": ("NomicBert", ROTARY),
    "gte": ("Gte", ROTARY | {"type_vocab_size": 2}),
    "eurobert": (
        "EuroBert",
        ROTARY | {"num_key_value_heads": 1, "pad_token_id": 0, "hidden_act": "silu"},
    ),
    "gpt2": ("GPT2", GPT2),
    "gpt2-scaled": (
        "GPT2",
        GPT2
        | {
            "n_layer": 2,
            "n_inner": 44,
            "scale_attn_weights": False,
            "scale_attn_by_inverse_layer_idx": True,
        },
    ),
    "qwen2": ("Qwen2", GROUPED | {"num_hidden_layers": 2}),
    "qwen3": ("Qwen3", GROUPED),
    "llama": ("Llama", GROUPED | {"attention_bias": True, "mlp_bias": True}),
    "mistral-local": ("Mistral", GROUPED | {"sliding_window": 9, "num_hidden_layers": 2}),
    "local-both-ways": (
        "Mistral",
        GROUPED | {"sliding_window": 9, "num_hidden_layers": 2, "is_causal": False},
    ),
    "t5": ("T5", T5 | {"relative_attention_max_distance": 50}),
    "mt5": ("MT5", T5 | {"feed_forward_proj": "gated-gelu", "num_layers": 2}),
    "umt5": (
        "UMT5",
        T5 | {"feed_forward_proj": "gated-silu", "relative_attention_num_buckets": 10},
    ),
    "gemma3": (
        "Gemma3Text",
        GROUPED
        | {
            "num_key_value_heads": 1,
            "query_pre_attn_scalar": 20,
            "use_bidirectional_attention": True,
            "sliding_window": 18,
            "sliding_window_pattern": 2,
        },
    ),
    # Angles of global layers alone are scaled, with the same theta.
    "gemma3-causal": (
        "Gemma3Text",
        GROUPED
        | {
            "attention_bias": True,
            "sliding_window": 9,
            "layer_types": ["full_attention", "sliding_attention"],
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 5000.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 5000.0},
            },
        },
    ),
    "linear": ("NomicBert", ROTARY | {"num_hidden_layers": 2} | rope("linear", factor=4.0)),
    "dynamic": ("NomicBert", ROTARY | {"num_hidden_layers": 2} | rope("dynamic", factor=4.0)),
    "yarn": ("EuroBert", ROTARY | {"num_hidden_layers": 2, "pad_token_id": 0} | YARN),
    "llama3": ("Llama", GROUPED | {"num_hidden_layers": 2} | LLAMA3),
}


def make(name: str, seed: int = 0, *, entropy: float = 0.62, vocabulary: int = VOCABULARY) -> Any:
    """Return the model of a key of MODELS, in evaluation mode, with eager attention.

    Biases, gains and token types are random. Queries and keys grow until the mean entropy of
    attention is below `entropy` times that of uniform attention: plain random initialisation would
    hide a lost bias or a wrong scale.
    """
    kind, values = MODELS[name]
    torch.manual_seed(seed)
    config = getattr(transformers, f"{kind}Config")(**values | {"vocab_size": vocabulary})
    config._attn_implementation = "eager"
    part = "EncoderModel" if kind.endswith("T5") else "Model"
    model = getattr(transformers, f"{kind}{part}")(config).eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if not parameter.requires_grad:
                continue  # a table of sines
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
            elif "token_type" in key or "relative" in key:
                parameter.normal_(std=0.5)
            else:
                parameter.mul_(3.0)
        sharpen(model, entropy)
    return model


def sharpen(model: Any, entropy: float) -> None:
    """Scale queries and keys until attention is as sharp as requested,
    on average in every layer.
    """
    length = 64
    ids = random_ids(length, 1)
    for _ in range(40):
        worst = max(
            entropy_of(weights) for weights in model(ids, output_attentions=True).attentions
        )
        if worst < entropy * math.log(length):
            return
        for key, parameter in model.named_parameters():
            if is_query_or_key(key):
                by_row = parameter.transpose(0, -1) if "c_attn" in key else parameter
                packed = "Wqkv" in key or "c_attn" in key
                rows = 2 * len(by_row) // 3 if packed else len(by_row)
                by_row[:rows] *= 1.15
    raise AssertionError("attention did not get sharp")


def is_query_or_key(name: str) -> bool:
    """Return whether a parameter makes queries or keys.

    With head norms it is that of the norm, because a scale of its input would be normed away.
    """
    return any(
        part in name
        for part in (
            "query",
            "key.",
            "q_lin",
            "k_lin",
            "q_proj",
            "k_proj",
            "Wqkv",
            "c_attn",
            "q_norm",
            "k_norm",
            "attn.q.",
            "attn.k.",
            "Attention.q.",
            "Attention.k.",
        )
    )


def entropy_of(weights: Tensor) -> float:
    """Return the mean entropy over heads and rows of [B, H, S, S], in nats.

    For causal models, of the last row only: earlier rows have fewer keys.
    """
    rows = weights[:, :, -8:]
    return float(-(rows * rows.clamp(min=1e-30).log()).sum(-1).mean())


def random_ids(length: int, seed: int) -> Tensor:
    """Return int64 [1, length], without padding ids."""
    return torch.randint(
        3, VOCABULARY, (1, length), generator=torch.Generator().manual_seed(seed * 1000 + length)
    )


Make = Callable[[str], Any]

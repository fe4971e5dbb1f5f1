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
    "nomic_bert": ("NomicBert", ROTARY),
    "eurobert": (
        "EuroBert",
        ROTARY | {"num_key_value_heads": 1, "pad_token_id": 0, "hidden_act": "silu"},
    ),
    "qwen2": ("Qwen2", GROUPED | {"num_hidden_layers": 2}),
    "qwen3": ("Qwen3", GROUPED),
    "llama": ("Llama", GROUPED | {"attention_bias": True, "mlp_bias": True}),
    "mistral-local": ("Mistral", GROUPED | {"sliding_window": 9, "num_hidden_layers": 2}),
    "local-both-ways": (
        "Mistral",
        GROUPED | {"sliding_window": 9, "num_hidden_layers": 2, "is_causal": False},
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
    model = getattr(transformers, f"{kind}Model")(config).eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if not parameter.requires_grad:
                continue  # a table of sines
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
            elif "token_type" in key:
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
                rows = 2 * parameter.shape[0] // 3 if "Wqkv" in key else parameter.shape[0]
                parameter[:rows] *= 1.15
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
            "q_norm",
            "k_norm",
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

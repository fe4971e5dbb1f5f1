"""Names in other projects' configs, mapped to ours."""

from __future__ import annotations

from typing import Any

from headlight_export.families.source import Config
from headlight_export.folders.model_folder import Refused

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}


def activation(config: Config, name: str = "hidden_act", *, default: str = "gelu") -> str:
    """Return our name for the activation in config.json.

    `default` is the family's, if the file has none.
    """
    word = config.get(str, name, default=default)
    if word not in ACTIVATIONS:
        raise Refused(
            f"config.json: activation {word!a:.40} cannot be served; "
            f"served are {', '.join(sorted(ACTIVATIONS))}"
        )
    return ACTIVATIONS[word]


def shared(config: Config) -> dict[str, Any]:
    """Return the sizes that every family has, read under their most common names."""
    vocabulary = config.get(int, "vocab_size", least=1)
    pad = config.get(int, "pad_token_id", default=0)
    return {
        "vocab_size": vocabulary,
        "dim": config.get(int, "hidden_size", least=1),
        "heads": config.get(int, "num_attention_heads", least=1),
        "layers": config.get(int, "num_hidden_layers", least=1),
        "ffn_dim": config.get(int, "intermediate_size", least=1),
        "pad_id": pad if 0 <= pad < vocabulary else 0,
        "normalize": False,
    }

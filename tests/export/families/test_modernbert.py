"""Rotary angles of ModernBERT's local layers.

In the keys of published configs and in those of transformers 5.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from headlight_export.families import modernbert
from headlight_export.families.source import Config

LAYERS, DIM, FFN, VOCABULARY = 2, 8, 6, 11


def tensors() -> dict[str, Tensor]:
    shapes: dict[str, tuple[int, ...]] = {
        "model.embeddings.tok_embeddings.weight": (VOCABULARY, DIM)
    }
    shapes |= dict.fromkeys(("model.embeddings.norm.weight", "model.final_norm.weight"), (DIM,))
    for at in range(LAYERS):
        layer = f"model.layers.{at}"
        shapes |= {
            f"{layer}.attn.Wqkv.weight": (3 * DIM, DIM),
            f"{layer}.attn.Wo.weight": (DIM, DIM),
        }
        shapes |= {f"{layer}.mlp.Wi.weight": (2 * FFN, DIM), f"{layer}.mlp.Wo.weight": (DIM, FFN)}
        shapes |= {
            f"{layer}.{name}_norm.weight": (DIM,) for name in (("attn", "mlp") if at else ("mlp",))
        }
    return {name: torch.zeros(shape) for name, shape in shapes.items()}


@pytest.mark.parametrize(
    ("said", "thetas"),
    [
        ({}, (160_000.0, 10_000.0)),
        ({"global_rope_theta": 80_000.0, "local_rope_theta": 500.0}, (80_000.0, 500.0)),
        ({"global_rope_theta": 80_000.0, "local_rope_theta": None}, (80_000.0, 80_000.0)),
        (
            {
                "rope_parameters": {
                    "full_attention": {"rope_theta": 9e4},
                    "sliding_attention": {"rope_theta": 700},
                }
            },
            (9e4, 700.0),
        ),
    ],
)
def test_local_layers_use_their_own_rope_theta(
    said: dict[str, Any], thetas: tuple[float, float]
) -> None:
    sizes = {"vocab_size": VOCABULARY, "hidden_size": DIM, "intermediate_size": FFN}
    sizes |= {"num_hidden_layers": LAYERS, "num_attention_heads": 2}
    config = modernbert.convert(Config(sizes | said), tensors(), None).config
    assert (config.rope_theta, config.rope_local_theta) == thetas
    assert config.local_layers == (1,)

"""JinaBERT v2 from its description, in NumPy and float64.

Transformers has no encoder with ALiBi to compare with.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file

from tests.families.expected import Expected

Array = NDArray[np.float64]
# Twelve heads: eight slopes, and every other one of sixteen.
SIZES = {"dim": 48, "heads": 12, "ffn": 40, "layers": 2, "words": 83}


class Jina:
    """Random model and its outputs."""

    def __init__(self, seed: int = 0) -> None:
        self.shape = (SIZES["layers"], SIZES["heads"], SIZES["layers"] + 1)
        rng = np.random.default_rng(seed)
        dim, ffn = SIZES["dim"], SIZES["ffn"]

        def random(*shape: int, scale: float = 1.0) -> Array:
            return np.asarray(scale * rng.standard_normal(shape), dtype=np.float32).astype(
                np.float64
            )

        self.weights: dict[str, Array] = {
            "embeddings.word_embeddings.weight": random(SIZES["words"], dim),
            "embeddings.token_type_embeddings.weight": random(2, dim, scale=0.5),
        }
        norms = ["embeddings.LayerNorm"]
        for layer in range(SIZES["layers"]):
            at = f"encoder.layer.{layer}"
            for name in ("self.query", "self.key", "self.value", "output.dense"):
                scale = 2.0 if name in ("self.query", "self.key") else 1.0
                self.weights[f"{at}.attention.{name}.weight"] = random(
                    dim, dim, scale=scale / math.sqrt(dim)
                )
                self.weights[f"{at}.attention.{name}.bias"] = random(dim, scale=0.1)
            self.weights[f"{at}.mlp.gated_layers.weight"] = random(
                2 * ffn, dim, scale=1 / math.sqrt(dim)
            )
            self.weights[f"{at}.mlp.wo.weight"] = random(dim, ffn, scale=1 / math.sqrt(ffn))
            self.weights[f"{at}.mlp.wo.bias"] = random(dim, scale=0.1)
            norms += [f"{at}.attention.output.LayerNorm", f"{at}.mlp.layernorm"]
        for norm in norms:
            self.weights[f"{norm}.weight"], self.weights[f"{norm}.bias"] = (
                1 + random(dim, scale=0.1),
                random(dim, scale=0.1),
            )

    def save(self, folder: Path) -> None:
        """Save the model as its own code does."""
        config = {
            "model_type": "bert",
            "architectures": ["JinaBertModel"],
            "position_embedding_type": "alibi",
            "feed_forward_type": "geglu",
            "hidden_size": SIZES["dim"],
            "num_attention_heads": SIZES["heads"],
            "num_hidden_layers": SIZES["layers"],
            "intermediate_size": SIZES["ffn"],
            "vocab_size": SIZES["words"],
            "type_vocab_size": 2,
            "max_position_embeddings": 96,
            "layer_norm_eps": 1e-12,
            "pad_token_id": 0,
        }
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        save_file(
            {name: torch.from_numpy(value).float() for name, value in self.weights.items()},
            folder / "model.safetensors",
        )

    def outputs(
        self, ids: NDArray[np.int64], segments: NDArray[np.int64] | None = None
    ) -> Expected:
        """Return the outputs of one text; see `Expected`."""
        types = np.zeros_like(ids) if segments is None else segments
        words, kinds = (
            self.weights["embeddings.word_embeddings.weight"],
            self.weights["embeddings.token_type_embeddings.weight"],
        )
        x = self._norm("embeddings.LayerNorm", words[ids] + kinds[types])
        hidden, attention = [x], []
        for layer in range(SIZES["layers"]):
            at = f"encoder.layer.{layer}"
            mixed, weights = self._attend(at, x)
            x = self._norm(
                f"{at}.attention.output.LayerNorm",
                x + self._linear(f"{at}.attention.output.dense", mixed),
            )
            gate, up = np.split(x @ self.weights[f"{at}.mlp.gated_layers.weight"].T, 2, axis=-1)
            x = self._norm(
                f"{at}.mlp.layernorm", x + self._linear(f"{at}.mlp.wo", _gelu(gate) * up)
            )
            hidden.append(x)
            attention.append(weights)
        return Expected(x, np.stack(attention), np.stack(hidden))

    exact = outputs  # this is float64 already

    def _attend(self, at: str, x: Array) -> tuple[Array, Array]:
        n, heads = len(x), SIZES["heads"]
        query, key, value = (
            self._linear(f"{at}.attention.self.{name}", x).reshape(n, heads, -1).transpose(1, 0, 2)
            for name in ("query", "key", "value")
        )
        # 2^(-8h/H) of 8 heads, then h = 1, 3, 5, 7 of those of 16 (Press et al. 2022).
        slopes = np.array([2.0**-h for h in range(1, 9)] + [2.0 ** (-h / 2) for h in (1, 3, 5, 7)])
        far = np.abs(np.arange(n)[:, None] - np.arange(n))
        scores = (
            query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1])
            - slopes[:, None, None] * far
        )
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        return (weights @ value).transpose(1, 0, 2).reshape(n, -1), weights

    def _linear(self, name: str, x: Array) -> Array:
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def _norm(self, name: str, x: Array) -> Array:
        centred = x - x.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)
        return np.asarray(scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"])


def _gelu(x: Array) -> Array:
    erf: Any = np.vectorize(math.erf)
    return np.asarray(0.5 * x * (1 + erf(x / math.sqrt(2))))

"""Encoders from the descriptions of their makers, in NumPy and float64.

transformers has no code for them.
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
Ids = NDArray[np.int64]
FFN, LAYERS, WORDS = 40, 2, 83


class Described:
    """Random encoder with norms after each half of a block and gated networks, and its outputs."""

    heads: int
    dim = 48
    types = 2
    prefix = ""
    embedded = "embeddings.LayerNorm"
    # Names within a layer: two norms, and three linear layers.
    attention_norm, mlp_norm, out, gated, down = "", "", "", "", ""
    projections: tuple[str, ...]  # of queries, keys and values; packed if there is only one
    config: dict[str, Any]

    def __init__(self, seed: int = 0) -> None:
        self.shape = (LAYERS, self.heads, LAYERS + 1)
        rng = np.random.default_rng(seed)
        dim = self.dim

        def random(*shape: int, scale: float = 1.0) -> Array:
            return np.asarray(scale * rng.standard_normal(shape), dtype=np.float32).astype(
                np.float64
            )

        self.weights = {"embeddings.word_embeddings.weight": random(WORDS, dim)}
        if self.types:
            kinds = random(self.types, dim, scale=0.5)
            self.weights["embeddings.token_type_embeddings.weight"] = kinds
        norms = [self.embedded]
        for at in (f"encoder.layer.{layer}" for layer in range(LAYERS)):
            # Larger queries and keys: else attention would be nearly uniform.
            scales = np.repeat((2.0, 2.0, 1.0), dim)[:, None] / math.sqrt(dim)
            parts = np.split(random(3 * dim, dim) * scales, len(self.projections))
            for name, part in zip(self.projections, parts, strict=True):
                self.weights[f"{at}.{name}.weight"] = part.astype(np.float32).astype(np.float64)
                self.weights[f"{at}.{name}.bias"] = random(len(part), scale=0.1)
            self.weights[f"{at}.{self.out}.weight"] = random(dim, dim, scale=1 / math.sqrt(dim))
            self.weights[f"{at}.{self.out}.bias"] = random(dim, scale=0.1)
            gated = random(2 * FFN, dim, scale=1 / math.sqrt(dim))
            self.weights[f"{at}.{self.gated}.weight"] = gated
            self.weights[f"{at}.{self.down}.weight"] = random(dim, FFN, scale=1 / math.sqrt(FFN))
            self.weights[f"{at}.{self.down}.bias"] = random(dim, scale=0.1)
            norms += [f"{at}.{self.attention_norm}", f"{at}.{self.mlp_norm}"]
        for norm in norms:
            self.weights[f"{norm}.weight"] = 1 + random(dim, scale=0.1)
            self.weights[f"{norm}.bias"] = random(dim, scale=0.1)

    def save(self, folder: Path) -> None:
        """Save the model as its own code does."""
        sizes = {
            "hidden_size": self.dim,
            "num_attention_heads": self.heads,
            "num_hidden_layers": LAYERS,
            "intermediate_size": FFN,
            "vocab_size": WORDS,
            "type_vocab_size": self.types,
            "max_position_embeddings": 96,
            "layer_norm_eps": 1e-12,
            "pad_token_id": 0,
        }
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(sizes | self.config), encoding="utf-8")
        save_file(
            {
                f"{self.prefix}{name}": torch.from_numpy(value).float()
                for name, value in self.weights.items()
            },
            folder / "model.safetensors",
        )

    def outputs(self, ids: Ids, segments: Ids | None = None) -> Expected:
        """Return the outputs of one text; see `Expected`."""
        x = self.weights["embeddings.word_embeddings.weight"][ids]
        if self.types:
            types = np.zeros_like(ids) if segments is None else segments
            x = x + self.weights["embeddings.token_type_embeddings.weight"][types]
        x = self._norm(self.embedded, x)
        hidden, attention = [x], []
        for at in (f"encoder.layer.{layer}" for layer in range(LAYERS)):
            mixed, weights = self._attend(at, x)
            x = self._norm(
                f"{at}.{self.attention_norm}", x + self._linear(f"{at}.{self.out}", mixed)
            )
            first, second = np.split(x @ self.weights[f"{at}.{self.gated}.weight"].T, 2, axis=-1)
            down = self._linear(f"{at}.{self.down}", self.gate(first, second))
            x = self._norm(f"{at}.{self.mlp_norm}", x + down)
            hidden.append(x)
            attention.append(weights)
        return Expected(x, np.stack(attention), np.stack(hidden))

    exact = outputs  # this is float64 already

    def gate(self, first: Array, second: Array) -> Array:
        """Return the product of both halves of the gated matrix, one of which is activated."""
        raise NotImplementedError

    def turn(self, heads: Array) -> Array:
        """Return queries or keys [H, n, d] with their positions."""
        return heads

    def bias(self, count: int) -> Array | float:
        """Return what is added to the scores of so many tokens."""
        return 0.0

    def _attend(self, at: str, x: Array) -> tuple[Array, Array]:
        n = len(x)
        joined = [self._linear(f"{at}.{name}", x) for name in self.projections]
        query, key, value = (
            part.reshape(n, self.heads, -1).transpose(1, 0, 2)
            for part in np.split(np.concatenate(joined, axis=-1), 3, axis=-1)
        )
        query, key = self.turn(query), self.turn(key)
        scores = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1]) + self.bias(n)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        return (weights @ value).transpose(1, 0, 2).reshape(n, -1), weights

    def _linear(self, name: str, x: Array) -> Array:
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def _norm(self, name: str, x: Array) -> Array:
        centred = x - x.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)
        return np.asarray(scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"])


class Jina(Described):
    """JinaBERT v2: symmetric ALiBi, and networks whose first half is activated."""

    heads = 12  # eight slopes, and every other one of sixteen
    projections = tuple(f"attention.self.{name}" for name in ("query", "key", "value"))
    attention_norm, mlp_norm = "attention.output.LayerNorm", "mlp.layernorm"
    out, gated, down = "attention.output.dense", "mlp.gated_layers", "mlp.wo"
    config = {  # noqa: RUF012
        "model_type": "bert",
        "architectures": ["JinaBertModel"],
        "position_embedding_type": "alibi",
        "feed_forward_type": "geglu",
    }

    def gate(self, first: Array, second: Array) -> Array:
        return gelu(first) * second

    def bias(self, count: int) -> Array:
        # 2^(-8h/H) of 8 heads, then h = 1, 3, 5, 7 of those of 16 (Press et al. 2022).
        slopes = np.array([2.0**-h for h in range(1, 9)] + [2.0 ** (-h / 2) for h in (1, 3, 5, 7)])
        far = np.abs(np.arange(count)[:, None] - np.arange(count))
        return np.asarray(-slopes[:, None, None] * far)


class New(Described):
    """GTE's own code, as gte-base-en-v1.5: no token types, and rotary positions scaled by "ntk"."""

    heads, types, prefix = 4, 0, "new."
    projections = ("attention.qkv_proj",)
    attention_norm, mlp_norm = "attn_ln", "mlp_ln"
    out, gated, down = "attention.o_proj", "mlp.up_gate_proj", "mlp.down_proj"
    theta, factor = 500.0, 3.0
    config = {  # noqa: RUF012
        "model_type": "new",
        "architectures": ["NewModel"],
        "auto_map": {"AutoModel": "Alibaba-NLP/new-impl--modeling.NewModel"},
        "rope_theta": theta,
        "rope_scaling": {"type": "ntk", "factor": factor},
        "use_memory_efficient_attention": "true",
        "unpad_inputs": True,
    }

    def gate(self, first: Array, second: Array) -> Array:
        return first * gelu(second)

    def turn(self, heads: Array) -> Array:
        # Pair i of d / 2 turns by theta^(-2i/d) factor^(-2(i+1)/d) (Su 2023, formula 6).
        pairs = heads.shape[-1] // 2
        i = np.arange(pairs)
        angle = np.outer(
            np.arange(heads.shape[1]),
            self.theta ** (-i / pairs) * self.factor ** (-(i + 1) / pairs),
        )
        turned = (heads[..., :pairs] + 1j * heads[..., pairs:]) * np.exp(1j * angle)
        return np.concatenate([turned.real, turned.imag], axis=-1)


def gelu(x: Array) -> Array:
    erf: Any = np.vectorize(math.erf)
    return np.asarray(0.5 * x * (1 + erf(x / math.sqrt(2))))


DESCRIBED = {"jina_bert": Jina, "new": New}

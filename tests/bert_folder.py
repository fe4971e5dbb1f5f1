"""Folder of a small BERT with random weights, as transformers saved it in old days."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from tests.factory import VOCABULARY

DIM, FFN, ROWS = 24, 40, 40
PROJECTIONS = ("query", "key", "value")
CONFIG: dict[str, Any] = {
    "model_type": "bert",
    "architectures": ["BertModel"],
    "vocab_size": len(VOCABULARY),
    "hidden_size": DIM,
    "num_hidden_layers": 1,
    "num_attention_heads": 3,
    "intermediate_size": FFN,
    "max_position_embeddings": ROWS,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "pad_token_id": 0,
}


def tensors(positions: int = ROWS, layers: int = 1) -> dict[str, Tensor]:
    """Return a BERT under its own names, as a masked language model saves it."""
    torch.manual_seed(0)
    shapes: dict[str, tuple[int, int]] = {}
    norms = ["bert.embeddings.LayerNorm"]
    for layer in (f"bert.encoder.layer.{index}" for index in range(layers)):
        shapes |= {f"{layer}.attention.self.{name}": (DIM, DIM) for name in PROJECTIONS}
        shapes |= {f"{layer}.attention.output.dense": (DIM, DIM)}
        shapes |= {f"{layer}.intermediate.dense": (FFN, DIM), f"{layer}.output.dense": (DIM, FFN)}
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
    shapes |= {"cls.predictions.transform.dense": (DIM, DIM), "bert.pooler.dense": (DIM, DIM)}
    found = {f"{name}.weight": torch.randn(shape) / 3 for name, shape in shapes.items()}
    found |= {f"{name}.bias": torch.randn(shape[0]) / 10 for name, shape in shapes.items()}
    rows = {"word": len(VOCABULARY), "position": positions, "token_type": 2}
    found |= {
        f"bert.embeddings.{name}_embeddings.weight": torch.randn(count, DIM)
        for name, count in rows.items()
    }
    for norm in norms:
        found[f"{norm}.gamma"], found[f"{norm}.beta"] = (
            1 + torch.randn(DIM) / 10,
            torch.randn(DIM) / 10,
        )
    return found


def write_bert(folder: Path, positions: int = ROWS, layers: int = 1) -> Path:
    """Write a folder that can be served, with the names that norms had in old files."""
    folder.mkdir(parents=True)
    config = CONFIG | {"max_position_embeddings": positions, "num_hidden_layers": layers}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    save_file(tensors(positions, layers), folder / "model.safetensors")
    return folder

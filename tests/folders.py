"""Minimal folders in the format of sentence-transformers."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from headlight_export.folders.model_folder import Refused
from headlight_export.folders.sentence_folder import read_recipe

OLD, NEW = "sentence_transformers.models.", "sentence_transformers.sentence_transformer.modules."
LINEAR = "torch.nn.modules.linear.Identity"


def write(path: Path, value: object) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value))


def chain(folder: Path, *kinds: str, transformer: str = "", prefix: str = OLD) -> Path:
    """Create a folder with these modules: Pooling by mean over 4 numbers, Dense from 4 to 4.

    The Transformer has 512 positions.
    """
    modules = []
    for i, kind in enumerate(kinds):
        path = transformer if i == 0 else f"{i}_{kind}"
        modules.append(
            {"idx": i, "name": str(i), "path": path, "type": kind if "." in kind else prefix + kind}
        )
    write(folder / "modules.json", modules)
    write(
        folder / transformer / "config.json", {"model_type": "bert", "max_position_embeddings": 512}
    )
    for i, kind in enumerate(kinds):
        if kind == "Pooling":
            write(
                folder / f"{i}_Pooling/config.json",
                {"word_embedding_dimension": 4, "pooling_mode_mean_tokens": True},
            )
        if kind == "Dense":
            dense(folder / f"{i}_Dense")
    return folder


def dense(folder: Path, *, take: int = 4, give: int = 4, **config: Any) -> None:
    write(
        folder / "config.json",
        {"in_features": take, "out_features": give, "activation_function": LINEAR} | config,
    )
    tensors = {"linear.weight": torch.ones(give, take)}
    if config.get("bias", True):
        tensors["linear.bias"] = torch.zeros(give)
    save_file(tensors, folder / "model.safetensors")


def refusal(folder: Path) -> str:
    """Return the message that refuses the folder."""
    with pytest.raises(Refused) as caught:
        read_recipe(folder)
    message = str(caught.value)
    assert "\n" not in message
    assert "; " in message  # the problem, and the remedy
    return message

"""Download of a model from the Hugging Face Hub: its settings first, then the weights they need.

`huggingface_hub` does the work. It honours HF_ENDPOINT, HF_HOME, HF_HUB_OFFLINE and HF_TOKEN,
resumes an interrupted download, and answers from its own cache if the Hub cannot be reached.
Pickled weights and code are never fetched.
"""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # before huggingface_hub is loaded

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.utils.tqdm import tqdm

from headlight_export.folders.bge_m3 import HEADS
from headlight_export.folders.model_folder import (
    INDEX,
    WEIGHTS,
    Refused,
    shards,
)
from headlight_export.folders.multi_vector_folder import METADATA
from headlight_export.folders.origin import check_settings
from headlight_export.folders.sentence_folder import transformer_folder
from headlight_export.hub.hub_errors import explained

# Small files, read before the weights are fetched. Those of a Dense layer and of the terms of
# queries are small too.
SETTINGS = [
    "*.json",
    "*.txt",
    "README.md",
    METADATA,
    *(f"{each}.safetensors" for each in ("*_Dense/*", "query_0_*/*", *HEADS)),
]
OTHER_FORMATS = ["onnx/*", "openvino/*", "coreml/*", "*/*/*"]


class _Bar(tqdm):
    """Progress bar on standard output, like the other steps; none where that is no terminal."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        options |= {"file": sys.stdout, "leave": False}
        if not sys.stdout.isatty():
            options["disable"] = True
        super().__init__(*arguments, **options)  # type: ignore[no-untyped-call]


def download(model: str, revision: str, check: Callable[[Path], object] = check_settings) -> Path:
    """Download a model, and return its folder, whose name is the commit.

    Args:
        model: Hub id, `org/name`.
        revision: a branch, a tag or a commit.
        check: called with the folder of its settings, before the weights are fetched.

    Raises:
        Refused: the Hub has no such model or revision, or nothing in it can be exported; or as
            `check` does.
        OSError: the Hub cannot be reached or refuses for now, or the disk is full.
    """
    # The library logs what it then raises.
    logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)
    with explained(model, revision):
        folder = _fetch(model, revision, SETTINGS)
        try:
            check(folder)
        except ValueError as error:
            raise Refused(str(error).replace(str(folder), model)) from error
        transformer = transformer_folder(folder)
        place = "" if transformer == folder else f"{transformer.relative_to(folder)}/"
        names = [*shards(transformer)] if (transformer / INDEX).is_file() else [WEIGHTS]
        folder = _fetch(model, folder.name, [f"{place}{name}" for name in names])
        if not (transformer / names[0]).is_file():
            raise Refused(_without_weights(model, folder.name))
    return folder


def _fetch(model: str, revision: str, patterns: list[str]) -> Path:
    return Path(
        snapshot_download(
            model,
            revision=revision,
            allow_patterns=patterns,
            ignore_patterns=OTHER_FORMATS,
            tqdm_class=_Bar,
            library_name="headlight",
        )
    )


def _without_weights(model: str, commit: str) -> str:
    weights = [
        name
        for name in HfApi().list_repo_files(model, revision=commit)
        if Path(name).suffix in {".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".gguf"}
    ]
    other = f", only {weights[0]}, which is never read" if weights else ""
    return (
        f"{model} has no {WEIGHTS}{other}; name a revision that has it (--revision), "
        "or convert the model and export its folder"
    )

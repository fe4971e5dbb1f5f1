"""fastembed in process, with a graph of the same model.

    python -m bench.peers.fast FOLDER TEXTS DIM PROCESSES

FOLDER holds the tokenizer and onnx/model.onnx. PROCESSES is 1, or fastembed's `parallel`: it starts
so many processes for a call of more texts than one batch.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType

from bench.peers.worker import answer_library, described, read_texts

NAME = "local"
PACKAGES = ("fastembed", "onnxruntime")


def load(folder: str, dim: int, threads: int | None = None) -> TextEmbedding:
    """Load the model on the CPU; `threads` of each process, None: fastembed's default."""
    TextEmbedding.add_custom_model(
        NAME, PoolingType.MEAN, normalization=True, sources=ModelSource(url=folder), dim=dim
    )
    return TextEmbedding(
        NAME,
        providers=["CPUExecutionProvider"],
        specific_model_path=folder,
        local_files_only=True,
        threads=threads,
    )


def main() -> None:
    folder, texts_path, dim, processes = sys.argv[1:]
    texts, parallel = read_texts(texts_path), int(processes) if processes != "1" else None
    model = load(folder, int(dim))

    def encode(order: Sequence[int], batch_size: int) -> Any:
        chosen = [texts[i] for i in order]
        return np.stack(list(model.embed(chosen, batch_size=batch_size, parallel=parallel)))

    def describe() -> dict[str, Any]:
        return described(PACKAGES, "float32 graph")

    answer_library(encode, len(texts), describe)


if __name__ == "__main__":
    main()

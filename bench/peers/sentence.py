"""sentence-transformers in process, as its documentation on efficiency recommends for a CPU.

    python -m bench.peers.sentence MODEL TEXTS BACKEND PRECISION

BACKEND is torch, onnx or openvino; PRECISION is fp32 or bf16. The OpenVINO backend has its
precision set: its default is bfloat16 if the processor has it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer

from bench.peers.worker import answer, groups, read_texts, save_vectors, timed

PACKAGES = {
    "torch": ("torch",),
    "onnx": ("optimum-onnx", "onnxruntime"),
    "openvino": ("optimum-intel", "openvino"),
}


def load(folder: Path, backend: str, precision: str) -> SentenceTransformer:
    """Load the model on the CPU."""
    options: dict[str, Any] = {}
    if backend == "torch" and precision == "bf16":
        options = {"dtype": torch.bfloat16}
    if backend == "openvino":
        hint = {"fp32": "f32", "bf16": "bf16"}[precision]
        options = {"ov_config": {"INFERENCE_PRECISION_HINT": hint}}
    if backend == "onnx":
        options = {"provider": "CPUExecutionProvider"}
    return SentenceTransformer(str(folder), device="cpu", backend=backend, model_kwargs=options)


def told_precision(model: SentenceTransformer, backend: str) -> str:
    """Return the precision that the loaded model reports."""
    inner: Any = getattr(model[0], "auto_model", None) or model[0].model
    if backend == "torch":
        return str(next(inner.parameters()).dtype)
    if backend == "openvino":
        inner.compile()
        compiled = inner.request
        compiled = compiled if hasattr(compiled, "get_property") else compiled.get_compiled_model()
        return str(compiled.get_property("INFERENCE_PRECISION_HINT").to_string())
    return "float32 graph"


def main() -> None:
    folder, texts_path, backend, precision = sys.argv[1:]
    texts = read_texts(texts_path)
    model = load(Path(folder), backend, precision)

    def encode(order: Sequence[int], batch_size: int) -> Any:
        return model.encode([texts[i] for i in order], batch_size=batch_size, convert_to_numpy=True)

    def describe() -> dict[str, Any]:
        packages = ("sentence-transformers", "transformers", *PACKAGES[backend])
        versions = {package: version(package) for package in packages}
        return {"versions": versions, "precision_told": told_precision(model, backend)}

    def run(order: list[int], group: int, batch_size: int) -> dict[str, Any]:
        return timed(functools.partial(encode, part, batch_size) for part in groups(order, group))

    def vectors(path: str) -> dict[str, Any]:
        return save_vectors(path, model.encode(texts, batch_size=32, convert_to_numpy=True))

    answer({"describe": describe, "run": run, "vectors": vectors})


if __name__ == "__main__":
    main()

"""sentence-transformers in process, as its documentation on efficiency recommends for a CPU.

    python -m bench.peers.sentence MODEL TEXTS BACKEND PRECISION PROCESSES

BACKEND is torch, onnx or openvino; PRECISION is fp32, bf16 or int8, whose MODEL is a folder of
bench.peers.convert. The OpenVINO backend has its precision set: its default is bfloat16 if the
processor has it, which int8 keeps for all but its products. PROCESSES above 1: a multi-process
pool, one thread each.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer

from bench.peers.worker import answer_library, described, read_texts

PACKAGES = {
    "torch": ("torch",),
    "onnx": ("optimum-onnx", "onnxruntime"),
    "openvino": ("optimum-intel", "openvino"),
}


SUFFIX = {"onnx": "onnx", "openvino": "xml"}
LEAST_CHUNK = 16  # texts of a call that one process of the pool takes


def load(folder: Path, backend: str, precision: str) -> SentenceTransformer:
    """Load the model on the CPU."""
    options: dict[str, Any] = {}
    if backend == "torch" and precision == "bf16":
        options = {"dtype": torch.bfloat16}
    if backend == "openvino":
        hints = {
            "fp32": {"INFERENCE_PRECISION_HINT": "f32"},
            "bf16": {"INFERENCE_PRECISION_HINT": "bf16"},
        }
        options = {"ov_config": hints.get(precision, {})}
    if backend == "onnx":
        options = {"provider": "CPUExecutionProvider"}
    if precision == "int8":
        [file] = folder.glob(f"{backend}/*int8*.{SUFFIX[backend]}")
        options["file_name"] = file.name
    return SentenceTransformer(str(folder), device="cpu", backend=backend, model_kwargs=options)


def reported_precision(model: SentenceTransformer, backend: str) -> str:
    """Return the precision that the loaded model reports."""
    inner: Any = getattr(model[0], "auto_model", None) or model[0].model
    if backend == "torch":
        return str(next(inner.parameters()).dtype)
    if backend == "openvino":
        inner.compile()
        compiled = inner.request
        compiled = compiled if hasattr(compiled, "get_property") else compiled.get_compiled_model()
        hint = str(compiled.get_property("INFERENCE_PRECISION_HINT").to_string())
        quantized = sum("FakeQuantize" in op.get_type_name() for op in inner.model.get_ops())
        return f"{quantized} quantized inputs, the rest {hint}" if quantized else hint
    return f"graph {Path(inner.path).name}"


def main() -> None:
    folder, texts_path, backend, precision, processes = sys.argv[1:]
    texts = read_texts(texts_path)
    model = load(Path(folder), backend, precision)
    pool: dict[str, Any] = {}
    if processes != "1":
        os.environ["OMP_NUM_THREADS"] = "1"
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # which ends the pool's processes
        pool["pool"] = model.start_multi_process_pool(["cpu"] * int(processes))

    def encode(order: Sequence[int], batch_size: int) -> Any:
        # at least half of a call of 32; a list is cut as by default
        chunk = (
            {"chunk_size": max(LEAST_CHUNK, len(order) // (10 * int(processes)))} if pool else {}
        )
        chosen = [texts[i] for i in order]
        return model.encode(chosen, batch_size=batch_size, convert_to_numpy=True, **chunk, **pool)

    def describe() -> dict[str, Any]:
        packages = ("sentence-transformers", "transformers", *PACKAGES[backend])
        return described(packages, reported_precision(model, backend))

    answer_library(encode, len(texts), describe)


if __name__ == "__main__":
    main()

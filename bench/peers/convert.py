"""sentence-transformers' folder for a backend, with int8, by its documented functions.

    python -m bench.peers.convert MODEL BACKEND OUT [CALIBRATION]

BACKEND is onnx (dynamic int8, the configuration that fits the processor) or openvino (static int8,
calibrated on the texts of CALIBRATION, a folder of one file train.jsonl).
"""

from __future__ import annotations

import sys
from pathlib import Path

from sentence_transformers import (
    SentenceTransformer,
    export_dynamic_quantized_onnx_model,
    export_static_quantized_openvino_model,
)


def main() -> None:
    folder, backend, out, *calibration = sys.argv[1:]
    model = SentenceTransformer(folder, device="cpu", backend=backend)
    model.save_pretrained(out)
    if backend == "onnx":
        vnni = "avx512_vnni" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
        export_dynamic_quantized_onnx_model(model, "avx512_vnni" if vnni else "avx2", out)
    else:
        # dataset, its configuration, split and column; by default as many texts as ours
        dataset = (*calibration, "default", "train", "text")
        export_static_quantized_openvino_model(model, None, out, *dataset)


if __name__ == "__main__":
    main()

from __future__ import annotations

import subprocess
import sys

HEAVY = {
    "torch",
    "onnx",
    "onnxruntime",
    "tokenizers",
    "transformers",
    "matplotlib",
    "prometheus_client",
    "safetensors",
    "bertviz",
    "transformer_lens",
    "lit_nlp",
}
LIST_MODULES = (
    "import sys, headlight, headlight.cli.commands, headlight.adapters, headlight.archive; "
    "print(*{name.partition('.')[0] for name in sys.modules})"
)


def test_client_adapters_and_command_line_import_no_heavy_libraries() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIST_MODULES], capture_output=True, text=True, check=True, timeout=50
    )
    imported = set(done.stdout.split())
    assert {"grpc", "numpy", "google"} <= imported
    assert not imported & HEAVY

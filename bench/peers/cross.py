"""sentence-transformers' CrossEncoder in process, and the model that all contestants get.

    python -m bench.peers.cross make MODEL FOLDER
    python -m bench.peers.cross rank FOLDER PAIRS BACKEND

BACKEND is torch, onnx or openvino, all in fp32.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import CrossEncoder
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from bench.peers.sentence import PACKAGES
from bench.peers.worker import answer, described, timed

BATCH_SIZES = (32, 8)
TUNING_ROUNDS = 2


def make(model: Path, folder: Path, length: int = 128) -> None:
    """Write a cross-encoder of these weights, with a head of random numbers, always the same."""
    torch.manual_seed(0)
    made = AutoModelForSequenceClassification.from_pretrained(model, num_labels=1)
    # Larger than as they are drawn, so that scores differ.
    torch.nn.init.normal_(made.classifier.weight)
    made.save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(model)
    tokenizer.model_max_length = length
    tokenizer.save_pretrained(folder)


def load(folder: Path, backend: str) -> CrossEncoder:
    """Load the model on the CPU, in fp32."""
    options: dict[str, Any] = {}
    if backend == "openvino":
        options = {"ov_config": {"INFERENCE_PRECISION_HINT": "f32"}}
    if backend == "onnx":
        options = {"provider": "CPUExecutionProvider"}
    return CrossEncoder(str(folder), device="cpu", backend=backend, model_kwargs=options)


def rank(folder: Path, pairs: Path, backend: str) -> None:
    """Answer requests to score the pairs, in batches of the faster size."""
    values = json.loads(pairs.read_text(encoding="utf-8"))
    rows = [(values["query"], each) for each in values["documents"]]
    model = load(folder, backend)

    def scores(batch_size: int) -> Any:
        return model.predict(rows, batch_size=batch_size, activation_fn=torch.nn.Identity())

    def tune() -> dict[str, Any]:
        tried = {
            size: min(timed([partial(scores, size)] * TUNING_ROUNDS)["latencies"])
            for size in BATCH_SIZES
        }
        chosen.append(min(tried, key=lambda size: tried[size]))
        return {"batch_size": chosen[-1]}

    chosen: list[int] = []
    answer(
        {
            "describe": lambda: described(
                ("sentence-transformers", "transformers", *PACKAGES[backend]), "fp32"
            ),
            "tune": tune,
            "run": lambda: timed([partial(scores, chosen[-1])]),
            "scores": lambda: {"scores": scores(chosen[-1]).tolist()},
        }
    )


def main() -> None:
    task, folder, *others = sys.argv[1:]
    if task == "make":
        make(Path(folder), Path(others[0]))
    else:
        rank(Path(folder), Path(others[0]), others[1])


if __name__ == "__main__":
    main()

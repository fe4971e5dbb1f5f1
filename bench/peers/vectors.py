"""sentence-transformers' sparse and multi-vector encoders in process, and the models of all.

    python -m bench.peers.vectors make MODEL KIND FOLDER
    python -m bench.peers.vectors encode KIND FOLDER TEXTS

KIND is sparse or multi_vector.
"""

from __future__ import annotations

import json
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from sentence_transformers import MultiVectorEncoder, SparseEncoder
from transformers import AutoTokenizer, BertForMaskedLM, BertModel

from bench.peers.worker import answer, described, read_texts, timed

BATCH_SIZES = (32, 8)
WIDTH = 128
ACTIVE = 0.9998  # share of the terms without a weight at a token, of a trained model's order
SAMPLE = "return the first line of a text file without its end"


def make(model: Path, kind: str, folder: Path) -> None:
    """Write a model of these weights, with a head of random numbers, always the same."""
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(model)
    if kind == "sparse":
        made = BertForMaskedLM.from_pretrained(model).eval()
        with torch.no_grad():
            logits = made(**tokenizer(SAMPLE, return_tensors="pt")).logits
            made.cls.predictions.bias -= torch.quantile(logits.flatten()[: 1 << 20], ACTIVE)
        base = folder / "base"
        made.save_pretrained(base)
        tokenizer.save_pretrained(base)
        SparseEncoder(str(base), device="cpu").save_pretrained(str(folder))
        shutil.rmtree(base)
        return
    encoder = BertModel.from_pretrained(model)
    encoder.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    named = {f"bert.{each}": value for each, value in encoder.state_dict().items()}
    named["linear.weight"] = torch.randn(WIDTH, encoder.config.hidden_size)
    save_file(named, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"architectures": ["HF_ColBERT"]}))
    settings = {"query_maxlen": 32, "doc_maxlen": 128, "mask_punctuation": True, "dim": WIDTH}
    tokens = {"query_token_id": "[unused0]", "doc_token_id": "[unused1]"}
    (folder / "artifact.metadata").write_text(json.dumps(settings | tokens))


def encode(kind: str, folder: Path, texts: list[str]) -> None:
    """Answer requests to encode the texts, in batches of the faster size."""
    model = (SparseEncoder if kind == "sparse" else MultiVectorEncoder)(str(folder), device="cpu")
    model.max_seq_length = 128

    def vectors(batch_size: int) -> Any:
        return model.encode_document(texts, batch_size=batch_size, show_progress_bar=False)

    def tune() -> dict[str, Any]:
        tried = {
            size: min(timed([partial(vectors, size)] * 2)["latencies"]) for size in BATCH_SIZES
        }
        chosen.append(min(tried, key=lambda size: tried[size]))
        return {"batch_size": chosen[-1]}

    def sums() -> dict[str, Any]:
        rows = vectors(chosen[-1])
        if kind == "sparse":
            rows = rows.to_dense()
        return {"sums": [float(np.abs(np.asarray(row, np.float64)).sum()) for row in rows]}

    chosen: list[int] = []
    packages = ("sentence-transformers", "transformers", "torch")
    answer(
        {
            "describe": lambda: described(packages, "fp32"),
            "tune": tune,
            "run": lambda: timed([partial(vectors, chosen[-1])]),
            "sums": sums,
        }
    )


def main() -> None:
    task, *others = sys.argv[1:]
    if task == "make":
        make(Path(others[0]), others[1], Path(others[2]))
    else:
        encode(others[0], Path(others[1]), read_texts(others[2]))


if __name__ == "__main__":
    main()

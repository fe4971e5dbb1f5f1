"""Write a small random model with PyLate itself, and the vectors that PyLate gives.

PyLate pins older libraries than this repository, so it runs in an environment of its own: `pip
install torch onnx pylate==1.6.0`, then `python -m tests.export.folders.record_pylate`. The result
lies in `pylate` beside this file, which test_multi_vector_folder.py reads.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from pylate import models

from tests.factory import VOCABULARY, small_tokenizer

FOLDER = Path(__file__).parent / "pylate"
TEXTS = ["a planet is red", "mars", "green, is a (colour) of grass. and of leaves", "mars"]
TEXTS += ["x" * 60, "é café", "hello, [Q] you", "!?"]
TEXTS += [
    " ".join(["planet", "red,", "(a)", "of", "mars.", "gas?", "[Q]", "x"][at % 5 :: 1 + at % 4])
    for at in range(32)
]
QUERIES = 25  # the first of them
WIDTH, WORDS = 24, [",", ".", "?", "€"]  # the last is no token


def write_bert(folder: Path) -> None:
    """Write a random BERT with attention far from uniform."""
    torch.manual_seed(5)
    config = transformers.BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=WIDTH,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=48,
        type_vocab_size=1,
    )
    model = transformers.BertModel(config, add_pooling_layer=False)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            scale = 12.0 if "query" in name or "key" in name else 3.0
            parameter.mul_(scale if parameter.ndim == 2 else 1.0)
            parameter.add_(0.1 * torch.randn_like(parameter) if parameter.ndim == 1 else 0.0)
    model.save_pretrained(folder)
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=small_tokenizer(),
        model_max_length=48,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    ).save_pretrained(folder)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        write_bert(Path(name))
        model = models.ColBERT(
            name, device="cpu", query_length=16, document_length=32, skiplist_words=WORDS
        )
        model.pop(1)
    torch.manual_seed(6)
    model.append(models.Dense(WIDTH, 2 * WIDTH, bias=False, use_residual=True))
    model.append(models.Dense(2 * WIDTH, 2 * WIDTH, use_residual=True))
    model.append(models.Dense(2 * WIDTH, 16, bias=False))
    shutil.rmtree(FOLDER, ignore_errors=True)
    model.save(str(FOLDER), create_model_card=False)
    read = models.ColBERT(str(FOLDER), device="cpu")
    vectors: dict[str, Any] = {"texts": np.array(TEXTS)}
    for role in ("query", "document"):
        texts = TEXTS[:QUERIES] if role == "query" else TEXTS
        for at, rows in enumerate(read.encode(texts, is_query=role == "query")):
            vectors[f"{role}_{at}"] = rows
    np.savez_compressed(FOLDER / "vectors.npz", **vectors)


if __name__ == "__main__":
    main()

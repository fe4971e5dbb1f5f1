"""Random weights of the size of BERT-base or of all-MiniLM-L6, in sentence-transformers' format.

    python -m bench.random_bert build/serving-base --size base

6 layers of d=384 or 12 of d=768, 12 heads, a vocabulary of 30,522. The weights are random, the
tokenizer is that of the shipped models. It needs transformers and sentence-transformers.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

TOKENIZER = Path("model/headlight_model/checkpoints/docs-rope/tokenizer.json")
LONGEST = 256
SIZES = {"minilm": (6, 384), "base": (12, 768)}  # layers, dimensions


def make(folder: Path, size: str = "minilm") -> Path:
    """Write the folder."""
    torch.manual_seed(0)
    layers, dim = SIZES[size]
    config = transformers.BertConfig(
        vocab_size=30522,
        hidden_size=dim,
        num_hidden_layers=layers,
        num_attention_heads=12,
        intermediate_size=4 * dim,
    )
    model = transformers.BertModel(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
            elif "query" in name or "key" in name:
                # So that attention is not uniform, and alike in all sizes.
                parameter.mul_(6.0 * (384 / dim) ** 0.5)
    bare = folder / "transformer"
    model.save_pretrained(bare)
    special = {
        "unk_token": "[UNK]",
        "pad_token": "[PAD]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    }
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(TOKENIZER), model_max_length=512, **special
    )
    tokenizer.save_pretrained(bare)
    module = Transformer(str(bare), max_seq_length=LONGEST)
    pooling = Pooling(config.hidden_size, pooling_mode="mean")
    SentenceTransformer(modules=[module, pooling, Normalize()], device="cpu").save(
        str(folder / "model")
    )
    as_published(folder / "model", config.hidden_size)
    return folder / "model"


def as_published(folder: Path, dim: int) -> None:
    """Name the parts as published folders do.

    Libraries of an earlier year do not know the latest names; the latest library reads both.
    """
    modules = ("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")
    named = [
        {"idx": at, "name": str(at), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for at, (kind, path) in enumerate(modules)
    ]
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    tokens = {key: value for key, value in tokenizer.items() if key.endswith("_token")}
    written: dict[str, Any] = {
        "modules.json": named,
        "sentence_bert_config.json": {"max_seq_length": LONGEST, "do_lower_case": False},
        "1_Pooling/config.json": {
            "word_embedding_dimension": dim,
            "pooling_mode_mean_tokens": True,
        },
        "tokenizer_config.json": {
            **tokens,
            "model_max_length": LONGEST,
            "tokenizer_class": "PreTrainedTokenizerFast",
        },
    }
    for name, content in written.items():
        (folder / name).write_text(json.dumps(content, indent=2), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", choices=SIZES, default="minilm")
    options = parser.parse_args()
    print(make(options.folder, options.size))


if __name__ == "__main__":
    main()

"""A folder of the size of all-MiniLM-L6: 6 layers, 12 heads, d=384, a vocabulary of 30,522, as sentence-transformers saves it.

    python -m bench.minilm build/minilm

Its weights are random, its tokenizer is that of the shipped models. It needs transformers and sentence-transformers.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

TOKENIZER = Path("model/checkpoints/docs-rope/tokenizer.json")


def make(folder: Path) -> Path:
    """Write the folder."""
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=30522, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
    )
    model = transformers.BertModel(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
            elif "query" in name or "key" in name:
                parameter.mul_(6.0)  # so that attention is not uniform
    bare = folder / "transformer"
    model.save_pretrained(bare)
    special = {
        "unk_token": "[UNK]",
        "pad_token": "[PAD]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    }
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(TOKENIZER), model_max_length=512, **special)
    tokenizer.save_pretrained(bare)
    module = Transformer(str(bare), max_seq_length=256)
    pooling = Pooling(config.hidden_size, pooling_mode="mean")
    SentenceTransformer(modules=[module, pooling, Normalize()], device="cpu").save(str(folder / "model"))
    return folder / "model"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    print(make(parser.parse_args().folder))


if __name__ == "__main__":
    main()

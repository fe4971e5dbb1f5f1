"""Folders that sentence-transformers itself writes.

Around a small random model with a tokenizer of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Dense,
    Normalize,
    Pooling,
    Transformer,
)
from torch import nn

from tests.factory import VOCABULARY, small_tokenizer
from tests.families.models import sharpen
from tests.tokenizers_of_kinds import gemma_tokenizer

# The name here, and that of the library.
POOLING = {
    "mean": "mean",
    "cls": "cls",
    "max": "max",
    "last": "lasttoken",
    "weighted_mean": "weightedmean",
    "mean_sqrt_len": "mean_sqrt_len_tokens",
}
PROMPTS = {"query": "find this: ", "passage": "a text: "}
SPECIAL = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
DIM, WIDTH = 36, 24


def write_transformer(folder: Path) -> Path:
    """Write a BERT as transformers saves it, with sharpened attention."""
    torch.manual_seed(1)
    sizes = {
        "hidden_size": DIM,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 50,
    }
    config = transformers.BertConfig(
        vocab_size=len(VOCABULARY), max_position_embeddings=64, **sizes
    )
    return _write(folder, transformers.BertModel, config)


def write_t5(folder: Path) -> Path:
    """Write the encoder of a T5 in the same way."""
    torch.manual_seed(1)
    sizes = {"d_model": DIM, "d_kv": 10, "num_layers": 2, "num_heads": 3, "d_ff": 50}
    config = transformers.T5Config(vocab_size=len(VOCABULARY), **sizes)
    return _write(folder, transformers.T5EncoderModel, config)


def _write(folder: Path, kind: type[Any], config: Any) -> Path:
    config._attn_implementation = "eager"
    model = kind(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        sharpen(model, 0.7)
    model.save_pretrained(folder)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=small_tokenizer(), model_max_length=64, **SPECIAL
    )
    tokenizer.save_pretrained(folder)
    return folder


def write_gemma(folder: Path) -> Path:
    """Write a small EmbeddingGemma with sharpened attention, whose tokenizer pads at the start."""
    torch.manual_seed(1)
    tokenizer = gemma_tokenizer(
        ["what is this?", "One of the LONGER texts of them all.", "x", "find a"]
    )
    config = transformers.Gemma3TextConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=DIM,
        num_hidden_layers=3,
        num_attention_heads=3,
        num_key_value_heads=1,
        head_dim=16,
        intermediate_size=50,
        max_position_embeddings=64,
        sliding_window=12,
        sliding_window_pattern=3,
        use_bidirectional_attention=True,
    )
    config._attn_implementation = "eager"
    model = transformers.Gemma3TextModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        sharpen(model, 0.7)
    model.save_pretrained(folder)
    special = {f"{name}_token": f"<{name}>" for name in ("pad", "eos", "bos", "unk", "mask")}
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=64, padding_side="left", **special
    ).save_pretrained(folder)
    return folder


def write_sentences(
    folder: Path,
    *,
    write: Callable[[Path], Path] = write_transformer,
    pooling: str = "mean",
    dense: bool = False,
    normalize: bool = False,
    include_prompt: bool = True,
    prompts: Mapping[str, str] | None = None,
    default_prompt: str | None = None,
) -> SentenceTransformer:
    """Write folder / "model" and return the model of the library.

    Args:
        folder: created.
        write: writes its model and tokenizer.
        pooling: by Headlight's name.
        dense: add two layers after pooling.
        normalize: unit length at the end.
        include_prompt: pooling counts the tokens of a prompt.
        prompts, default_prompt: by name, and the default one.
    """
    modules: list[nn.Module] = [Transformer(str(write(folder / "transformer")), max_seq_length=48)]
    modules.append(Pooling(DIM, pooling_mode=POOLING[pooling], include_prompt=include_prompt))
    if dense:
        torch.manual_seed(2)
        modules.append(Dense(DIM, 40, activation_function=nn.Tanh()))
        modules.append(Dense(40, WIDTH, bias=False, activation_function=nn.Identity()))
    if normalize:
        modules.append(Normalize())
    named = {"prompts": dict(prompts or {}), "default_prompt_name": default_prompt}
    model = SentenceTransformer(modules=modules, device="cpu", **named)
    model.save(str(folder / "model"))
    return SentenceTransformer(
        str(folder / "model"), device="cpu", model_kwargs={"attn_implementation": "eager"}
    )

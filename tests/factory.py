"""Small real objects for tests: a tokenizer, an encoder, a checkpoint.

Only their size is small; every part is the real one.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import string
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
from tokenizers import models, normalizers, pre_tokenizers, processors

from headlight_model.checkpoint import save_checkpoint
from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
# Letters (also as continuations), digits and signs: any ASCII text, one token per character.
VOCABULARY = [
    *SPECIALS,
    *string.ascii_lowercase,
    *("##" + c for c in string.ascii_lowercase + string.digits),
    *string.digits,
    *string.punctuation,
]


def small_tokenizer() -> tokenizers.Tokenizer:
    """Return a WordPiece tokenizer whose tokens are single characters.

    Its longest word is one that is split in milliseconds: the cost grows by the cube, and each
    export measures it.
    """
    vocabulary = {piece: index for index, piece in enumerate(VOCABULARY)}
    tokenizer = tokenizers.Tokenizer(
        models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=1000)
    )
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return tokenizer


# One bundle for each position scheme. Together they take every path of the encoder once, so
# that each is exported.
KINDS: dict[str, dict[str, Any]] = {
    "rope": {},
    "sinusoidal": {"norm": "post", "pooling": "cls", "scale_embeddings": True, "layers": 1},
    "learned": {"norm": "post", "pooling": "mean_sqrt_len", "segments": 2, "layers": 1},
    "alibi": {
        "pooling": "weighted_mean",
        "ffn": "gated",
        "norm_bias": False,
        "attention_bias": False,
        "attention_out_bias": False,
        "layers": 1,
    },
    "none": {
        "pooling": "max",
        "norm_type": "rms",
        "ffn": "gated",
        "activation": "silu",
        "ffn_bias": False,
        "ffn_out_bias": False,
        "layers": 1,
    },
    "relative": {"positions": "learned+relative", "relative_per_layer": True},
    # Texts are longer than the distance from which on all share a bucket.
    "disentangled": {"norm": "post", "relative_buckets": 16, "relative_distance": 40},
    # As a language model that was converted to an encoder.
    "causal": {
        "positions": "rope",
        "rope_fraction": 0.5,
        "rope_offset": 3,
        "causal": True,
        "pooling": "last",
        "norm_type": "rms",
        "layers": 1,
    },
    "prompted": {"positions": "alibi", "alibi": "signed", "include_prompt": False, "layers": 1},
}
SCHEMES = ("none", "sinusoidal", "learned", "rope", "alibi", "relative")


def kind_config(kind: str) -> EncoderConfig:
    """Return the small config of a key of KINDS."""
    return small_config(**{"positions": kind} | KINDS[kind])


def small_config(**changes: Any) -> EncoderConfig:
    """Return a config of two layers with three heads, with sizes that are not powers of two."""
    values: dict[str, Any] = {
        "vocab_size": len(VOCABULARY),
        "dim": 36,
        "heads": 3,
        "layers": 2,
        "ffn_dim": 80,
        "positions": "rope",
        "trained_length": 32,
        "max_length": 160,
    }
    return EncoderConfig(**values | changes)


def sharpened(config: EncoderConfig, seed: int = 0) -> Encoder:
    """Return a random encoder with attention far from uniform and non-default biases and gains.

    At plain random initialisation every score is near 0: attention would hide a wrong scale, a lost
    bias or a swapped layer.
    """
    torch.manual_seed(seed)
    encoder = Encoder(config)
    with torch.no_grad():
        for parameter in encoder.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
        for name, parameter in encoder.named_parameters():
            if name.endswith("attention.project_in.weight"):
                parameter[: 2 * config.dim] *= 3.0  # the rows of Q and K
    return encoder.eval()


def with_options(
    bundle: Path, target: Path, ranges: dict[str, Any] | None = None, **values: Any
) -> Path:
    """Copy a bundle, change values of its manifest,
    and add int8 ranges if given: `int8_d` float32 [2, d].
    """
    shutil.copytree(bundle, target)
    path = target / "manifest.json"
    manifest = json.loads(path.read_text())
    if ranges is not None:
        np.savez(target / "ranges.npz", **ranges)
        data = (target / "ranges.npz").read_bytes()
        manifest["files"]["ranges.npz"] = {
            "sha256": hashlib.sha256(data).hexdigest(),
            "bytes": len(data),
        }
        manifest["ranges"] = "ranges.npz"
    path.write_text(json.dumps(manifest | values))
    return target


def declaring(bundle: Path, target: Path) -> Path:
    """Copy a bundle so that its tokenizer declares its special tokens.

    Special tokens in a text are then parsed.
    """
    shutil.copytree(bundle, target)
    tokenizer = small_tokenizer()
    tokenizer.add_special_tokens(SPECIALS)
    data = tokenizer.to_str().encode()
    (target / "tokenizer.json").write_bytes(data)
    path = target / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["files"]["tokenizer.json"] = {
        "sha256": hashlib.sha256(data).hexdigest(),
        "bytes": len(data),
    }
    path.write_text(json.dumps(manifest))
    return target


def write_checkpoint(folder: Path, config: EncoderConfig) -> Path:
    """Write a checkpoint folder with a sharpened encoder and the small tokenizer."""
    save_checkpoint(folder, sharpened(config), small_tokenizer().to_str())
    return folder

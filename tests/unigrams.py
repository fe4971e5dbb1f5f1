"""Tokenizers of XLM-R and T5 in their published form.

Their tokenizer.json makes a token of white space at the end of a text.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors

PIECES = [
    "<s>",
    "<pad>",
    "</s>",
    "<unk>",
    "▁",
    "▁hello",
    "hello",
    "▁w",
    "or",
    "ld",
    "s",
    "é",
    "今",
    "天",
    ",",
    "!",
    "<mask>",
]
JOIN = normalizers.Replace(Regex(" {2,}"), " ")


def charsmap(changes: dict[str, str]) -> bytes:
    """Return sentencepiece's normalisation of single-byte characters.

    A double array, then the values it points to.
    """
    units, texts = [0] * 512, b""
    for at, (old, new) in enumerate(changes.items()):
        place, leaf = ord(old), 256 + at
        units[place] = (place ^ leaf) << 10 | 1 << 8 | place
        units[leaf] = len(texts)
        texts += new.encode() + b"\0"
    return struct.pack("<I", 4 * len(units)) + struct.pack(f"<{len(units)}I", *units) + texts


SENTENCEPIECE = normalizers.Precompiled(charsmap({"\t": " ", "W": "w"}))


def pieces(
    pre_tokenizer: pre_tokenizers.PreTokenizer | None = None,
    normalizer: normalizers.Normalizer | None = JOIN,
) -> tokenizers.Tokenizer:
    """Return the tokenizer of multilingual E5, with optional changes."""
    tokenizer = _unigram(PIECES, pre_tokenizer, normalizer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    tokenizer.add_special_tokens([*PIECES[:4], tokenizers.AddedToken("<mask>", lstrip=True)])
    return tokenizer


def t5_pieces(
    pre_tokenizer: pre_tokenizers.PreTokenizer | None = None,
    normalizer: normalizers.Normalizer | None = SENTENCEPIECE,
) -> tokenizers.Tokenizer:
    """Return the tokenizer of T5, with optional changes."""
    special = ["<pad>", "</s>", "<unk>"]
    tokenizer = _unigram([*special, *PIECES[4:-1], "<extra_id_0>"], pre_tokenizer, normalizer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    tokenizer.add_special_tokens([*special, "<extra_id_0>"])
    return tokenizer


def _unigram(
    vocabulary: list[str],
    pre_tokenizer: pre_tokenizers.PreTokenizer | None,
    normalizer: normalizers.Normalizer | None,
) -> tokenizers.Tokenizer:
    scores = [
        0.0 if piece.startswith("<") else -1.0 - at / 10 for at, piece in enumerate(vocabulary)
    ]
    tokenizer = tokenizers.Tokenizer(
        models.Unigram(list(zip(vocabulary, scores, strict=True)), unk_id=vocabulary.index("<unk>"))
    )
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer or pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


def write_pieces(folder: Path, tokenizer: tokenizers.Tokenizer, **settings: object) -> None:
    """Write tokenizer.json and its settings."""
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")

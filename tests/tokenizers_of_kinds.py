"""Small tokenizers of the kinds that decoders have."""

from __future__ import annotations

import json
from collections.abc import Iterable

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

QWEN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def of_bytes(pattern: str) -> tokenizers.Tokenizer:
    """Return a byte-level tokenizer of Qwen's kind, split by a pattern."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["hello world, don't word 1234 123"] * 3, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    return tokenizer


GEMMA = ("<pad>", "<eos>", "<bos>", "<unk>", "<mask>")


def gemma_tokenizer(texts: Iterable[str]) -> tokenizers.Tokenizer:
    """Return a tokenizer of Gemma's kind: pieces of sentencepiece, which reads a text as one word.

    Characters that no text has become bytes. Line breaks and spaces have tokens for runs of them.
    """
    trained = tokenizers.Tokenizer(models.BPE())
    trained.normalizer = normalizers.Replace(" ", "▁")
    trained.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    trainer = trainers.BpeTrainer(vocab_size=300, show_progress=False)
    trained.train_from_iterator(texts, trainer)
    learned = json.loads(trained.to_str())["model"]
    merges = [*map(tuple, learned["merges"]), ("▁", "▁"), ("▁▁", "▁▁")]
    bytes_ = (f"<0x{byte:02X}>" for byte in range(256))
    pieces = dict.fromkeys((*GEMMA, *bytes_, *learned["vocab"], "▁", "▁▁", "▁▁▁▁"))
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = tokenizers.Tokenizer(
        models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A <eos>",
        pair="<bos> $A <eos> <bos>:1 $B:1 <eos>:1",
        special_tokens=[("<bos>", 2), ("<eos>", 1)],
    )
    tokenizer.add_special_tokens(list(GEMMA))
    tokenizer.add_tokens([tokenizers.AddedToken(run, normalized=False) for run in ("\n\n", "\t\t")])
    return tokenizer

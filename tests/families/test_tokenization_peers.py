"""tokenizer.json compared with transformers' own tokenizer for the same folder.

Ids, token types and offsets.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertTokenizer,
    DebertaV2Config,
    DebertaV2Tokenizer,
    DistilBertConfig,
    DistilBertTokenizer,
    Gemma3TextConfig,
    GPT2Config,
    GPT2Tokenizer,
    LlamaConfig,
    ModernBertConfig,
    MPNetConfig,
    PreTrainedTokenizerFast,
    Qwen2Tokenizer,
    Qwen3Config,
    RobertaConfig,
    RobertaTokenizer,
    RoFormerConfig,
    T5Config,
    T5Tokenizer,
    XLMRobertaConfig,
    XLMRobertaTokenizer,
)

from headlight_export.tokenizers.token_comparison import compare_ids
from headlight_export.tokenizers.tokenizer_file import tokenizer_json
from tests.tokenizers_of_kinds import gemma_tokenizer

TEXTS = (
    "hello world",
    "  Hello,   WORLDS!  ",
    "x",
    "a\tb\nc\r\n\r\nd",
    "Ünïcödé Straße İstanbul ﬁne",
    "今天天气 非常好。",
    "e\u0301te\u0301 caf\u00e9 \u200bzero\ufeffwidth",
    "[MASK] in [mask] and <mask> </s> <|endoftext|>",
    "don't you're 3.14 e-mail a_b C++ #tag",
    "🙂🙃 emoji \U0001f469\u200d\U0001f469\u200d\U0001f467",
    "longwordlongwordlongwordlongword" * 5,
)
CORPUS = [
    *TEXTS,
    "the quick brown fox jumps over the lazy dog",
    "hello worlds of words, lower and lowest",
] * 3


def train(
    model: Any, trainer: Any, pre_tokenizer: Any, normalizer: Any = None
) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def wordpiece(folder: Path, special: list[str]) -> None:
    """Write the vocab.txt of a WordPiece trained here."""
    cased = normalizers.BertNormalizer(lowercase=False)
    trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    train(
        models.WordPiece(unk_token=special[1]), trainer, pre_tokenizers.BertPreTokenizer(), cased
    ).model.save(str(folder))


def byte_bpe(special: list[str]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer = train(models.BPE(), trainer, pre_tokenizers.ByteLevel(add_prefix_space=False))
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


def agree(folder: Path, *, lower_case: bool = False, peer: Any = None) -> None:
    text = tokenizer_json(folder, lower_case=lower_case)
    assert text is not None
    if peer is None:
        assert "are those of transformers" in str(compare_ids(folder, text, lower_case=lower_case))
        peer = AutoTokenizer.from_pretrained(folder)
    ours = tokenizers.Tokenizer.from_str(text)
    numbers = random.Random(0)
    letters = "aAbBéßİ .,-_'/[]<>|\t\n今天🙂\u0301\u00a0"
    made = ["".join(numbers.choices(letters, k=numbers.randint(1, 40))) for _ in range(200)]
    for one in (*TEXTS, "zqjx [q][extra] zqjxx Zqjx hello", *made):
        theirs = peer(one, return_offsets_mapping=True, return_token_type_ids=True)
        mine = ours.encode(one)
        assert mine.ids == theirs["input_ids"], one
        assert mine.type_ids == theirs["token_type_ids"]
        assert mine.offsets == [tuple(span) for span in theirs["offset_mapping"]], one
    pair = peer("hello world", "the fox", return_token_type_ids=True)
    assert ours.encode("hello world", "the fox").ids == pair["input_ids"]
    assert ours.encode("hello world", "the fox").type_ids == pair["token_type_ids"]


BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


@pytest.mark.parametrize(
    "settings",
    [
        None,
        {},
        {"do_lower_case": False},
        {"do_lower_case": True, "strip_accents": False},
        {"do_lower_case": False, "strip_accents": True, "tokenize_chinese_chars": False},
        {"tokenizer_class": "BertTokenizer", "model_max_length": 12},
        {"tokenizer_class": "DistilBertTokenizerFast", "do_lower_case": False},
        {"tokenizer_class": "ElectraTokenizer"},
    ],
)
def test_a_plain_vocabulary_matches(tmp_path: Path, settings: dict[str, Any] | None) -> None:
    wordpiece(tmp_path, BERT)
    BertConfig().save_pretrained(tmp_path)
    if settings is not None:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    agree(tmp_path)


def test_a_distilbert_vocabulary_matches(tmp_path: Path) -> None:
    wordpiece(tmp_path, BERT)
    DistilBertConfig().save_pretrained(tmp_path)
    agree(tmp_path)


def test_an_mpnet_vocabulary_matches(tmp_path: Path) -> None:
    wordpiece(tmp_path, ["<pad>", "[UNK]", "<s>", "</s>", "<mask>"])
    MPNetConfig().save_pretrained(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(
        '{"tokenizer_class": "MPNetTokenizer", "do_lower_case": false}'
    )
    agree(tmp_path)


def test_renamed_special_tokens_and_added_tokens_match(tmp_path: Path) -> None:
    wordpiece(tmp_path, ["<p>", "<u>", "<c>", "<e>", "<m>"])
    BertConfig().save_pretrained(tmp_path)
    names: dict[str, Any] = {
        "pad_token": "<p>",
        "unk_token": "<u>",
        "cls_token": "<c>",
        "sep_token": "<e>",
    }
    names |= {"additional_special_tokens": ["hello", "[q]"]}
    flags = {"lstrip": True, "rstrip": False, "single_word": False, "normalized": False}
    size = len((tmp_path / "vocab.txt").read_text().splitlines())
    (tmp_path / "special_tokens_map.json").write_text(
        json.dumps(names | {"mask_token": {"content": "<m>", **flags}})
    )
    (tmp_path / "added_tokens.json").write_text(json.dumps({"[extra]": size, "zqjx": size + 1}))
    agree(tmp_path)


@pytest.mark.parametrize("make", [BertTokenizer, DistilBertTokenizer])
@pytest.mark.parametrize("lower", [True, False])
def test_a_saved_wordpiece_tokenizer_matches(tmp_path: Path, make: Any, lower: bool) -> None:
    source = tmp_path / "source"
    source.mkdir()
    wordpiece(source, BERT)
    make.from_pretrained(source, do_lower_case=lower).save_pretrained(tmp_path)
    (DistilBertConfig if make is DistilBertTokenizer else BertConfig)().save_pretrained(tmp_path)
    assert not (tmp_path / "vocab.txt").exists()
    agree(tmp_path)


def test_lower_casing_in_the_settings_overrides_tokenizer_json(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    wordpiece(source, BERT)
    BertTokenizer.from_pretrained(source, do_lower_case=False).save_pretrained(tmp_path)
    BertConfig().save_pretrained(tmp_path)
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings | {"do_lower_case": True}))
    agree(tmp_path)


def roberta(folder: Path) -> Any:
    vocab, merges = byte_bpe(ROBERTA)
    RobertaConfig().save_pretrained(folder)
    return RobertaTokenizer(vocab=vocab, merges=merges)


def unigram(special: list[str], unknown: str = "<unk>") -> list[tuple[str, float]]:
    trainer = trainers.UnigramTrainer(
        vocab_size=300, special_tokens=special, unk_token=unknown, show_progress=False
    )
    tokenizer = train(models.Unigram(), trainer, pre_tokenizers.Metaspace())
    return [tuple(entry) for entry in json.loads(tokenizer.to_str())["model"]["vocab"]]


def xlm_roberta(folder: Path) -> Any:
    XLMRobertaConfig().save_pretrained(folder)
    return XLMRobertaTokenizer(vocab=unigram(["<s>", "<pad>", "</s>", "<unk>", "<mask>"]))


def t5(folder: Path) -> Any:
    T5Config().save_pretrained(folder)
    return T5Tokenizer(vocab=unigram(["<pad>", "</s>", "<unk>"]), extra_ids=5)


def deberta(folder: Path) -> Any:
    DebertaV2Config().save_pretrained(folder)
    return DebertaV2Tokenizer(vocab=unigram(BERT, "[UNK]"))


def gpt2(folder: Path) -> Any:
    vocab, merges = byte_bpe(["<|endoftext|>"])
    GPT2Config().save_pretrained(folder)
    return GPT2Tokenizer(vocab=vocab, merges=merges)


def qwen(folder: Path) -> Any:
    vocab, merges = byte_bpe(["<|endoftext|>"])
    Qwen3Config().save_pretrained(folder)
    tokenizer = Qwen2Tokenizer(vocab=vocab, merges=merges, add_bos_token=False)
    end = ("<|endoftext|>", tokenizer.eos_token_id)
    tokenizer.backend_tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(
                single=f"$A {end[0]}", pair=f"$A {end[0]} $B:1 {end[0]}:1", special_tokens=[end]
            ),
        ]
    )
    return tokenizer


def modernbert(folder: Path) -> Any:
    vocab, merges = byte_bpe(BERT)
    tokenizer = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    ends = [("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=ends
    )
    tokenizer.add_special_tokens([tokenizers.AddedToken("[MASK]", lstrip=True), "[PAD]", "[UNK]"])
    ModernBertConfig().save_pretrained(folder)
    names: dict[str, Any] = {
        "pad_token": "[PAD]",
        "mask_token": "[MASK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
    }
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", **names)


def llama(folder: Path) -> Any:
    special = ["<unk>", "<s>", "</s>"]
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    tokenizer = train(
        models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True),
        trainer,
        pre_tokenizers.Metaspace(),
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> <s>:1 $B:1 </s>:1",
        special_tokens=[("<s>", 1), ("</s>", 2)],
    )
    LlamaConfig().save_pretrained(folder)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def roformer(folder: Path) -> Any:
    source = folder / "source"
    source.mkdir()
    wordpiece(source, BERT)
    RoFormerConfig().save_pretrained(folder)
    return BertTokenizer.from_pretrained(source)


MAKERS: tuple[Callable[[Path], Any], ...] = (
    roberta,
    xlm_roberta,
    t5,
    deberta,
    gpt2,
    qwen,
    modernbert,
    llama,
    roformer,
)


@pytest.mark.parametrize("make", MAKERS)
def test_a_saved_tokenizer_matches(tmp_path: Path, make: Callable[[Path], Any]) -> None:
    make(tmp_path).save_pretrained(tmp_path)
    agree(tmp_path)


@pytest.mark.parametrize(
    "name", ["GemmaTokenizer", "GemmaTokenizerFast", "PreTrainedTokenizerFast"]
)
def test_a_gemma_tokenizer_matches_as_published(tmp_path: Path, name: str) -> None:
    """tokenizer.json adds both ends, as EmbeddingGemma's."""
    Gemma3TextConfig().save_pretrained(tmp_path)
    gemma_tokenizer(CORPUS).save(str(tmp_path / "tokenizer.json"))
    special = {f"{name}_token": f"<{name}>" for name in ("pad", "eos", "bos", "unk", "mask")}
    settings = {"tokenizer_class": name, "add_bos_token": True, "add_eos_token": True} | special
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    agree(tmp_path)
    text = tokenizer_json(tmp_path, lower_case=False)
    assert text is not None
    ids = tokenizers.Tokenizer.from_str(text).encode("hello world").ids
    assert (ids[0], ids[-1]) == (2, 1)

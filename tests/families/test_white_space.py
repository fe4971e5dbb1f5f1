"""Tokenizers of XLM-R and T5 in their published form, compared with transformers' classes.

transformers 5 would save them in another form.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Regex, normalizers, pre_tokenizers
from transformers import (
    BertConfig,
    CamembertConfig,
    MT5Config,
    PreTrainedConfig,
    T5Config,
    UMT5Config,
    XLMRobertaConfig,
)

from tests.families.test_tokenization_peers import agree
from tests.unigrams import JOIN, SENTENCEPIECE, pieces, t5_pieces, write_pieces

STRIP = normalizers.Sequence(
    [normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), "▁")]
)
SPLIT = pre_tokenizers.Sequence(
    [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="first")]
)


BOTH = normalizers.Sequence([SENTENCEPIECE, JOIN])


@pytest.mark.parametrize("pre_tokenizer", [None, SPLIT])
@pytest.mark.parametrize(
    ("config", "name", "normalizer"),
    [
        *((XLMRobertaConfig, None, each) for each in (None, JOIN, STRIP, SENTENCEPIECE, BOTH)),
        (XLMRobertaConfig, "XLMRobertaTokenizer", JOIN),
        (BertConfig, "XLMRobertaTokenizerFast", JOIN),
        (CamembertConfig, None, JOIN),
        (CamembertConfig, "CamembertTokenizer", JOIN),
    ],
)
def test_xlm_r_classes_split_words_before_pieces(
    tmp_path: Path,
    config: type[BertConfig],
    name: str | None,
    normalizer: normalizers.Normalizer | None,
    pre_tokenizer: pre_tokenizers.PreTokenizer | None,
) -> None:
    config().save_pretrained(tmp_path)
    settings = {"tokenizer_class": name} if name else {}
    write_pieces(tmp_path, pieces(pre_tokenizer, normalizer), mask_token="<mask>", **settings)
    agree(tmp_path)


@pytest.mark.parametrize("pre_tokenizer", [None, SPLIT])
@pytest.mark.parametrize(
    ("config", "settings", "normalizer"),
    [
        *((T5Config, {}, each) for each in (None, STRIP, SENTENCEPIECE)),
        (T5Config, {"tokenizer_class": "T5TokenizerFast", "add_prefix_space": False}, BOTH),
        (MT5Config, {"tokenizer_class": "T5Tokenizer"}, SENTENCEPIECE),
        (MT5Config, {}, SENTENCEPIECE),
        (UMT5Config, {"tokenizer_class": "T5Tokenizer"}, SENTENCEPIECE),
        (UMT5Config, {}, STRIP),
    ],
)
def test_tokenizers_of_t5_match(
    tmp_path: Path,
    config: type[PreTrainedConfig],
    settings: dict[str, object],
    normalizer: normalizers.Normalizer | None,
    pre_tokenizer: pre_tokenizers.PreTokenizer | None,
) -> None:
    config().save_pretrained(tmp_path)
    ends = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>", "extra_ids": 1}
    write_pieces(tmp_path, t5_pieces(pre_tokenizer, normalizer), **ends, **settings)
    agree(tmp_path)


@pytest.mark.parametrize("config", [XLMRobertaConfig, CamembertConfig])
def test_words_without_a_leading_space_match(tmp_path: Path, config: type[BertConfig]) -> None:
    config().save_pretrained(tmp_path)
    write_pieces(tmp_path, pieces(), mask_token="<mask>", add_prefix_space=False)
    agree(tmp_path)


def test_for_other_classes_tokenizer_json_decides(tmp_path: Path) -> None:
    XLMRobertaConfig().save_pretrained(tmp_path)
    write_pieces(tmp_path, pieces(), tokenizer_class="PreTrainedTokenizerFast")
    agree(tmp_path)

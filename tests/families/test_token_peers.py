"""Comparison of token ids with transformers during an export."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import transformers
from tokenizers import pre_tokenizers
from transformers import AutoTokenizer, BertConfig, BertTokenizer, XLMRobertaConfig

from headlight_export.command import main
from headlight_export.tokenizers.token_comparison import TEXTS, compare_ids
from headlight_export.tokenizers.tokenizer_file import tokenizer_json
from tests.families.sentences import write_sentences
from tests.families.test_tokenization_peers import BERT, wordpiece
from tests.unigrams import pieces, write_pieces

VERSION = transformers.__version__


def compare(folder: Path, *, lower_case: bool = False) -> str | None:
    text = tokenizer_json(folder, lower_case=lower_case)
    assert text is not None
    return compare_ids(folder, text, lower_case=lower_case)


def test_matching_ids_are_reported(tmp_path: Path) -> None:
    XLMRobertaConfig().save_pretrained(tmp_path)
    write_pieces(tmp_path, pieces(), mask_token="<mask>")
    told = (
        f"token ids of {len(TEXTS)} texts and 5 special or added tokens are those of transformers "
        f"{VERSION} (XLMRobertaTokenizer)"
    )
    assert compare(tmp_path) == told


@pytest.mark.parametrize(
    "settings", [{"mask_token": "hello"}, {"extra_special_tokens": ["world", "hello"]}]
)
def test_tokens_declared_special_by_a_folder_are_compared(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    """They are words of the vocabulary, which transformers then finds within other words."""
    BertConfig().save_pretrained(tmp_path)
    wordpiece(tmp_path, BERT)
    BertTokenizer.from_pretrained(tmp_path).save_pretrained(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(ValueError, match=r"'(\w+) x\1y \1' has the ids .* save it as it is there"):
        compare(tmp_path)
    AutoTokenizer.from_pretrained(tmp_path).save_pretrained(tmp_path)
    assert "are those of transformers" in str(compare(tmp_path))


@pytest.mark.parametrize("lower_case", [False, True])
def test_lower_casing_by_sentence_transformers_is_not_part_of_the_tokenizer(
    tmp_path: Path, lower_case: bool
) -> None:
    wordpiece(tmp_path, BERT)
    BertConfig().save_pretrained(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert "are those of transformers" in str(compare(tmp_path, lower_case=lower_case))


def test_different_ids_are_refused_with_the_text_and_both_lists(tmp_path: Path) -> None:
    """Their class reads only the pieces of this file, which has another pre-tokenizer."""
    XLMRobertaConfig().save_pretrained(tmp_path)
    write_pieces(
        tmp_path, pieces(pre_tokenizers.Whitespace()), tokenizer_class="XLMRobertaTokenizer"
    )
    with pytest.raises(ValueError, match="PreTrainedTokenizerFast") as caught:
        compare(tmp_path)
    message = str(caught.value)
    assert (
        "'hello world' has the ids [0, 6, 3, 8, 9, 2] by its files, [0, 5, 7, 8, 9, "
        f"2] in transformers {VERSION}; "
    ) in message
    assert "\n" not in message
    write_pieces(
        tmp_path, pieces(pre_tokenizers.Whitespace()), tokenizer_class="PreTrainedTokenizerFast"
    )
    assert "are those of transformers" in str(compare(tmp_path))


def test_long_id_lists_are_shown_from_the_first_difference(tmp_path: Path) -> None:
    XLMRobertaConfig().save_pretrained(tmp_path)
    write_pieces(tmp_path, pieces())
    text = tokenizer_json(tmp_path, lower_case=False)
    assert text is not None
    made = json.loads(text)
    made["added_tokens"].append(
        made["added_tokens"][-1] | {"id": 17, "content": "1,234 numbers", "lstrip": False}
    )
    with pytest.raises(
        ValueError, match=r"has the ids \[\.\.\., (\d+, ){3}17, .*, \.\.\.\] by its files"
    ) as caught:
        compare_ids(tmp_path, json.dumps(made))
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize(
    "own", [["code.Tokenizer", None], {"AutoTokenizer": ["code.Tokenizer", None]}]
)
def test_a_tokenizer_with_custom_code_is_not_compared(tmp_path: Path, own: Any) -> None:
    XLMRobertaConfig().save_pretrained(tmp_path)
    write_pieces(tmp_path, pieces(pre_tokenizers.Whitespace()), auto_map=own)
    told = (
        f"token ids were not compared with transformers {VERSION}: "
        "the tokenizer has code of its own, which is never run"
    )
    assert compare(tmp_path) == told


def test_a_tokenizer_that_transformers_cannot_load_is_not_compared(tmp_path: Path) -> None:
    XLMRobertaConfig().save_pretrained(tmp_path)
    write_pieces(tmp_path, pieces(), added_tokens_decoder={"0": 3})
    assert (
        f"not compared with transformers {VERSION}, which cannot load the tokenizer (TypeError"
        in str(compare(tmp_path))
    )


def test_older_transformers_versions_are_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    XLMRobertaConfig().save_pretrained(tmp_path)
    write_pieces(tmp_path, pieces())
    monkeypatch.setattr(
        "transformers.__version__", "4.57.6"
    )  # by name: importing sentence_transformers makes another module of it
    told = (
        "token ids were not compared with transformers 4.57.6, "
        "which has other tokenizers than version 5"
    )
    assert compare(tmp_path) == told


def test_an_export_compares_ids_and_reports_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_sentences(tmp_path)
    arguments = [str(tmp_path / "model"), "--out", str(tmp_path / "bundle")]
    assert main(arguments) == 0
    assert f"token ids of {len(TEXTS)} texts and " in capsys.readouterr().out
    made = json.loads((tmp_path / "model" / "tokenizer.json").read_text())
    made["post_processor"] = None
    changed = json.dumps(made)
    monkeypatch.setattr(
        "headlight_export.folders.origin.tokenizer_json", lambda _, lower_case: changed
    )
    assert main(arguments) == 2
    assert "in transformers" in capsys.readouterr().err

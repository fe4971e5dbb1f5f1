"""Words of BPE tokenizers that read a text as one word, and texts that are cut between them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from headlight.runtime import Tokenizer
from headlight.runtime.tokenization.input_checks import Truncation
from headlight.runtime.tokenization.tokenizer_probe import USUAL_CHARACTERS, limit_of
from headlight_export.tokenizers.tokenizer_file import tokenizer_json
from tests.tokenizers_of_kinds import gemma_tokenizer

CORPUS = ["hello world of words", "  lower and lowest\nlines", "Straße 今天 12"] * 3
UNITS = [
    "hello ",
    "world",
    " ",
    "    ",
    "\n\n",
    "\t\t",
    "▁",
    "今天",
    "é",
    "🙂",
    "<bos>",
    "<eos",
    "12",
]


def read(folder: Path, tokenizer: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    tokenizer.save(str(folder / "tokenizer.json"))
    text = tokenizer_json(folder, lower_case=False)
    assert text is not None
    return tokenizers.Tokenizer.from_str(text)


@pytest.fixture(scope="module")
def pair(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[tokenizers.Tokenizer, tokenizers.Tokenizer]:
    """Return a tokenizer, and what an export makes of it."""
    whole = gemma_tokenizer(CORPUS)
    return whole, read(tmp_path_factory.mktemp("tokenizer"), whole)


@given(st.lists(st.sampled_from(UNITS), max_size=12).map("".join))
def test_tokens_are_the_same_in_words(
    pair: tuple[tokenizers.Tokenizer, tokenizers.Tokenizer], text: str
) -> None:
    whole, words = (each.encode(text) for each in pair)
    assert (words.ids, words.offsets) == (whole.ids, whole.offsets)


def test_spaces_begin_a_word(pair: tuple[tokenizers.Tokenizer, tokenizers.Tokenizer]) -> None:
    whole, words = (each.encode("hello  world hello", add_special_tokens=False) for each in pair)
    assert set(whole.word_ids) == {0}
    begins = [start for start, _ in words.offsets]
    assert {begins[words.word_ids.index(word)] for word in set(words.word_ids)} == {0, 5, 12}


@pytest.mark.parametrize(
    "change", [{"merges": [["o", "▁"]]}, {"ignore_merges": True}, {"end_of_word_suffix": "w"}]
)
def test_a_tokenizer_whose_tokens_would_change_is_kept(
    tmp_path: Path, change: dict[str, object]
) -> None:
    made = json.loads(gemma_tokenizer(CORPUS).to_str())
    made["model"]["vocab"] |= dict.fromkeys(["o▁"], len(made["model"]["vocab"]))
    made["model"] |= change
    kept = read(tmp_path, tokenizers.Tokenizer.from_str(json.dumps(made)))
    assert len(set(kept.encode("o o", add_special_tokens=False).word_ids)) == 1


@pytest.mark.parametrize("truncation", ["cut_end", "cut_start"])
def test_a_huge_text_is_truncated_by_a_part_of_it(
    pair: tuple[tokenizers.Tokenizer, tokenizers.Tokenizer], truncation: Truncation, tmp_path: Path
) -> None:
    path = tmp_path / "tokenizer.json"
    pair[1].save(str(path))
    tokenizer = Tokenizer(path, 16)
    text = "hello world, 今天 12 " * 20_000
    [found] = tokenizer.encode_each([text], truncation=truncation, most=4096)
    [short] = tokenizer.encode_each(
        [text[:340] if truncation == "cut_end" else text[-340:]], truncation=truncation
    )
    assert found.ids.tolist() == short.ids.tolist()
    assert len(found.ids) == 16


def test_cost_grows_with_the_length(
    pair: tuple[tokenizers.Tokenizer, tokenizers.Tokenizer],
) -> None:
    assert limit_of(pair[1], 16).max_characters == USUAL_CHARACTERS

"""Texts far longer than the model takes: a part is read, and the kept tokens are the same."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from headlight.errors import InvalidInput
from headlight.runtime import Tokenizer
from headlight.runtime.tokenization import tokenizer as tokenizer_module
from headlight.runtime.tokenization.input_checks import Truncation
from headlight.spec import SpecialTokens
from tests.factory import small_tokenizer
from tests.tokenizers_of_kinds import QWEN, of_bytes
from tests.unigrams import pieces

MOST = 9  # tokens
GROUPED = r"\d{1,3}(?=(?:\d{3})*(?!\d))|\s*[\r\n]+|\s+(?!\S)|\s+| ?[^\s\d]+"
UNITS = [
    "hello world, ", "word", " ", "   ", "\n", "\t", "\u4e2d", "\u4eca\u5929\u3002", "1234",
    "e\u0301", "\U0001f600", "\ufb03", "<s>", "[SEP]", "[SE", "don't ", "A.b,c ", ".",
    "\u1100\u1161",
]  # fmt: skip


def whole_text() -> tokenizers.Tokenizer:
    """Return a tokenizer without a pre-tokenizer: each text is one pre-token."""
    tokenizer = pieces()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(split=False)
    return tokenizer


KINDS = {
    "wordpiece": small_tokenizer,
    "unigram": pieces,
    "unigram, split at spaces": lambda: pieces(
        pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    ),
    "one pre-token": whole_text,
    "bytes": lambda: of_bytes(QWEN),
    "numbers grouped from their end": lambda: of_bytes(GROUPED),
}
# Runs of one unit, so that cuts fall into runs of everything.
RUNS = st.tuples(st.sampled_from(UNITS), st.integers(1, 400)).map(lambda run: run[0] * run[1])
TEXTS = st.lists(st.one_of(RUNS, st.sampled_from(UNITS)), min_size=1, max_size=8).map("".join)
INPUTS = st.one_of(TEXTS, st.tuples(TEXTS, TEXTS))


@pytest.fixture(scope="module", params=list(KINDS.values()), ids=list(KINDS))
def tokenizer(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Tokenizer:
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    request.param().save(str(path))
    return Tokenizer(path, MOST, prompts_pairs=True)


def outcome(
    tokenizer: Tokenizer, value: str | tuple[str, str], truncation: Truncation, **named: Any
) -> Any:
    """Return what can be seen of the tokens, or the error."""
    try:
        [found] = tokenizer.encode_each([value], truncation=truncation, with_info=True, **named)
    except InvalidInput as error:
        return str(error)
    assert found.info is not None
    assert found.words is not None
    return (
        found.ids.tolist(),
        dataclasses.astuple(found.info),
        found.words.tolist(),
        found.prompt_length,
        found.original_length > MOST,
    )


@given(
    INPUTS,
    st.sampled_from(["cut_end", "cut_start", "cut_second"]),
    st.sampled_from(["", "q: ", "hello"]),
    st.sampled_from(["parse", "text"]),
)
def test_a_part_of_a_long_text_gives_the_tokens_of_all_of_it(
    tokenizer: Tokenizer,
    value: str | tuple[str, str],
    truncation: Truncation,
    prompt: str,
    special_tokens: SpecialTokens,
) -> None:
    options: dict[str, Any] = {"prompt": prompt, "special_tokens": special_tokens}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer_module, "CHARACTERS_PER_TOKEN", 1 << 40)
        whole = outcome(tokenizer, value, truncation, **options)
        patch.setattr(tokenizer_module, "CHARACTERS_PER_TOKEN", 8)
        part = outcome(tokenizer, value, truncation, **options)
    assert part == whole


@pytest.mark.parametrize("truncation", ["cut_end", "cut_start"])
@pytest.mark.parametrize("unit", ["hello world, ", "\u4e2d\u3002 "])
def test_of_a_huge_text_little_is_read(
    tokenizer: Tokenizer, unit: str, truncation: Truncation, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = list[int]()
    read = tokenizer._read

    def noted(values: Any, *rest: Any, **named: Any) -> Any:
        seen.append(sum(map(len, values)))
        return read(values, *rest, **named)

    monkeypatch.setattr(tokenizer, "_read", noted)
    text, most = unit * 300_000, 4096
    if 'split":false' in tokenizer._plain.to_str().replace(" ", ""):
        with pytest.raises(InvalidInput, match=rf"the (first|last) {most}, which are read"):
            tokenizer.encode(text, truncation=truncation, most=most)
        assert sum(seen) <= 3 * most
    else:
        found = tokenizer.encode(text, truncation=truncation, most=most)
        assert len(found.ids) == MOST
        assert found.original_length > 100 * MOST
        assert sum(seen) < most


@pytest.mark.parametrize("truncation", ["cut_end", "cut_start"])
def test_a_special_token_that_a_part_splits_stays_one(
    truncation: Truncation, tmp_path: Path
) -> None:
    """Its letters alone are pre-tokens, which the model would keep."""
    library = small_tokenizer()
    special = "[" + " ".join("abcdefghijklmnop") + "]"
    library.add_special_tokens([special])
    library.save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer(tmp_path / "tokenizer.json", MOST)
    beside = 8 * MOST - len(special) // 2 - 1  # of the characters read first
    word, rest = "\u2603" * beside, "hello " * 200  # the word is one unknown token
    text = f"{word} {special} {rest}"
    if truncation == "cut_start":
        text = f"{rest} {special} {word}"
    found = tokenizer.encode(text, truncation=truncation, most=8 * len(text), with_info=True)
    assert found.info is not None
    assert special in found.info.pieces

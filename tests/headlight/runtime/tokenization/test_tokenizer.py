from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headlight.errors import BundleError, InvalidInput
from headlight.runtime import Tokenizer
from tests.factory import small_tokenizer


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    small_tokenizer().save(str(path))
    return Tokenizer(path, max_length=8)


def test_special_tokens_are_at_both_ends_with_empty_offsets(
    tokenizer: Tokenizer,
) -> None:
    info = tokenizer.encode("Ab c", with_info=True).info
    assert info is not None
    assert info.pieces == ("[CLS]", "a", "##b", "c", "[SEP]")
    assert info.special == (True, False, False, False, True)
    assert list(zip(info.starts, info.ends, strict=True)) == [
        (0, 0),
        (0, 1),
        (1, 2),
        (3, 4),
        (0, 0),
    ]


@given(st.text(alphabet="aB c\U0001f600éß1,.", min_size=1, max_size=5))
def test_offsets_count_code_points_of_the_text(tokenizer: Tokenizer, text: str) -> None:
    info = tokenizer.encode(text, with_info=True).info
    assert info is not None
    for piece, start, end, special in zip(
        info.pieces, info.starts, info.ends, info.special, strict=True
    ):
        if not special and piece != "[UNK]":
            assert piece.removeprefix("##") == text[start:end].lower()


def test_a_text_beyond_the_limit_is_refused_with_both_numbers(tokenizer: Tokenizer) -> None:
    with pytest.raises(InvalidInput, match="has 12 tokens, the model takes 8"):
        tokenizer.encode("abcdefghij")


def test_an_empty_text_is_its_special_tokens_if_encoded(tokenizer: Tokenizer) -> None:
    encoded = tokenizer.encode("", with_info=True, empty_texts="encode")
    assert encoded.info is not None
    assert encoded.info.pieces == ("[CLS]", "[SEP]")
    with pytest.raises(InvalidInput, match="is empty; give at least one character"):
        tokenizer.encode("")


def test_truncating_a_text_does_not_affect_the_next_one(tokenizer: Tokenizer) -> None:
    tokenizer.encode("abcdefghij", truncation="cut_end")
    with pytest.raises(InvalidInput):
        tokenizer.encode("abcdefghij")


def test_without_the_limit_any_length_is_tokenised(tokenizer: Tokenizer) -> None:
    assert len(tokenizer.encode("a" * 500, limit=False).ids) == 502


def test_an_invalid_tokenizer_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(BundleError, match=r"^tokenizer\.json: is not a tokenizer"):
        Tokenizer(tmp_path / "tokenizer.json", 8)


@pytest.mark.parametrize("max_length", [1, 2])
def test_a_model_with_room_for_special_tokens_only_is_refused(
    bundle_path: Path, max_length: int
) -> None:
    path = bundle_path / "tokenizer.json"
    with pytest.raises(
        BundleError, match=rf"puts 2 special tokens around a text, and the model takes {max_length}"
    ):
        Tokenizer(path, max_length)
    assert len(Tokenizer(path, 3).encode("abc", truncation="cut_end").ids) == 3


@given(
    st.lists(
        st.text(alphabet="aB c\U0001f600éß1,.", min_size=1, max_size=8), min_size=1, max_size=6
    ),
    st.booleans(),
)
def test_batch_tokenization_equals_single_tokenization(
    tokenizer: Tokenizer, texts: list[str], with_info: bool
) -> None:
    for prompt in ("", "b "):
        found = list(
            tokenizer.encode_each(texts, prompt=prompt, truncation="cut_start", with_info=with_info)
        )
        for text, each in zip(texts, found, strict=True):
            alone = tokenizer.encode(
                text, prompt=prompt, truncation="cut_start", with_info=with_info
            )
            for name, value in alone._asdict().items():
                np.testing.assert_equal(getattr(each, name), value, name)


def test_segments_are_not_read_for_models_without_them(tmp_path: Path) -> None:
    small_tokenizer().save(str(tmp_path / "tokenizer.json"))
    without = Tokenizer(tmp_path / "tokenizer.json", max_length=9, segments=False)
    for prompt in ("", "b "):
        tokenized = without.encode("Ab c", prompt=prompt, with_info=True)
        assert tokenized.segments is None
        assert tokenized.info is not None
        assert tokenized.info.segments == (0,) * len(tokenized.ids), "whoever asks is told"


def test_the_tokens_of_a_pairs_prompt_are_in_its_first_text(tmp_path: Path) -> None:
    small_tokenizer().save(str(tmp_path / "tokenizer.json"))
    prompting = Tokenizer(tmp_path / "tokenizer.json", max_length=40, prompts_pairs=True)
    for first, tokens in (("a", 1), (" ", 0)):
        info = prompting.encode(first, "hello world", prompt="hello ", with_info=True).info
        assert info is not None
        assert info.prompt == (False, *[True] * 5, *[False] * (tokens + 1 + 10 + 1))


def test_a_bad_text_in_a_batch_is_refused_in_its_turn(tokenizer: Tokenizer) -> None:
    found = tokenizer.encode_each(["ab", ("a", ""), "c"])
    assert len(next(found).ids) == 4
    with pytest.raises(InvalidInput) as error:
        next(found)
    assert error.value.field == "second"

"""Truncation of long inputs.

Equal to that of the tokenizers library, applied to existing tokens.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import models, pre_tokenizers, processors, trainers

from headlight.errors import InvalidInput
from headlight.results import TokenList
from headlight.runtime import Tokenizer
from headlight.runtime.tokenization import tokenizer as tokenizer_module
from headlight.runtime.tokenization.input_checks import Truncation
from headlight.runtime.tokenization.tokenizer import SHORT_CHARACTERS
from headlight.runtime.values import Tokenized
from tests.factory import small_tokenizer
from tests.unigrams import pieces

WORDS = ["hello world, hello!", "a word or two of it", "éß \U0001f600 1,."]
DIRECTIONS: dict[str, Truncation] = {"right": "cut_end", "left": "cut_start"}
BEGIN, END, PAD = ("<s>", 0), ("</s>", 1), ("<pad>", 2)
LAST = processors.TemplateProcessing(
    single="$A </s>", pair="$A </s> $B:1 </s>:1", special_tokens=[END]
)
SEVERAL = processors.TemplateProcessing(
    single="<s> <pad> $A </s> </s>",
    pair="<s> $B:1 <pad> </s> </s> $A </s>:1",
    special_tokens=[BEGIN, END, PAD],
)


def of_bytes(post_processor: Any, *, prefix: bool = False) -> tokenizers.Tokenizer:
    """Return a tokenizer of GPT-2's kind."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    trainer = trainers.BpeTrainer(
        vocab_size=290,
        special_tokens=[BEGIN[0], END[0], PAD[0]],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(WORDS * 3, trainer)
    if post_processor is not None:
        tokenizer.post_processor = post_processor
    return tokenizer


def roberta(*, prefix: bool) -> tokenizers.Tokenizer:
    return of_bytes(
        processors.RobertaProcessing(END, BEGIN, add_prefix_space=prefix), prefix=prefix
    )


KINDS = {
    "wordpiece": small_tokenizer,
    "unigram": pieces,
    "roberta": lambda: roberta(prefix=False),
    "roberta with a space before": lambda: roberta(prefix=True),
    "bert": lambda: of_bytes(processors.BertProcessing(END, BEGIN)),
    "a last token": lambda: of_bytes(
        processors.Sequence([processors.ByteLevel(trim_offsets=True), LAST])
    ),
    "several special tokens": lambda: of_bytes(SEVERAL),
    "no special token": lambda: of_bytes(processors.ByteLevel(trim_offsets=False)),
    "nothing behind the model": lambda: of_bytes(None),
}
TEXTS = st.text(alphabet="aB c\U0001f600éß1,.helo wrd\tW", min_size=1, max_size=30)
INPUTS = st.one_of(TEXTS, st.tuples(TEXTS, TEXTS))


def texts(encoding: tokenizers.Encoding) -> list[int | None]:
    """Return the text index of each token of a pair; None for special tokens."""
    pairs = zip(encoding.sequence_ids, encoding.special_tokens_mask, strict=True)
    return [None if special else text or 0 for text, special in pairs]


def places(info: TokenList) -> list[tuple[int, int]]:
    return list(zip(info.starts, info.ends, strict=True))


class Both(NamedTuple):
    """Headlight's and the library's tokenizer, of one kind."""

    ours: dict[int, Tokenizer]  # by the number of tokens kept
    library: tokenizers.Tokenizer

    def library_truncated(
        self, value: str | tuple[str, str], most: int, direction: str
    ) -> tokenizers.Encoding:
        """Return the tokens that the library keeps."""
        self.library.enable_truncation(most, direction=direction)
        try:
            return self.whole(value)
        finally:
            self.library.no_truncation()

    def whole(self, value: str | tuple[str, str]) -> tokenizers.Encoding:
        return self.library.encode(*((value,) if isinstance(value, str) else value))

    def ours_of(
        self, value: str | tuple[str, str], most: int, direction: str, *, with_info: bool = True
    ) -> Tokenized:
        [found] = self.ours[most].encode_each(
            [value], truncation=DIRECTIONS[direction], with_info=with_info
        )
        return found


@pytest.fixture(scope="module", params=list(KINDS.values()), ids=list(KINDS))
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Both:
    library = request.param()
    library.no_padding()
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    library.save(str(path))
    return Both({most: Tokenizer(path, most) for most in range(6, 16)}, library)


def words_of(encoding: tokenizers.Encoding) -> list[int]:
    """Return a number for each word, rising by 1; every special token has its own."""
    words = list[int]()
    last = None
    for at, (text, word) in enumerate(zip(encoding.sequence_ids, encoding.word_ids, strict=True)):
        here = (at,) if encoding.special_tokens_mask[at] or word is None else (text, word)
        words.append(words[-1] + (here != last) if words else 0)
        last = here
    return words


@given(INPUTS, st.integers(6, 15), st.sampled_from(sorted(DIRECTIONS)))
def test_truncation_matches_the_library(
    both: Both, value: str | tuple[str, str], most: int, way: str
) -> None:
    found, left = both.ours_of(value, most, way), both.library_truncated(value, most, way)
    assert found.original_length == len(both.whole(value))
    assert found.ids.tolist() == left.ids
    assert found.segments is not None
    assert found.segments.tolist() == left.type_ids
    assert found.words is not None
    assert found.words.tolist() == words_of(left)
    info = found.info
    assert info is not None
    assert info.pieces == tuple(left.tokens)
    assert info.special == tuple(map(bool, left.special_tokens_mask))
    assert info.ids == tuple(left.ids)
    before = 0
    for segment, text in zip(info.segments, left.sequence_ids, strict=True):
        assert segment == (before if text is None else text), (
            "not the token type: RoBERTa has one for both texts"
        )
        before = segment
    if way == "right":
        assert places(info) == [
            (0, 0) if own is None else at for own, at in zip(texts(left), left.offsets, strict=True)
        ]
    bare = both.ours_of(value, most, way, with_info=False)
    np.testing.assert_array_equal(bare.ids, found.ids)


@given(INPUTS, st.integers(6, 15), st.sampled_from(sorted(DIRECTIONS)))
def test_truncation_does_not_move_token_offsets(
    both: Both, value: str | tuple[str, str], most: int, way: str
) -> None:
    """The library assigns the space before the first kept token to it,
    if it puts one before each text.
    """
    cut, whole = both.ours_of(value, most, way).info, both.whole(value)
    assert cut is not None
    for text in (0, 1):
        of_cut = [
            at
            for own, at in zip(
                texts(both.library_truncated(value, most, way)), places(cut), strict=True
            )
            if own == text
        ]
        of_whole = [at for own, at in zip(texts(whole), whole.offsets, strict=True) if own == text]
        left = len(of_cut)
        assert of_cut == (of_whole[:left] if way == "right" else of_whole[len(of_whole) - left :])


class Watched:
    """Tokenizer of the library that records its calls."""

    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.asked = list[str]()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("encode"):
            self.asked.append(name)
        return getattr(self._tokenizer, name)


@pytest.mark.parametrize("with_info", [False, True])
@pytest.mark.parametrize(
    "long", ["a b " * SHORT_CHARACTERS, ("a b " * SHORT_CHARACTERS, "c")], ids=["text", "pair"]
)
def test_truncation_tokenises_once_and_releases_the_gil(
    bundle_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    long: str | tuple[str, str],
    with_info: bool,
) -> None:
    made = list[Watched]()

    def load(content: bytes) -> Watched:
        made.append(Watched(tokenizers.Tokenizer.from_buffer(content)))
        return made[-1]

    library = SimpleNamespace(Tokenizer=SimpleNamespace(from_buffer=load))
    monkeypatch.setattr(tokenizer_module, "tokenizers", library)
    tokenizer = Tokenizer(bundle_path / "tokenizer.json", 40)
    [found] = tokenizer.encode_each([long], truncation="cut_end", with_info=with_info)
    assert len(found.ids) == 40
    assert [each.asked for each in made] == [["encode_batch" if with_info else "encode_batch_fast"]]


@pytest.mark.parametrize("most", [3, 4])
def test_a_pair_truncated_to_nothing_is_refused(tmp_path: Path, most: int) -> None:
    path = tmp_path / "tokenizer.json"
    pieces().save(str(path))
    tokenizer = Tokenizer(path, most)
    with pytest.raises(
        InvalidInput,
        match=f"its special tokens are 4 tokens, the model takes {most}; give one text",
    ):
        tokenizer.encode("hello", "world", truncation="cut_end")
    assert len(Tokenizer(path, 5).encode("hello", "world", truncation="cut_end").ids) == 5

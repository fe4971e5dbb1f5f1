"""The tokenizer probe.

With a simulated clock that texts advance, and with real tokenizers that are slow on some texts.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers

from headlight.errors import InvalidInput
from headlight.runtime.tokenization import tokenizer_probe
from headlight.runtime.tokenization.token_kinds import Spelled, as_plain_text
from headlight.runtime.tokenization.tokenizer import Tokenizer
from headlight.runtime.tokenization.tokenizer_probe import (
    UNITS,
    USUAL_CHARACTERS,
    limit_of,
    probe,
    text_of,
)

SLOW_ON_TABS = r"\t(?!\s*x)"  # by the square of their number
PanicException = type("PanicException", (BaseException,), {})


class Reader:
    """Simulated tokenizer whose reads advance its clock by a price."""

    def __init__(self, price: Callable[[str, int], float]) -> None:
        """Set `price`: seconds for the first two characters of a text and its length."""
        self.now = 0.0
        self.longest = 0
        self._price = price

    def read(self, text: str) -> None:
        self.longest = max(self.longest, len(text))
        self.now += self._price(text[:2], len(text))

    def clock(self) -> float:
        return self.now


def split_by(pattern: str) -> tokenizers.Tokenizer:
    """Return a tokenizer with one token per word, split by `pattern` first."""
    tokenizer = tokenizers.Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Replace(tokenizers.Regex(pattern), " ")
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


def test_texts_of_every_kind_have_their_full_length() -> None:
    for kind in UNITS:
        assert [len(text_of(kind, size)) for size in (16, 64, 8192)] == [16, 64, 8192]


@pytest.mark.parametrize("speed", [0.01, 1.0, 100.0])
@pytest.mark.parametrize(
    ("price", "found"),
    [
        (lambda size: 1e-6 * size, (USUAL_CHARACTERS, "none")),
        (lambda size: 1e-7 * size * math.log2(size), (USUAL_CHARACTERS, "none")),
        (lambda size: 1e-9 * size**2, (8192, "tabs")),
        (lambda size: 1e-9 * size**3, (256, "tabs")),
        (lambda size: 1e-9 * size**4, (64, "tabs")),
    ],
)
def test_the_growth_of_the_cost_sets_the_limit_on_any_machine(
    speed: float, price: Callable[[int], float], found: tuple[int, str]
) -> None:
    reader = Reader(lambda first, size: (price(size) if first == "\t\t" else 1e-6 * size) / speed)
    assert probe(reader.read, clock=reader.clock) == found


def test_noise_changes_nothing() -> None:
    """As with a cold cache: every other reading costs twenty times as much."""
    turns = itertools.count()
    reader = Reader(lambda _, size: 2e-6 * size * (20 if next(turns) % 2 == 0 else 1))
    assert probe(reader.read, clock=reader.clock) == (USUAL_CHARACTERS, "none")


def test_lengths_that_make_the_library_panic_are_beyond_the_limit() -> None:
    def read(text: str) -> None:
        if text[0] == " " and len(text) > 100:
            raise PanicException

    assert probe(read, clock=lambda: 0.0) == (64, "spaces")


def test_refused_texts_are_measured_and_interrupts_are_raised() -> None:
    reader = Reader(lambda _, size: 1e-8 * size**2)

    def refuse(text: str) -> None:
        reader.read(text)
        raise ValueError("no such piece")

    assert probe(refuse, clock=reader.clock).characters == 8192
    with pytest.raises(KeyboardInterrupt):
        probe(lambda _: (_ for _ in ()).throw(KeyboardInterrupt))


def word_pieces() -> tokenizers.Tokenizer:
    """Return a tokenizer for which each text is one word, of which it tries every part."""
    pieces = {"[UNK]": 0, "a": 1, "##a": 2}
    return tokenizers.Tokenizer(
        models.WordPiece(pieces, unk_token="[UNK]", max_input_chars_per_word=10**6)
    )


@pytest.mark.parametrize(
    ("tokenizer", "characters", "worst"),
    [
        (lambda: split_by("x"), USUAL_CHARACTERS, {"none"}),
        (lambda: split_by(SLOW_ON_TABS), 8192, {"tabs"}),
        (lambda: split_by("(a+)+b"), 16, {"one long word"}),
        (word_pieces, 8192, set(UNITS)),  # all grow alike
    ],
)
def test_real_tokenizers_are_limited_by_their_slowest_kind_of_text(
    tokenizer: Callable[[], tokenizers.Tokenizer], characters: int, worst: set[str]
) -> None:
    limit = limit_of(tokenizer(), 512)
    assert limit.max_characters == characters
    assert limit.worst in worst


@pytest.mark.parametrize(("length", "characters"), [(8192, 65_536), (32_768, 262_144)])
def test_a_model_of_long_texts_gets_a_limit_that_holds_them(length: int, characters: int) -> None:
    assert limit_of(split_by("x"), length, lambda: 0.0).max_characters == characters


@pytest.mark.parametrize("around", [0, 1000])
def test_a_text_that_makes_the_library_panic_is_refused_by_name(
    tmp_path: Path, around: int
) -> None:
    """A panic is no Exception: without this the caller would wait until its deadline."""
    split_by("(a+)+b").save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer(tmp_path / "tokenizer.json", 2000)
    good, bad = "x " * (around + 1), "a" * 64
    with pytest.raises(
        InvalidInput, match="more than the tokenizer's patterns can read; shorten it"
    ):
        tokenizer.encode(bad + " " * around)
    results = tokenizer.encode_each([good, good, bad, good])
    assert [len(next(results).ids) for _ in range(2)] == [around + 1] * 2
    with pytest.raises(InvalidInput):
        next(results)


@pytest.mark.parametrize("common", ["<extra_", "<"])
def test_the_cost_of_special_tokens_as_text_does_not_grow_with_their_number(common: str) -> None:
    """With 1,000 that begin alike, 32,000 candidate characters cost 0.4 s before."""

    def cost(tokens: int) -> float:
        special = [f"{common}{at}>" for at in range(tokens)]
        tokenizer = tokenizers.Tokenizer(
            models.Unigram([(piece, -1.0) for piece in ("a", "<", *special)], unk_id=0)
        )
        tokenizer.add_special_tokens(special)
        plain = as_plain_text(tokenizer, Spelled(tokenizer).spellings)
        found = []
        for _ in range(3):
            began = time.thread_time()
            plain.encode("<" * 32_000)
            found.append(time.thread_time() - began)
        return min(found)

    assert cost(1000) < 4 * cost(2)


def test_near_spellings_of_special_tokens_are_tried_in_both_readings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokenizer = split_by("x")
    tokenizer.add_special_tokens(["<s>", "[MASK]"])
    seen: list[tuple[object, set[str]]] = []

    def noted(
        read: Callable[[str], object],
        usual: int,
        clock: Callable[[], float],
        units: Mapping[str, str],
    ) -> object:
        # A bound method of the library.
        plain = getattr(read, "__self__").encode_special_tokens  # noqa: B009
        seen.append((plain, set(units.values())))
        return tokenizer_probe.Probed(2048 if plain else 4096, "tabs")

    monkeypatch.setattr(tokenizer_probe, "probe", noted)
    assert limit_of(tokenizer, 16).max_characters == 2048
    assert [plain for plain, _ in seen] == [False, True]
    for _, units in seen:
        assert units == {*UNITS.values(), "<[", "[MASK"}

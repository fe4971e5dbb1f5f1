"""The tokenizer probe.

With a simulated clock that texts advance, and with real tokenizers that are slow on some texts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers

from headlight.errors import BundleError, InvalidInput
from headlight.runtime.tokenization import tokenizer_probe
from headlight.runtime.tokenization.token_kinds import Spelled, as_plain_text
from headlight.runtime.tokenization.tokenizer import Tokenizer
from headlight.runtime.tokenization.tokenizer_probe import (
    CHARACTERS_PER_TOKEN,
    LIMIT_SECONDS,
    MOST_CHARACTERS,
    STEP_SECONDS,
    UNITS,
    limit_of,
    probe,
    text_of,
)

# Some 0.2 s for 10,000 tabs: only a machine a thousand times as fast could read 400,000 of
# them in that time.
SLOW_ON_TABS = r"\t(?!\s*x)"
LONG = 100_000  # tokens
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


@pytest.mark.parametrize(
    "named",
    ["\n", " ", "\t", "\r\n", "\u0301", "a", ".", "\U0001f469\u200d", UNITS["a mixture"][:9]],
)
def test_known_slow_texts_are_tried_at_full_length(named: str) -> None:
    assert any(unit.startswith(named) for unit in UNITS.values())
    for kind in UNITS:
        assert [len(text_of(kind, size)) for size in (16, 64, 8192)] == [16, 64, 8192]


def test_the_limit_of_a_linear_tokenizer_is_its_length_at_the_cost_limit() -> None:
    reader = Reader(lambda _, size: 2e-6 * size)
    found = probe(reader.read, clock=reader.clock)
    assert found.characters == pytest.approx(LIMIT_SECONDS / 2e-6, rel=1e-3)
    assert reader.longest * 2e-6 < 2 * STEP_SECONDS, (
        "no text costs much more than is needed to tell"
    )


@pytest.mark.parametrize(("power", "unit"), [(2, 1e-9), (3, 1e-12)])
def test_the_text_kind_with_the_highest_growth_sets_the_limit(power: int, unit: float) -> None:
    reader = Reader(lambda first, size: unit * size**power if first == "\t\t" else 1e-7 * size)
    found = probe(reader.read, clock=reader.clock)
    assert found.worst == "tabs"
    assert found.characters == pytest.approx((LIMIT_SECONDS / unit) ** (1 / power), rel=0.01)


def test_growth_of_a_kind_other_than_the_slowest_counts() -> None:
    """Punctuation costs more at the last length tried; line breaks cost more soon after."""
    reader = Reader(
        lambda first, size: (
            7e-17 * size**3 if first == "\n\n" else 1e-6 * size if first == ".," else 0.0
        )
    )
    found = probe(reader.read, clock=reader.clock)
    assert found.worst == "line breaks"
    assert found.characters == pytest.approx((LIMIT_SECONDS / 7e-17) ** (1 / 3), rel=0.01)


def test_one_slow_measurement_changes_nothing() -> None:
    """As with a cold cache: it costs twenty times as much, every other time."""
    turns = iter(range(10**9))
    reader = Reader(lambda _, size: 2e-6 * size * (20 if next(turns) % 2 == 0 else 1))
    assert probe(reader.read, clock=reader.clock).characters == pytest.approx(
        LIMIT_SECONDS / 2e-6, rel=1e-3
    )


def test_a_tokenizer_of_no_cost_is_limited() -> None:
    reader = Reader(lambda _, size: 0.0)
    assert probe(reader.read, clock=reader.clock).characters == MOST_CHARACTERS
    assert probe(reader.read, 5000, reader.clock).characters == 5000
    assert probe(reader.read, 10, reader.clock).characters == 10


def test_lengths_that_make_the_library_panic_are_beyond_the_limit() -> None:
    def read(text: str) -> None:
        if text[0] == " " and len(text) > 100:
            raise PanicException

    found = probe(read, clock=lambda: 0.0)
    assert (found.worst, found.characters) == ("spaces", 64)


def test_refused_texts_are_measured_and_interrupts_are_raised() -> None:
    reader = Reader(lambda _, size: 2e-6 * size)

    def refuse(text: str) -> None:
        reader.read(text)
        raise ValueError("no such piece")

    assert probe(refuse, clock=reader.clock).characters == pytest.approx(
        LIMIT_SECONDS / 2e-6, rel=1e-3
    )
    with pytest.raises(KeyboardInterrupt):
        probe(lambda _: (_ for _ in ()).throw(KeyboardInterrupt))


def test_a_slow_pattern_is_named_with_the_limit_and_the_remedy() -> None:
    with pytest.raises(BundleError) as caught:
        limit_of(split_by(SLOW_ON_TABS), "tokenizer.json", LONG)
    message = str(caught.value)
    assert caught.value.file == "tokenizer.json"
    assert repr(SLOW_ON_TABS) in message
    assert "(tabs)" in message
    assert f"{CHARACTERS_PER_TOKEN * LONG} characters" in message
    assert "export with --max-length " in message
    assert "\n" not in message


def test_a_pattern_that_makes_the_library_give_up_is_named() -> None:
    with pytest.raises(
        BundleError, match=r"cannot read .* characters of one kind .* the pattern '\(a\+\)\+b'"
    ):
        limit_of(split_by("(a+)+b"), "tokenizer.json", 16)


def test_a_slow_tokenizer_model_is_named_if_no_pattern_is_slow() -> None:
    pieces = {"[UNK]": 0, "a": 1, "##a": 2}
    tokenizer = tokenizers.Tokenizer(
        models.WordPiece(pieces, unk_token="[UNK]", max_input_chars_per_word=10**6)
    )
    with pytest.raises(BundleError, match=r"\(one long word\), through its WordPiece model"):
        limit_of(tokenizer, "tokenizer.json", LONG)


def test_a_slow_tokenizer_of_a_short_model_gets_a_limit_that_bounds_its_cost(
    tmp_path: Path,
) -> None:
    split_by(SLOW_ON_TABS).save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer(tmp_path / "tokenizer.json", 16)
    limit = tokenizer.measure(MOST_CHARACTERS)
    assert limit.worst == "tabs"
    assert limit.max_characters >= CHARACTERS_PER_TOKEN * 16
    assert limit.max_characters.bit_count() == 1
    began = time.thread_time()
    tokenizer.encode("a" + text_of("tabs", limit.max_characters - 1), limit=False)
    assert time.thread_time() - began < 5 * LIMIT_SECONDS


def test_the_limit_is_a_power_of_two_or_the_need_of_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokenizer = split_by("x")

    def measured(read: object, most: int, *_: object) -> tokenizer_probe.Probed:
        reader = Reader(lambda _, size: 2e-6 * size)  # 100,000 characters
        return probe(reader.read, most, reader.clock)

    monkeypatch.setattr(tokenizer_probe, "probe", measured)
    limits = [limit_of(tokenizer, "tokenizer.json", length) for length in (2048, 20_000)]
    assert [limit.max_characters for limit in limits] == [65_536, 80_000]
    assert {limit.worst_ms_per_1000_characters for limit in limits} == {2.0}
    with pytest.raises(BundleError, match="--max-length 25000"):
        limit_of(tokenizer, "tokenizer.json", 30_000)


@pytest.mark.parametrize("length", [8, 2048])
def test_the_formerly_shipped_pattern_is_refused_on_any_machine(length: int) -> None:
    def clock() -> float:
        raise AssertionError("nothing is measured")

    with pytest.raises(BundleError) as caught:
        limit_of(split_by(r"\n(?!\s*\n)"), "tokenizer.json", length, clock=clock)
    assert repr(r"\n(?!\s*\n)") in str(caught.value)
    assert repr(r"\n(?![^\S\n]*\n)") in str(caught.value)
    assert "export again" in str(caught.value)


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
        most: int,
        clock: Callable[[], float],
        units: Mapping[str, str],
    ) -> object:
        # A bound method of the library.
        plain = getattr(read, "__self__").encode_special_tokens  # noqa: B009
        seen.append((plain, set(units.values())))
        worst = "a special token without its end"
        return tokenizer_probe.Probed(3000 if plain else 5000, worst, 16, 0.1)

    monkeypatch.setattr(tokenizer_probe, "probe", noted)
    assert limit_of(tokenizer, "tokenizer.json", 16).max_characters == 2048
    assert [plain for plain, _ in seen] == [False, True]
    for _, units in seen:
        assert units == {*UNITS.values(), "<[", "[MASK"}

"""Probe of a tokenizer: the longest text of any content that it reads at a bounded cost.

A regular expression in a tokenizer.json can be quadratic or worse on unusual texts. A thread that
runs one cannot be interrupted. Cost is CPU time of the calling thread, so that other processes do
not change it.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import tokenizers
from tokenizers import normalizers

from headlight.errors import BundleError
from headlight.runtime.bundle.manifest import TokenizerLimit
from headlight.runtime.tokenization.token_kinds import Spelled, as_plain_text

MOST_CHARACTERS = 1 << 20  # the longest text probed, unless a model needs longer ones
LIMIT_SECONDS = 0.2  # of one core, for one text: the longest that a shutdown waits for its thread
STEP_SECONDS = 0.05  # lengths are doubled up to it: above the noise, and all probes end in 1 to 2 s
CHARACTERS_PER_TOKEN = 4  # of usual text: sets the characters that a model's longest text needs
REPEATS = 2  # the best counts: noise only adds
FIRST_CHARACTERS = 16
_BASE = {
    "line breaks": "\n",
    "spaces": " ",
    "tabs": "\t",
    "line breaks of Windows": "\r\n",
    "blank lines with spaces": "\n  ",
    "combining marks": "\u0301\u0323",
    "one long word": "a",
    "one long number": "1",
    "ideographs": "\u4e2d",
    "punctuation": ".,;!",
    "one punctuation mark": "-",
    "emoji sequences": (
        "\U0001f469\u200d\U0001f469\u200d\U0001f467\U0001f1e9\U0001f1ea\U0001f44d\U0001f3fd"
    ),
}
# Kinds of text by name: each is repeated up to the length tried.
UNITS: Mapping[str, str] = {
    **_BASE,
    "a mixture": "".join(random.Random(0).choices("".join(_BASE.values()), k=997)),
}
# A pattern of this project's models from before the probe, and a fast one that gives the same ids.
# It is recognised by its text, as its probe result depends on the machine: 0.2 s for 8,000 line
# breaks.
QUADRATIC, MENDED = r"\n(?!\s*\n)", r"\n(?![^\S\n]*\n)"
Clock = Callable[[], float]


class Probed(NamedTuple):
    """The result of a probe.

    Attributes:
        characters: length up to which a text of any kind costs at most LIMIT_SECONDS.
        worst: the kind that costs most, by its name in the units.
        tried: characters of the longest texts tried.
        seconds: cost of the worst text; infinite if the library gave up on it.
    """

    characters: int
    worst: str
    tried: int
    seconds: float


def limit_of(
    tokenizer: tokenizers.Tokenizer,
    file: str,
    max_length: int,
    most: int = MOST_CHARACTERS,
    clock: Clock = time.thread_time,
) -> TokenizerLimit:
    """Measure a tokenizer, both parsing special tokens in texts and reading them as plain text.

    Args:
        tokenizer: the tokenizer, without truncation.
        file: name of its file, for errors.
        max_length: tokens of the model's longest text.
        most: characters beyond which no limit is needed.
        clock: seconds of CPU time of the calling thread.

    Returns:
        The limit, a power of two or the need of `max_length`, so that noise seldom changes it.

    Raises:
        BundleError: a text of the model's length may cost more than LIMIT_SECONDS; the message
            names the pattern.
    """
    if QUADRATIC in _patterns(tokenizer):
        raise BundleError(
            (
                f"has the pattern {QUADRATIC!r}, whose cost grows with the square of a run of "
                f"line breaks; put {MENDED!r} in its place in the checkpoint and export again"
            ),
            file,
        )
    needed = CHARACTERS_PER_TOKEN * max_length
    spellings = Spelled(tokenizer).spellings
    units = units_for(spellings.values())
    readers = (tokenizer, as_plain_text(tokenizer, spellings))
    probes = [(probe(reader.encode, max(most, needed), clock, units), reader) for reader in readers]
    found, slower = min(probes, key=lambda each: each[0].characters)
    if found.characters < needed:
        raise BundleError(_refusal(slower, found, needed, clock, units), file)
    cost = 0.0 if math.isinf(found.seconds) else 1e6 * found.seconds / found.tried
    return TokenizerLimit(
        max_characters=max(needed, 1 << (found.characters.bit_length() - 1)),
        worst=found.worst,
        worst_ms_per_1000_characters=float(f"{cost:.2g}"),
    )


def units_for(spellings: Collection[str]) -> Mapping[str, str]:
    """Return UNITS, and kinds of text that almost spell out special tokens."""
    longer = [text for text in spellings if len(text) > 1]
    if not longer:
        return UNITS
    return {
        **UNITS,
        "beginnings of special tokens": "".join(dict.fromkeys(text[0] for text in longer)),
        "a special token without its end": max(longer, key=len)[:-1],
    }


def probe(
    read: Callable[[str], object],
    most: int = MOST_CHARACTERS,
    clock: Clock = time.thread_time,
    units: Mapping[str, str] = UNITS,
) -> Probed:
    """Read texts of every kind, doubled until one costs STEP_SECONDS; then extrapolate by growth.

    Args:
        read: the function to measure.
        most: characters at which to stop.
        clock: see `limit_of`.
        units: the repeated text of each kind, by the kind's name.
    """
    size, before = FIRST_CHARACTERS, dict.fromkeys(units, 0.0)
    while True:
        size = min(size, most)
        costs = {kind: _cost(read, text_of(kind, size, units), clock) for kind in units}
        if max(costs.values()) >= STEP_SECONDS or size == most:
            break
        size, before = 2 * size, costs
    affordable = {kind: _affordable(size, costs[kind], before[kind]) for kind in units}
    worst = min(affordable, key=lambda kind: (affordable[kind], -costs[kind]))
    return Probed(round(min(most, affordable[worst])), worst, size, costs[worst])


def text_of(kind: str, characters: int, units: Mapping[str, str] = UNITS) -> str:
    """Return a text of one kind, of so many characters."""
    unit = units[kind]
    return (unit * (characters // len(unit) + 1))[:characters]


def _cost(read: Callable[[str], object], text: str, clock: Clock) -> float:
    """Return the seconds that a text costs, or infinity if the library gives up on it."""
    seconds = math.inf
    for _ in range(REPEATS):
        began = clock()
        try:
            read(text)
        except Exception:  # the text is refused; that has its cost, too
            pass
        except BaseException as error:
            if not is_panic(error):
                raise
            return math.inf
        seconds = min(seconds, clock() - began)
    return seconds


def is_panic(error: BaseException) -> bool:
    """Return whether an error is a panic of the library, as at Oniguruma's backtracking limit."""
    return type(error).__name__ == "PanicException"  # cannot be imported, and is not an Exception


def _affordable(size: int, seconds: float, half: float) -> float:
    """Return the characters for LIMIT_SECONDS, if `size` cost `seconds` and half of them `half`."""
    if math.isinf(seconds):
        return size / 2
    if seconds <= 0:
        return math.inf
    growth = max(1.0, math.log2(seconds / half)) if half > 0 else 1.0  # 1: linear, 2: quadratic
    return size * math.pow(LIMIT_SECONDS / seconds, 1 / growth)


def _refusal(
    tokenizer: tokenizers.Tokenizer,
    found: Probed,
    needed: int,
    clock: Clock,
    units: Mapping[str, str],
) -> str:
    """Return the error message for a tokenizer that is too slow."""
    cost = (
        "cannot read"
        if math.isinf(found.seconds)
        else f"needs {found.seconds:.2g} s of CPU time for"
    )
    what = (
        f"{cost} {found.tried} characters of one kind ({found.worst}), "
        f"through {_blamed(tokenizer, found, clock, units)}"
    )
    rule = (
        f"a text of {needed} characters, {CHARACTERS_PER_TOKEN} for each token of the model, "
        f"may cost {LIMIT_SECONDS} s"
    )
    fits = found.characters // CHARACTERS_PER_TOKEN
    remedy = "mend it in the checkpoint and export again" + (
        f", or export with --max-length {fits}" if fits else ""
    )
    return f"{what}; {rule}; {remedy}"


def _blamed(
    tokenizer: tokenizers.Tokenizer, found: Probed, clock: Clock, units: Mapping[str, str]
) -> str:
    """Return the part of a tokenizer that costs most on the worst text."""
    text = text_of(found.worst, found.tried, units)
    costs = {
        pattern: _cost(
            normalizers.Replace(tokenizers.Regex(pattern), "").normalize_str, text, clock
        )
        for pattern in _patterns(tokenizer)
    }
    slowest = max(costs, key=costs.__getitem__, default="")
    if slowest and costs[slowest] >= found.seconds / 2:
        return f"the pattern {slowest!r:.200}"
    return f"its {type(tokenizer.model).__name__} model"


def _patterns(tokenizer: tokenizers.Tokenizer) -> list[str]:
    """Return the regular expressions of a tokenizer."""
    found = list[Any]()

    def see(described: dict[str, Any]) -> None:
        found.append(described.get("Regex"))

    json.loads(tokenizer.to_str(), object_hook=see)
    return [pattern for pattern in found if isinstance(pattern, str)]

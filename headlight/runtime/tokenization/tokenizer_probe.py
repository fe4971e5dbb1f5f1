"""Probe of a tokenizer: the longest text of any content that it reads at a bounded cost.

A regular expression in a tokenizer.json can be quadratic or worse on unusual texts. A thread that
runs one cannot be interrupted. Only the growth of the cost counts, not the cost: a text four times
as long costs 4 times as much, 16 times or 64 times, on a fast machine as on a slow one. Cost is CPU
time of the calling thread, so that other processes do not change it.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import tokenizers

from headlight.runtime.bundle.manifest import TokenizerLimit
from headlight.runtime.tokenization.token_kinds import Spelled, as_plain_text

# For a tokenizer whose cost is proportional to the text, some 0.2 s of one core.
USUAL_CHARACTERS = 1 << 16
CHARACTERS_PER_TOKEN = 8  # twice that of usual text: a model's longest text may have more
# Where cost grows faster, a text may take 2^26 steps: 8,192 characters by the square of the length,
# 256 by its cube.
STEPS_BITS = 26
SIZES = (16, 64, 256, 1024, 4096, 16384)  # characters of the texts tried
STEP_SECONDS = 0.02  # no longer text is tried after it: that may take 64 times as long
SLOW_SECONDS = 1e-3  # of the longest text tried; less is noise
REPEATS = 2  # the best counts: noise only adds
NO_KIND = "none"  # the cost of each is proportional to its length
CONFIRMATIONS = 3  # measurements of a growth that lowers the limit; the least counts
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
Clock = Callable[[], float]


class Probed(NamedTuple):
    """The result of a probe.

    Attributes:
        characters: length up to which a text of any kind may be read.
        worst: the kind whose cost grows fastest, by its name in the units, or NO_KIND.
    """

    characters: int
    worst: str


def limit_of(
    tokenizer: tokenizers.Tokenizer, max_length: int, clock: Clock = time.thread_time
) -> TokenizerLimit:
    """Return a tokenizer's limit, for special tokens in texts parsed and read as plain text.

    Args:
        tokenizer: the tokenizer, without truncation.
        max_length: tokens of the model's longest text.
        clock: seconds of CPU time of the calling thread.
    """
    usual = max(USUAL_CHARACTERS, 1 << (CHARACTERS_PER_TOKEN * max_length - 1).bit_length())
    spellings = Spelled(tokenizer).spellings
    units = units_for(spellings.values())
    readers = (tokenizer, as_plain_text(tokenizer, spellings))
    probed = min(probe(reader.encode, usual, clock, units) for reader in readers)
    return TokenizerLimit(max_characters=probed.characters, worst=probed.worst)


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
    usual: int = USUAL_CHARACTERS,
    clock: Clock = time.thread_time,
    units: Mapping[str, str] = UNITS,
) -> Probed:
    """Return the limit by how the cost of each kind of text grows with its length.

    Args:
        read: the function to measure.
        usual: the limit if all costs are proportional to the length.
        clock: see `limit_of`.
        units: the repeated text of each kind, by the kind's name.
    """
    allowed = {kind: _allowed(read, kind, usual, clock, units) for kind in units}
    worst = min(allowed, key=lambda kind: allowed[kind])
    return Probed(allowed[worst], worst if allowed[worst] < usual else NO_KIND)


def _allowed(
    read: Callable[[str], object], kind: str, usual: int, clock: Clock, units: Mapping[str, str]
) -> int:
    """Return the most characters of one kind of text."""

    def cost(size: int) -> float:
        return _cost(read, text_of(kind, size, units), clock)

    before = 0.0
    for size in SIZES:
        seconds = cost(size)
        if math.isinf(seconds):
            return min(usual, size // 4)
        if seconds >= STEP_SECONDS or size == SIZES[-1]:
            break
        before = seconds
    if seconds < SLOW_SECONDS or size == SIZES[0]:
        return usual if seconds < STEP_SECONDS else size
    growth = _growth(before, seconds)
    for _ in range(CONFIRMATIONS - 1):
        if growth == 1:
            break
        growth = min(growth, _growth(cost(size // 4), cost(size)))
    return usual if growth == 1 else min(usual, 1 << STEPS_BITS // growth)


def _growth(quarter: float, seconds: float) -> int:
    """Return the power of the length that costs grow by: 1, 2 for the square, and so on."""
    return max(1, round(math.log(seconds / quarter, 4))) if quarter > 0 else 1


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

"""Workloads of every contestant, their texts, and their measured results.

Texts are docstrings of Python's own library.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headlight.runtime import Tokenizer
from headlight_export.precision.sample_texts import docstrings

COUNT = 1000
LONGEST = 256  # tokens
SPARE = 1 << 20  # far more than there are: all of them


def write_texts(path: Path, tokenizer: Path, count: int) -> None:
    """Choose the texts, count their tokens, and write both.

    A file with as many texts is kept, because reading the library takes long.
    """
    if path.is_file() and len(json.loads(path.read_text(encoding="utf-8"))["texts"]) == count:
        return
    # No limit: a token has at least one character, so counting cuts nothing.
    reader = Tokenizer(tokenizer, 1 << 20)

    def tokens(text: str) -> int:
        return len(reader.encode(text, with_info=False).ids)

    # A text too long for the model is replaced by its first paragraph: a cut text would be
    # unnatural.
    whole = (
        text if tokens(text) <= LONGEST else text.split("\n\n")[0] for text in docstrings(SPARE)
    )
    # Some servers strip their input, and would compute something else.
    usable = [
        text for text in dict.fromkeys(text.strip() for text in whole) if tokens(text) <= LONGEST
    ]
    if len(usable) < count:
        raise SystemExit(
            f"the library of this Python has {len(usable)} docstrings that fit; {count} are needed"
        )
    texts = [usable[i * len(usable) // count] for i in range(count)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps({"texts": texts, "tokens": [tokens(text) for text in texts]}), encoding="utf-8"
    )


def order(count: int, texts: int, seed: int) -> list[int]:
    """Return `count` indices in a random order: all texts, and then again."""
    rng = np.random.default_rng(seed)
    passes = [rng.permutation(texts) for _ in range(-(-count // texts))]
    return [int(i) for i in np.concatenate(passes)[:count]]


def describe(tokens: Sequence[int]) -> str:
    """Return the texts as a clause."""
    return (
        f"{len(tokens)} texts of {np.mean(tokens):.0f} tokens on average, "
        f"median {np.median(tokens):.0f}, at most {max(tokens)}"
    )


ONE, SINGLES, BATCHES, BULK, LIST = (
    "one caller",
    "64 singles",
    "8 x 32",
    "bulk",
    "list by the client",
)


@dataclasses.dataclass(frozen=True)
class Workload:
    """Number of callers, and of texts in each call.

    Attributes:
        share: of the texts of the run; one caller at a time takes too long for all.
        about: for the report.
    """

    name: str
    callers: int
    group: int
    share: float
    about: str


WORKLOADS = (
    Workload(ONE, 1, 1, 0.15, "one caller, one text a call"),
    Workload(SINGLES, 64, 1, 1, "64 callers at once, one text a call"),
    Workload(
        BATCHES, 8, 32, 1, "8 callers, 32 texts a call; libraries: one caller, 32 texts a call"
    ),
    Workload(
        BULK,
        1,
        32,
        1,
        (
            "a stream of requests of 32 texts; libraries, infinity and the offline plan: "
            "the whole list at once"
        ),
    ),
    Workload(LIST, 1, 0, 1, "the whole list by the client that Headlight ships, arrays included"),
)


@dataclasses.dataclass(frozen=True)
class Taken:
    """One run of a workload.

    Attributes:
        cpu: seconds of CPU of the contestant's process.
        load_cpu: of the load generator; None if there is none.
        latencies: seconds of each call; empty: there were no calls to time.
        padding: mean share of a batch that was padding, by the service's own metric.
    """

    texts: int
    tokens: int
    flops: float
    seconds: float
    cpu: float
    load_cpu: float | None = None
    latencies: tuple[float, ...] = ()
    padding: float | None = None

    def numbers(self) -> dict[str, float | None]:
        """Return the numbers of the report."""
        each = 1000 / self.texts
        return {
            "texts_per_s": self.texts / self.seconds,
            "tokens_per_s": self.tokens / self.seconds,
            "gflops": self.flops / self.seconds / 1e9,
            "cpu_ms": self.cpu * each,
            "load_cpu_ms": None if self.load_cpu is None else self.load_cpu * each,
            "p50_ms": percentile(self.latencies, 50),
            "p99_ms": percentile(self.latencies, 99),
            "padding": self.padding,
        }


def percentile(seconds: Sequence[float], q: float) -> float | None:
    """Return a percentile in milliseconds; None of nothing."""
    return float(np.percentile(seconds, q)) * 1000 if seconds else None


def summary(runs: Sequence[Taken]) -> dict[str, Any]:
    """Return the median of each number over the rounds, and all throughputs, for their spread."""
    numbers = [run.numbers() for run in runs]
    result: dict[str, Any] = {}
    for key in numbers[0]:
        values = [one[key] for one in numbers]
        result[key] = statistics.median([value for value in values if value is not None] or [0.0])
        if all(value is None for value in values):
            result[key] = None
    result["all_texts_per_s"] = [one["texts_per_s"] for one in numbers]
    return result

"""Cost of comparisons and their evidence beside that of encoding the same texts."""

from __future__ import annotations

import contextlib
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.evidence.planted import SEED, Case
from bench.frame.processes import Process, wait_for
from headlight import Client
from headlight.comparison import EvidenceSpec
from headlight.interface.encoder import Encoder
from headlight.runtime import Runtime

TOKENS = 128  # of a passage, special tokens included
SIZES = (10, 100)  # passages of a request
ENCODE, SCORES = "Encode", "Compare, scores alone"
EVIDENCE = "with late interaction evidence of words"
OCCLUSION = "with occlusion of {}s"
WARM_UP = 1  # rounds
START_SECONDS = 120
Calls = dict[str, Callable[[], object]]


def passages(runtime: Runtime, cases: Sequence[Case], count: int) -> list[str]:
    """Return texts of TOKENS tokens: the passages of the cases, joined and cut."""
    draw, found = random.Random(SEED), list[str]()
    while len(found) < count:
        text = " ".join(each.passage for each in draw.sample(cases, 3))
        tokens = runtime.tokenize(text)[0]
        if len(tokens) < TOKENS:
            continue
        cut = text[: tokens.ends[TOKENS - 2]]  # the last token is [SEP]
        if len(runtime.tokenize(cut)[0]) == TOKENS:
            found.append(cut)
    return found


def calls(encoder: Encoder, query: str, texts: Sequence[str]) -> Calls:
    """Return the calls that take turns."""

    def evidence(**fields: Any) -> Callable[[], object]:
        return lambda: encoder.compare(query, texts, evidence=EvidenceSpec(**fields))

    return {
        ENCODE: lambda: encoder.encode([query, *texts]),
        SCORES: lambda: encoder.compare(query, texts),
        "with the late interaction score": lambda: encoder.compare(
            query, texts, late_interaction=True
        ),
        EVIDENCE: evidence(method="late_interaction"),
        "with attention of words": evidence(method="attention"),
        OCCLUSION.format("sentence"): evidence(method="occlusion", unit="sentence"),
        OCCLUSION.format("word"): evidence(method="occlusion"),
    }


def times(found: Calls, rounds: int) -> dict[str, list[float]]:
    """Return the milliseconds of each call in each round. They take turns, in a new order."""
    taken: dict[str, list[float]] = {name: [] for name in found}
    for number in range(rounds + WARM_UP):
        for name in random.sample(list(found), len(found)):
            begun = time.perf_counter()
            found[name]()
            if number >= WARM_UP:
                taken[name].append(1000 * (time.perf_counter() - begun))
    return taken


def measure(
    encoder: Encoder, place: str, query: str, sizes: Sequence[Sequence[str]], rounds: int
) -> list[dict[str, Any]]:
    """Return a row for each call and list of passages.

    Occlusion of the words of the last list takes its turns with Encode alone, in one round, and
    in process only.
    """
    rows, slow = list[dict[str, Any]](), OCCLUSION.format("word")
    for texts in sizes:
        found, size = calls(encoder, query, texts), len(texts)
        apart = {ENCODE: found[ENCODE], slow: found.pop(slow)} if texts is sizes[-1] else {}
        rows += rows_of(place, size, times(found, rounds))
        if apart and isinstance(encoder, Runtime):
            [_, row] = rows_of(place, size, times(apart, 1))
            rows.append(row)
    return rows


def rows_of(place: str, size: int, taken: dict[str, list[float]]) -> list[dict[str, Any]]:
    """Return the median time of each call, and its ratio to Encode in the same round."""
    rows = []
    for name, own in taken.items():
        ratios = sorted(one / base for one, base in zip(own, taken[ENCODE], strict=True))
        numbers = {
            "ms": statistics.median(own),
            "ratio": statistics.median(ratios),
            "least": ratios[0],
            "most": ratios[-1],
        }
        row = {"place": place, "passages": size, "name": name, "rounds": len(own)}
        rows.append({**row, **{key: round(value, 3) for key, value in numbers.items()}})
    return rows


@contextlib.contextmanager
def served(bundle: Path, log: Path) -> Iterator[Client]:
    """Serve the bundle in a process of its own, and yield a client of it.

    Raises:
        Failed: it does not start.
    """
    command = [sys.executable, "-m", "headlight", "serve", "--bundle", str(bundle.absolute())]
    command += ["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--rest", "off"]
    process = Process([*command, "--log-format", "json"], log)

    def entries() -> dict[str, dict[str, Any]]:
        lines = log.read_text(encoding="utf-8").splitlines()
        found = [json.loads(line) for line in lines if line.startswith("{") and line[-1] == "}"]
        return {each["event"]: each for each in found}

    try:
        wait_for(lambda: "serving" in entries(), process, START_SECONDS)
        with Client(f"127.0.0.1:{entries()['listening']['grpc_port']}") as client:
            yield client
    finally:
        process.close()

"""Criteria and measured values: ratios within one run."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from typing import Any

from bench.frame.rounds import ratios, spread
from bench.serving.workloads import BATCHES, BULK, LIST, ONE, SINGLES

REFUSED_MS = 10.0
# cosine: a contestant further from the reference computes something else, and is no peer
SAME = {"fp32": 0.999, "bf16": 0.999, "int8": 0.0}  # int8 is judged by its neighbours
SINGLES_ASKED = {"fp32": 0.9, "bf16": 0.85, "int8": 0.8}  # of the rate of the stream
LIBRARIES = ("sentence-transformers", "fastembed")
PEERS = (*LIBRARIES, "infinity", "vLLM")
PLAIN = ("plain loop",)
DYNAMIC = ("sentence-transformers onnx",)


@dataclasses.dataclass(frozen=True)
class Criterion:
    """One criterion and its measured value.

    Attributes:
        bound: lower (or upper) bound; None: none, the value is only reported.
        value: None if it could not be measured.
        rounds: the least and the largest of the rounds, where rounds are compared.
    """

    what: str
    bound: float | None
    value: float | None
    note: str = ""
    at_most: bool = False
    rounds: tuple[float, float] | None = None

    @property
    def verdict(self) -> str:
        if self.value is None:
            return "not measured"
        if self.bound is None:
            return "reported"
        return (
            "reached"
            if (self.value <= self.bound if self.at_most else self.value >= self.bound)
            else "**missed**"
        )


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The fastest Headlight of a precision over the fastest of others, round by round.

    Attributes:
        against: how the names of the others begin.
        other: their precision, if it is not the same.
        ours: how our names begin: served, or "engine", in process.
    """

    precision: str
    workload: str
    bound: float
    what: str
    against: tuple[str, ...]
    other: str = ""
    ours: str = "Headlight"


COMPARISONS = (
    Comparison("fp32", ONE, 1.0, "fastembed, in process", ("fastembed",), ours="engine"),
    Comparison("fp32", ONE, 0.85, "fastembed, served", ("fastembed",)),
    Comparison("fp32", ONE, 1.0, "the best library", LIBRARIES),
    Comparison("bf16", LIST, 0.95, "the plain loop, in process", PLAIN, ours="engine"),
    Comparison("bf16", BULK, 0.95, "the plain loop, served", PLAIN),
    Comparison("bf16", ONE, 0.9, "the best library", LIBRARIES),
    Comparison("int8", ONE, 0.9, "the best library", LIBRARIES),
    Comparison("fp32", BATCHES, 1.7, "the best peer", PEERS),
    Comparison("bf16", BATCHES, 1.9, "the best peer", PEERS),
    Comparison("int8", BATCHES, 3.0, "the best dynamic int8", DYNAMIC),
    Comparison("int8", BATCHES, 1.2, "static int8", ("sentence-transformers openvino",)),
    Comparison("int8", BATCHES, 1.35, "our bf16", ("Headlight",), "bf16"),
)
BASE = (
    Comparison("fp32", BATCHES, 1.4, "the best peer", PEERS),
    Comparison("bf16", BATCHES, 1.4, "the best peer", PEERS),
)


def criteria(run: dict[str, Any]) -> list[Criterion]:
    """Return all criteria that this run can decide."""
    if run["size"] == "base":
        return [compared(run, each) for each in BASE]
    return [
        *(compared(run, each) for each in COMPARISONS),
        neighbours(run),
        *(singles(run, precision, bound) for precision, bound in SINGLES_ASKED.items()),
        *open_loops(run),
        *floods(run),
    ]


def rates(run: dict[str, Any], workload: str, name: str | None) -> list[float]:
    """Return texts/s of each round; none if it took no part."""
    values: list[float] = run["measured"].get(workload, {}).get(name, {}).get("all_texts_per_s", [])
    return values


def fastest(
    run: dict[str, Any], precision: str, workload: str, starts: tuple[str, ...]
) -> str | None:
    """Return the fastest contestant whose vectors are those of the precision."""
    names = [
        name
        for name, about in run["contestants"].items()
        if name.startswith(starts)
        and about["precision"] == precision
        and run["vectors"][name]["min_cosine"] > SAME[precision]
        and rates(run, workload, name)
    ]
    return max(names, key=lambda name: statistics.median(rates(run, workload, name)), default=None)


def over(
    what: str, bound: float, ours: Sequence[float], others: Sequence[float], note: str
) -> Criterion:
    """Return the criterion of a ratio, its median over the rounds."""
    values = ratios(ours, others)
    if not values:
        return Criterion(what, bound, None, note)
    median, *span = spread(values)
    return Criterion(what, bound, median, note, rounds=(span[0], span[1]))


def compared(run: dict[str, Any], one: Comparison) -> Criterion:
    other = one.other or one.precision
    ours = fastest(run, one.precision, one.workload, (one.ours,))
    best = fastest(run, other, one.workload, one.against)
    what = f"{one.precision}, {one.workload}: over {one.what}"
    note = f"{ours} against {best}" if ours and best else ""
    rates_of_ours, rates_of_best = (rates(run, one.workload, name) for name in (ours, best))
    return over(what, one.bound, rates_of_ours, rates_of_best, note)


def neighbours(run: dict[str, Any]) -> Criterion:
    """Return whether int8 keeps as many neighbours as dynamic int8."""
    names = [fastest(run, "int8", BATCHES, starts) for starts in (("Headlight",), DYNAMIC)]
    kept = [run["vectors"][name]["nearest_kept"] for name in names if name]
    what = f"int8, {BATCHES}: share of ten nearest kept, less that of the best dynamic int8"
    if len(kept) < 2:
        return Criterion(what, 0.0, None)
    return Criterion(what, 0.0, kept[0] - kept[1], f"{kept[0]:.1%} and {kept[1]:.1%}")


def singles(run: dict[str, Any], precision: str, bound: float) -> Criterion:
    """Return how much of the stream's rate single texts have."""
    ours = fastest(run, precision, SINGLES, ("Headlight",))
    single, stream = (rates(run, workload, ours) for workload in (SINGLES, BULK))
    return over(f"{precision}: {SINGLES} over {BULK}, served", bound, single, stream, ours or "")


def open_loops(run: dict[str, Any]) -> list[Criterion]:
    """Return the behaviour at twice the capacity."""
    result = []
    for one in (each for each in run["open"] if each["share"] == 2.0):
        what, bound = (
            f"{one['name']}, {one['group']} texts a request, 200 %",
            0.95 if one["group"] > 1 else 0.85,
        )
        result.append(
            Criterion(
                f"{what}: goodput over capacity",
                bound,
                one["goodput_texts_per_s"] / one["capacity"],
            )
        )
        result.append(
            Criterion(
                f"{what}: refusals, p99 in ms", REFUSED_MS, one["refused_p99_ms"], at_most=True
            )
        )
        grown = one["resident_after"] / one["resident_before"]
        result.append(Criterion(f"{what}: memory after over before", 1.1, grown, at_most=True))
    return result


def floods(run: dict[str, Any]) -> list[Criterion]:
    """Return what bulk costs interactive callers."""
    result = []
    for one in run["flood"]:
        what = (
            f"{one['name']}, bulk batches of {one['batch_ms']} ms: "
            "p99 of a single beside them less p99 alone, ms"
        )
        bound, note = (
            1.2 * one["batch_ms"],
            f"bulk at {one['beside']['bulk_texts_per_s']:.0f} texts/s",
        )
        result.append(
            Criterion(what, bound, one["beside"]["p99_ms"] - one["alone"]["p99_ms"], note, True)
        )
    return result

"""Criteria and measured values: ratios within one run."""

from __future__ import annotations

import dataclasses
from typing import Any

from bench.serving.workloads import BATCHES, BULK, LIST, SINGLES

REFUSED_MS = 10.0
SHORT_MS = 1.0
# cosine: a contestant further from the reference computes something else, and is no peer
SAME = 0.999


@dataclasses.dataclass(frozen=True)
class Criterion:
    """One criterion and its measured value.

    Attributes:
        asked: lower (or upper) bound; None: none, the value is only reported.
        found: None if it could not be measured.
    """

    what: str
    asked: float | None
    found: float | None
    note: str = ""
    at_most: bool = False

    @property
    def verdict(self) -> str:
        if self.found is None:
            return "not measured"
        if self.asked is None:
            return "reported"
        return (
            "reached"
            if (self.found <= self.asked if self.at_most else self.found >= self.asked)
            else "**missed**"
        )


def criteria(run: dict[str, Any]) -> list[Criterion]:
    """Return all criteria that this run can decide."""
    return [
        *against_peers(run),
        *against_engine(run),
        *short_text(run),
        *open_loops(run),
        *floods(run),
    ]


def rate(run: dict[str, Any], workload: str, name: str) -> float | None:
    """Return texts/s; None if it took no part."""
    found = run["measured"].get(workload, {}).get(name)
    return None if found is None else float(found["texts_per_s"])


def ratio(over: float | None, under: float | None) -> float | None:
    return None if over is None or not under else over / under


def served(run: dict[str, Any], precision: str) -> str | None:
    """Return the fastest Headlight of a precision at 8 x 32."""
    names = [
        n
        for n, about in run["contestants"].items()
        if n.startswith("Headlight") and about["precision"] == precision
    ]
    return max(names, key=lambda name: rate(run, BATCHES, name) or 0.0, default=None)


def peers(run: dict[str, Any], precision: str) -> list[str]:
    """Return the contestants that compute the same in a precision."""
    return [
        name
        for name, about in run["contestants"].items()
        if about["kind"] != "engine"
        and not name.startswith("Headlight")
        and about["precision"] == precision
        if run["vectors"][name]["min_cosine"] > SAME
    ]


def against_peers(run: dict[str, Any]) -> list[Criterion]:
    """Return criterion 1: throughput over the peers'.

    A library is measured in calls of 32 texts, as requested, and at its best, with the whole list
    at once.
    """
    found = []
    for precision, asked in (("fp32", 1.3), ("bf16", 1.6)):
        ours = served(run, precision)
        mine = None if ours is None else rate(run, BATCHES, ours)
        for workload, how in ((BATCHES, "at the same"), (BULK, "given the whole list at once")):
            rates = {
                name: value
                for name in peers(run, precision)
                if (value := rate(run, workload, name)) is not None
            }
            best = max(rates, key=lambda name: rates[name], default=None)
            what = f"1. 8 x 32 in {precision}, over the best peer in {precision} {how}"
            note = "" if best is None else f"{ours} against {best}"
            found.append(
                Criterion(what, asked, ratio(mine, None if best is None else rates[best]), note)
            )
    theirs = rate(run, BATCHES, "infinity torch")
    for precision, asked in (("fp32", 2.8), ("bf16", 9.0)):
        ours = served(run, precision)
        mine = None if ours is None else rate(run, BATCHES, ours)
        found.append(
            Criterion(
                f"1. 8 x 32 in {precision}, over infinity's torch engine",
                asked,
                ratio(mine, theirs),
            )
        )
    return found


def engines(run: dict[str, Any]) -> list[str]:
    """Return the settings that run both served and in process."""
    names = run["contestants"]
    return [
        n.removeprefix("engine ")
        for n in names
        if n.startswith("engine ") and f"Headlight {n[7:]}" in names
    ]


def against_engine(run: dict[str, Any]) -> list[Criterion]:
    """Return criterion 2: throughput served over that in process."""
    found = []
    for name in engines(run):
        for workload, asked in ((BATCHES, 0.95), (BULK, 0.95), (SINGLES, 0.85)):
            share = ratio(
                rate(run, workload, f"Headlight {name}"), rate(run, workload, f"engine {name}")
            )
            found.append(
                Criterion(
                    f"2. {name}, {workload}: served over in process, same policy", asked, share
                )
            )
        offline = rate(run, LIST, f"engine {name}")
        share = ratio(rate(run, BATCHES, f"Headlight {name}"), offline)
        found.append(Criterion(f"2. {name}, {BATCHES}: served over the offline plan", None, share))
    return found


def short_text(run: dict[str, Any]) -> list[Criterion]:
    """Return criterion 3: latency of one short text."""
    found = []
    for name, taken in run["short"].items():
        served, bare, session, awaited = (
            taken[f"{kind}_p50_ms"] for kind in ("served", "bare", "session", "awaited")
        )
        what = f"3. {name}, one short text"
        whole = f"{served:.2f} and {session:.2f} ms"
        found.append(
            Criterion(
                f"{what}: p50 served less p50 in the session, ms",
                SHORT_MS,
                served - session,
                whole,
                True,
            )
        )
        for part, over, under in (
            ("the session where it slept before, less when it did not", awaited, session),
            ("a bare server of grpc.aio and its client, less that session", bare, awaited),
            ("served, less by the bare server", served, bare),
        ):
            found.append(
                Criterion(
                    f"{what}, of that: {part}, ms",
                    None,
                    over - under,
                    f"{over:.2f} and {under:.2f} ms",
                )
            )
    return found


def open_loops(run: dict[str, Any]) -> list[Criterion]:
    """Return criterion 5 at twice the capacity."""
    found = []
    for one in (each for each in run["open"] if each["share"] == 2.0):
        what, asked = (
            f"5. {one['name']}, {one['group']} texts a request, 200 %",
            0.95 if one["group"] > 1 else 0.85,
        )
        found.append(
            Criterion(
                f"{what}: goodput over capacity",
                asked,
                one["goodput_texts_per_s"] / one["capacity"],
            )
        )
        found.append(
            Criterion(
                f"{what}: refusals, p99 in ms", REFUSED_MS, one["refused_p99_ms"], at_most=True
            )
        )
        grown = one["resident_after"] / one["resident_before"]
        found.append(Criterion(f"{what}: memory after over before", 1.1, grown, at_most=True))
    return found


def floods(run: dict[str, Any]) -> list[Criterion]:
    """Return criterion 5 for interactive callers beside bulk."""
    found = []
    for one in run["flood"]:
        what = (
            f"5. {one['name']}, bulk batches of {one['batch_ms']} ms: "
            "p99 of a single beside them less p99 alone, ms"
        )
        asked, note = (
            1.2 * one["batch_ms"],
            f"bulk at {one['beside']['bulk_texts_per_s']:.0f} texts/s",
        )
        found.append(
            Criterion(what, asked, one["beside"]["p99_ms"] - one["alone"]["p99_ms"], note, True)
        )
    return found

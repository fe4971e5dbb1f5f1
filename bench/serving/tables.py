"""Tables of the report: cost of a text, open loops, floods."""

from __future__ import annotations

import math
from typing import Any

from bench.frame.report import number, table
from bench.serving.flood import CALLERS, RATE
from bench.serving.workloads import BATCHES, BULK, ONE

COSTED = (BATCHES, BULK, ONE)
OVERLOAD = (
    *("requests", "refusals, p50 ms", "p99 ms"),
    *("resident MiB", "sent late by at most, ms"),
)
FLOOD = (
    *("", "bulk batch, ms", "alone, p50 ms", "p99 ms"),
    *("beside bulk, p50 ms", "p99 ms", "bulk, texts/s"),
)


def cost_table(run: dict[str, Any]) -> list[str]:
    """Return CPU milliseconds of a text, and the price of a million, the cheapest first."""
    spent: dict[str, list[float | None]] = {
        name: [run["measured"].get(each, {}).get(name, {}).get("cpu_ms") for each in COSTED]
        for name in run["contestants"]
    }
    cheapest = sorted(
        spent, key=lambda name: min((ms for ms in spent[name] if ms), default=math.inf)
    )
    rows = [
        (
            name,
            *(number(ms, ".2f") for ms in spent[name]),
            *(
                number(None if ms is None else million(ms, run["core_hour"]), ".3f")
                for ms in spent[name]
            ),
        )
        for name in cheapest
    ]
    heads = [f"CPU ms/text, {each}" for each in COSTED]
    heads += [f"price of a million texts, {each}" for each in COSTED]
    return [
        f"CPU time of the server or the library, all its processes, without the load generator. "
        f"The price is for {run['core_hour']} an hour of one core, in your currency "
        "(`--core-hour`): CPU milliseconds times price. A core that waits costs the same, so this "
        "is the price of a machine that is always busy.",
        "",
        *table(("", *heads), rows),
    ]


def million(cpu_ms: float, core_hour: float) -> float:
    """Return the price of a million texts of so many CPU milliseconds each."""
    return 1e6 * cpu_ms / 1000 / 3600 * core_hour


def open_table(run: dict[str, Any]) -> list[str]:
    if not run["open"]:
        return ["Not measured."]
    rows = [
        (
            one["name"],
            str(one["group"]),
            f"{one['share']:.0%}",
            number(one["offered_texts_per_s"], ".0f"),
            number(one["goodput_texts_per_s"], ".0f"),
            number(one["p50_ms"], ".0f"),
            number(one["p99_ms"], ".0f"),
            ", ".join(f"{code} {count}" for code, count in sorted(one["codes"].items())),
            number(one["refused_p50_ms"]),
            number(one["refused_p99_ms"]),
            f"{one['resident_before'] / 2**20:.0f} -> {one['resident_after'] / 2**20:.0f}",
            number(one["sent_late_ms"], ".0f"),
        )
        for one in run["open"]
    ]
    heads = (
        "",
        "texts a request",
        "load",
        "offered texts/s",
        "goodput texts/s",
        "p50 ms",
        "p99 ms",
    )
    return [
        (
            "Poisson arrivals at a share of the capacity that the closed loops had (64 singles; 8 "
            "x 32). Goodput counts what was answered within its deadline, "
            "after the first of them has passed."
        ),
        "",
        *table((*heads, *OVERLOAD), rows),
    ]


def flood_table(run: dict[str, Any]) -> list[str]:
    if not run["flood"]:
        return ["Not measured."]
    rows = [
        (
            one["name"],
            str(one["batch_ms"]),
            number(one["alone"]["p50_ms"]),
            number(one["alone"]["p99_ms"]),
            number(one["beside"]["p50_ms"]),
            number(one["beside"]["p99_ms"]),
            number(one["beside"]["bulk_texts_per_s"], ".0f"),
        )
        for one in run["flood"]
    ]
    return [
        (
            f"{RATE:.0f} single texts/s that somebody waits for, alone, and beside {CALLERS} "
            "callers that each keep a request of 32 texts under way; "
            "by how long a batch of bulk may take (`--bulk-batch-ms`)."
        ),
        "",
        *table(FLOOD, rows),
    ]

"""Tables of open loops and floods."""

from __future__ import annotations

from typing import Any

from bench.frame.report import number, table
from bench.serving.flood import CALLERS, RATE


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
        "requests",
    )
    return [
        (
            "Poisson arrivals at a share of the capacity that the closed loops had (64 singles; 8 "
            "x 32). Goodput counts what was answered within its deadline, "
            "after the first of them has passed."
        ),
        "",
        *table(
            (*heads, "refusals, p50 ms", "p99 ms", "resident MiB", "sent late by at most, ms"), rows
        ),
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
        *table(
            (
                "",
                "bulk batch, ms",
                "alone, p50 ms",
                "p99 ms",
                "beside bulk, p50 ms",
                "p99 ms",
                "bulk, texts/s",
            ),
            rows,
        ),
    ]

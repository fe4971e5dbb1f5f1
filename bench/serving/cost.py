"""Cost of a text: CPU time of the server or library, and its price."""

from __future__ import annotations

import math
from typing import Any

from bench.frame.report import number, table
from bench.serving.workloads import BATCHES, BULK, ONE

WORKLOADS = (BATCHES, BULK, ONE)


def cost_table(run: dict[str, Any]) -> list[str]:
    """Return CPU milliseconds of a text, and the price of a million, the cheapest first."""
    spent: dict[str, list[float | None]] = {
        name: [run["measured"].get(each, {}).get(name, {}).get("cpu_ms") for each in WORKLOADS]
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
    heads = [f"CPU ms/text, {each}" for each in WORKLOADS]
    heads += [f"price of a million texts, {each}" for each in WORKLOADS]
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

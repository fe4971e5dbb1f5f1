"""Report of the bulk run: rates, start, CPU, and what was asked for."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.bulk.contestants import Contestant, Cost
from bench.frame.report import number, table

PEERS = ("sentence-transformers pool of 2", "fastembed parallel 2")
NUMBER_BYTES = 4
MEMORY = "MiB (second quarter, last quarter, peak)"


def rates_of(costs: Sequence[Sequence[Cost]], few: int, rows: int) -> list[float]:
    """Return the rows a second of each round."""
    return [
        rows / whole.work_seconds
        if whole.work_seconds is not None
        else (rows - few) / (whole.seconds - start.seconds)
        for start, whole in costs
    ]


def numbers_of(
    facts: Mapping[str, Any],
    field: Sequence[Contestant],
    costs: Mapping[str, Sequence[Sequence[Cost]]],
    distances: Mapping[str, float],
) -> dict[str, Any]:
    """Return the numbers of a run, for JSON."""
    rows, width = facts["rows"], facts["dimensions"]
    ways = []
    for each in field:
        rounds = costs[each.name]
        if not rounds:
            continue
        rates = rates_of(rounds, facts["few"], rows)
        ways.append(
            {
                "name": each.name,
                "precision": each.precision,
                "cores": each.cores,
                "texts_per_second": statistics.median(rates),
                "rounds": rates,
                "startup_seconds": None
                if each.tells
                else statistics.median(start.seconds for start, _ in rounds),
                "cpu_seconds": statistics.median(whole.cpu for _, whole in rounds),
                "wall_seconds": statistics.median(whole.seconds for _, whole in rounds),
                "distance": distances[each.name],
                "bytes_per_text_in": facts["mean_bytes"],
                "bytes_per_text_out": float(width * NUMBER_BYTES),
            }
        )
    return {**facts, "rates": ways}


def lines(numbers: Mapping[str, Any]) -> list[str]:
    """Return the lines of the report."""
    rates = {each["name"]: each for each in numbers["rates"]}
    base = rates["local"]["texts_per_second"]
    rows = [
        (
            *(each["name"], each["precision"], str(each["cores"])),
            f"{each['texts_per_second']:.1f} "
            f"({', '.join(f'{rate:.1f}' for rate in each['rounds'])})",
            f"{each['texts_per_second'] / base:.2f}",
            number(each["startup_seconds"]),
            *(f"{each['wall_seconds']:.1f}", f"{each['cpu_seconds']:.1f}"),
            f"{each['distance']:.1e}",
        )
        for each in numbers["rates"]
    ]
    heading = ("way", "precision", "cores", "texts/s (rounds)", "to local", "start, s")
    return [
        "# Bulk jobs from Parquet to Parquet",
        "",
        f"`{numbers['command']}`",
        "",
        f"{numbers['machine']}. Other programs used {numbers['others']:.1%} of the CPUs, "
        "Ray's processes included, which no contestant has started itself.",
        "",
        f"{numbers['rows']:,} rows, {numbers['mean_tokens']:.1f} tokens each on average, for "
        f"all-MiniLM-L6-v2 ({numbers['dimensions']} dimensions). Each contestant reads the "
        "same file and writes its vectors as Parquet. Contestants take turns.",
        "",
        f"The start is a run of {numbers['few']} rows, and the rate that of the rows beyond. The "
        "engine's rate is that of computing alone: its texts are tokenised before, and nothing is "
        "written. CPU is that of the whole machine. The distance is the largest from the engine's "
        "vectors.",
        "",
        *table((*heading, "whole run, s", "CPU, s", "distance"), rows),
        "",
        "## What was asked for",
        "",
        *criteria(rates),
    ]


def criteria(rates: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each aim."""

    def rate(name: str) -> float:
        return float(rates[name]["texts_per_second"])

    if "engine" in rates:
        share = rate("local") / rate("engine")
        yield f"- local at least 0.97 of the engine: {share:.3f}: {verdict(share >= 0.97)}"
    if peers := [name for name in PEERS if name in rates]:
        best = max(peers, key=rate)
        ratio = rate("local") / rate(best)
        yield f"- local at least 1.3 of the best peer, {best}: {ratio:.2f}: {verdict(ratio >= 1.3)}"
    if "Ray, two workers" in rates and "Ray, one worker" in rates:
        ratio = rate("Ray, two workers") / rate("Ray, one worker")
        yield f"- two Ray workers at least 1.6 of one: {ratio:.2f}: {verdict(ratio >= 1.6)}"
        overhead = rates["Ray, two workers"]["cpu_seconds"] - rates["local"]["cpu_seconds"]
        yield (
            f"- Ray's own CPU: {overhead:.1f} s more than local, "
            f"{overhead / rates['local']['cpu_seconds']:.1%} of it, its start included"
        )


def verdict(reached: bool) -> str:
    """Return the verdict."""
    return "reached" if reached else "**missed**"


def faults(run: Mapping[str, Any]) -> list[str]:
    """Return the section on kills: the numbers of `nox -s bulk`."""
    tables, ray = run["tables"], run["ray"]
    rows = []
    for name, key in (("--local", "local"), ("service", "service")):
        job, comma = tables[key], "" if key == "local" else ","
        lost = "none" if job["each row once, in order"] else "**some**"
        rows.append((f"headlight embed{comma} {name}", str(tables["kills"]), *kept(job, lost)))
    for name, key in (("bundle", "bundle"), ("service", "target")):
        job = ray[key]
        kills = ", ".join(f"{count} {kind}" for kind, count in sorted(job["kills"].items()))
        lost = str(job["missing"] + job["repeated"] or "none")
        rows.append((f"Ray, {name}", kills, *kept(job, lost)))
    sizes = [("headlight embed --local", tables["uninterrupted"][MEMORY])]
    for name, used in ray["uninterrupted"][MEMORY].items():
        sizes.append((f"Ray, {name.split()[0]}", used))
    heading = ("job", "kills", "rows", "rejected", "missing or repeated")
    return [
        "## Kills and memory",
        "",
        "`nox -s bulk` (`bench/results/bulk-faults.json`), with a tiny model, so that kills are "
        "frequent.",
        "",
        f"{tables['rows']:,} rows, of which {tables['bad']:,} cannot be encoded. Processes are "
        "killed by SIGKILL at random points, and the same command is given again. `headlight "
        f"embed` is killed {tables['kills']} times. Over a service, every second kill is one of "
        f"the service too ({tables['killed services']}). Ray runs on two nodes on loopback.",
        "",
        *table(
            (*heading, "largest distance from an undisturbed run", "rows with the same bits"), rows
        ),
        "",
        "Resident memory of undisturbed runs, in MiB:",
        "",
        *table(
            ("process", "second quarter of the run", "last quarter", "peak"),
            ((name, *(f"{size:.0f}" for size in used)) for name, used in sizes),
        ),
    ]


def kept(job: Mapping[str, Any], lost: str) -> list[str]:
    """Return the last cells of a row of kills."""
    cells = [f"{job['rows']:,}", f"{job['rejected']:,}", lost]
    return [*cells, f"{job['largest difference']:.1e}", f"{job['bit-equal share']:.1%}"]

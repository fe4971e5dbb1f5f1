"""Section of the report on kills: the numbers of `nox -s bulk`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

MEMORY = "MiB (second quarter, last quarter, peak)"


def lines(faults: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the section."""
    tables, ray = faults["tables"], faults["ray"]
    yield from (
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
        "| job | kills | rows | rejected | missing or repeated | largest distance from an "
        "undisturbed run | rows with the same bits |",
        "|---|---|---|---|---|---|---|",
    )
    for name, found in (
        ("headlight embed --local", tables["local"]),
        ("headlight embed, service", tables["service"]),
    ):
        lost = "none" if found["each row once, in order"] else "**some**"
        yield row(name, str(tables["kills"]), found, lost)
    for name, found in (("Ray, bundle", ray["bundle"]), ("Ray, service", ray["target"])):
        kills = ", ".join(f"{count} {kind}" for kind, count in sorted(found["kills"].items()))
        yield row(name, kills, found, str(found["missing"] + found["repeated"] or "none"))
    yield from (
        "",
        "Resident memory of undisturbed runs, in MiB:",
        "",
        "| process | second quarter of the run | last quarter | peak |",
        "|---|---|---|---|",
        memory("headlight embed --local", tables["uninterrupted"][MEMORY]),
        *(
            memory(f"Ray, {name.split()[0]}", sizes)
            for name, sizes in ray["uninterrupted"][MEMORY].items()
        ),
    )


def row(name: str, kills: str, found: Mapping[str, Any], lost: str) -> str:
    """Return a line of the table of kills."""
    return (
        f"| {name} | {kills} | {found['rows']:,} | {found['rejected']:,} | {lost} "
        f"| {found['largest difference']:.1e} | {found['bit-equal share']:.1%} |"
    )


def memory(name: str, sizes: list[float]) -> str:
    """Return a line of the table of memory."""
    return f"| {name} | {' | '.join(format(size, '.0f') for size in sizes)} |"

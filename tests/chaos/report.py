"""The pages of results, from their JSON files: docs/reliability.md, and of the long forms."""

from __future__ import annotations

import dataclasses
import os
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.chaos.matrix import Row, rows
from tests.chaos.record import processor, read
from tests.system.processes import ROOT

PAGE = ROOT / "docs/reliability.md"
LONG_PAGE = ROOT / "bench/results/soak.md"
HEAD = "| fault | how it is caused | promise | result | state | option |"
INTRODUCTION = """\
# Reliability under faults

This page lists the faults that were tested, the promise for each, and the result. `nox -s faults`
tests all of them, one after the other, and writes this page from `build/faults/*.json`. To test one
fault and write the page again, run `python -m tests.chaos --only F13b`. The last column has the
option. Each run starts the real service as a process and calls it with the real clients. Answers
are compared with the same text encoded alone, without a server. "Wrong" counts answers with status
OK that differ from it.

| state | meaning |
|---|---|
| measured | the real fault was caused |
| injected | the fault was simulated; the notes say how |
| not possible here | this machine cannot cause the fault; the notes say why |
| not measured | there is no result |

The callers share the cores with the service, so their work makes the times longer. If a fault needs
hours, a short form is run, and its row says so. The long runs have reports of their own:
[soak.md](../bench/results/soak.md) and [soak-messages.md](../bench/results/soak-messages.md).
"""


LONG_INTRODUCTION = """\
# Soak

`nox -s soak` runs faults of [reliability.md](../../docs/reliability.md) in their long form, each
against a service of its own, and writes this page from `build/soak/*.json`.
"""


def page(folder: Path) -> str:
    """Return the page of all rows as Markdown."""
    return _page(INTRODUCTION, rows(), folder)


def long_page(folder: Path) -> str:
    """Return the page of the long forms as Markdown."""
    listed = [dataclasses.replace(row, tests=()) for row in rows() if row.long]
    return _page(LONG_INTRODUCTION, listed, folder)


def _page(introduction: str, listed: Sequence[Row], folder: Path) -> str:
    found = {row.fault: read(folder, row.fault) for row in listed}
    lines = [introduction, *_summary(found), "", HEAD, "|---" * 6 + "|"]
    lines += [_table_row(row, found[row.fault]) for row in listed]
    notes = [note for row in listed for note in _notes(row, found[row.fault])]
    if notes:
        lines += ["", "## Notes", "", *notes]
    return "\n".join(lines) + "\n"


def _summary(found: dict[str, dict[str, Any] | None]) -> list[str]:
    records = [record for record in found.values() if record is not None]
    if not records:
        return ["Nothing was measured yet."]
    kept = sum(record["ok"] for record in records)
    broken = [record["fault"] for record in records if record["problems"]]
    impossible = [record["fault"] for record in records if record["state"] == "not possible here"]
    names = {f"{name} {text}" for record in records for name, text in record["versions"].items()}
    commits = sorted({record["commit"] for record in records})
    minutes = sum(record["seconds"] for record in records) / 60
    text = (
        f"{len(records)} of {len(found)} rows were run, in {minutes:.0f} minutes. Promises kept: "
        f"{kept}; broken: {_counted(broken)}. Not possible on this machine: "
        f"{_counted(impossible)}. Machine and versions: {len(os.sched_getaffinity(0))} cores of "
        f"{processor()}; {', '.join(sorted(names))}. Rows were run at commit "
        f"{' and '.join(commits)}."
    )
    return textwrap.wrap(text, 100, break_long_words=False, break_on_hyphens=False)


def _counted(faults: list[str]) -> str:
    return f"{len(faults)} ({', '.join(faults)})" if faults else "0"


def _table_row(row: Row, record: dict[str, Any] | None) -> str:
    seen = "" if record is None else record["seen"]
    state = "not measured" if record is None else record["state"]
    if record is not None and record["problems"]:
        seen, state = f"**broken**, see the notes. {seen}".strip(), f"**{state}**"
    elif state == "not possible here":
        seen = "see the notes"
    cells = (
        f"{row.fault} {row.title}",
        row.made,
        row.promise,
        seen,
        state,
        f"`--only {row.fault}`"
        if record is None
        else f"`{record['command'].partition('chaos ')[2]}`",
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _notes(row: Row, record: dict[str, Any] | None) -> list[str]:
    said = [] if record is None else [f"Broken: {problem}." for problem in record["problems"]]
    reason = row.reason if record is None else record["reason"]
    said += [f"{reason[:1].upper()}{reason[1:]}."] if reason else []
    if row.tests:
        files = dict.fromkeys(node.partition("::")[0] for node in row.tests)
        said.append(f"Shown by {', '.join(f'`{file}`' for file in files)}.")
    return [f"- **{row.fault}** {' '.join(said)}"] if said else []

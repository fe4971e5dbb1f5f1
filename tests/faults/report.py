"""docs/reliability.md from build/faults/*.json: `python -m tests.faults.report`."""

from __future__ import annotations

import argparse
import os
import textwrap
from pathlib import Path
from typing import Any

from tests.faults.matrix import Row, rows
from tests.faults.record import FOLDER, read
from tests.soak.report import processor
from tests.system.processes import ROOT

PAGE = ROOT / "docs" / "reliability.md"
HEAD = "| fault | how it is caused | promise | result | state | option |"
INTRODUCTION = """\
# Reliability under faults

This page lists the faults that were tested, the promise for each, and the result. `nox -s faults`
tests all of them, one after the other, and writes this page from `build/faults/*.json`. To test one
fault, run `python -m tests.faults --only F13b`, then `python -m tests.faults.report`. The last
column has the option. Each run starts the real service as a process and calls it with the real
clients. Answers are compared with the same text encoded alone, without a server. "Wrong" counts
answers with status OK that differ from it.

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


def page(folder: Path) -> str:
    """Return the page as Markdown."""
    found = {row.fault: read(folder, row.fault) for row in rows()}
    lines = [
        INTRODUCTION,
        *_summary(found),
        "",
        HEAD,
        "|---" * 6 + "|",
    ]
    lines += [_table_row(row, found[row.fault]) for row in rows()]
    notes = [note for row in rows() for note in _notes(row, found[row.fault])]
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
        f"`--only {row.fault}`",
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


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.report", description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="with the JSON files")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page")
    options = parser.parse_args()
    options.out.write_text(page(options.folder), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Report of a run: its options and command, tables as Markdown, and the numbers as JSON."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path("bench/results")


def parser(
    module: str, about: str | None, out: Path | str | None = None, rounds: int | None = None
) -> argparse.ArgumentParser:
    """Return a parser of the options that most runs have.

    Args:
        module: that is run.
        about: its docstring.
        out: default of --out, below bench/results; None: no such option.
        rounds: default of --rounds; None: no such option.
    """
    made = argparse.ArgumentParser(prog=f"python -m {module}", description=about)
    if rounds is not None:
        made.add_argument("--rounds", type=int, default=rounds)
    if out is not None:
        made.add_argument("--out", type=Path, default=RESULTS / out)
    return made


def command(module: str) -> str:
    """Return the command line of this run."""
    return shlex.join(["python", "-m", module, *sys.argv[1:]])


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a table as Markdown."""
    lines = ["| " + " | ".join(heading) + " |", "|---" * len(heading) + "|"]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows)]


def number(value: float | None, form: str = ".1f") -> str:
    """Format a number; empty if it does not apply."""
    return "" if value is None else format(value, form)


def save(path: Path, numbers: Any) -> None:
    """Write numbers as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")


def publish(out: Path, report: Iterable[str], numbers: Any = None) -> None:
    """Write the lines of a report to a file, and print them; its numbers beside it, as JSON."""
    text = "\n".join(report)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text + "\n", encoding="utf-8")
    if numbers is not None:
        save(out.with_suffix(".json"), numbers)
    print(text)

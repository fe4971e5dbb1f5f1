"""Report files of a run: tables and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.measuring import publish
from bench.serving import plots, report


def write(folder: Path, run: dict[str, Any]) -> None:
    """Write serving.md and its pictures."""
    plots.throughput(run, folder / "serving-throughput.png")
    plots.open_loop(run, folder / "serving-open-loop.png")
    publish(folder / "serving.md", report.lines(run))

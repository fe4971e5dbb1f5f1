"""Report files of a run: tables and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.frame.report import publish
from bench.serving import plots, report
from bench.serving.quality_plot import quality


def write(folder: Path, name: str, run: dict[str, Any]) -> None:
    """Write the report of that name and its pictures."""
    if run["size"] != "base":
        plots.throughput(run, folder / "serving-throughput.png")
        plots.open_loop(run, folder / "serving-open-loop.png")
        quality(run, folder / "serving-quality.png")
    publish(folder / f"{name}.md", report.lines(run))

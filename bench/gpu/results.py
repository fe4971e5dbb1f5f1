"""Files of a run's numbers: JSON, the report, and the picture."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from bench.gpu import report
from bench.gpu.interleaved import in_one_line

PICTURE = "gpu.png"


def write(run: dict[str, Any], out: Path) -> None:
    """Write gpu.json and gpu.md of the results so far."""
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(plain(run), indent=1, allow_nan=False)
    (out / "gpu.json").write_text(text + "\n", encoding="utf-8")
    (out / "gpu.md").write_text("\n".join(report.lines(run)) + "\n", encoding="utf-8")


def plain(value: Any) -> Any:
    """Return a value for JSON: "inf" or "nan", which float() reads, if a number is not finite."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def draw(run: dict[str, Any], out: Path) -> None:
    """Draw the picture if possible: the numbers are useful without it.

    The report shows it only then.
    """
    try:
        from bench.gpu import plots  # noqa: PLC0415  (matplotlib is not everywhere)

        plots.throughput(run, out / PICTURE)
        run["picture"] = PICTURE
    except Exception as error:  # for any error of the library; it must not lose a measured run
        run["failed"]["picture"] = in_one_line(error)

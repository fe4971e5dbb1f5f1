"""A run's numbers to files: JSON, the report, and the picture."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from bench.gpu import report
from bench.gpu.turns import told

PICTURE = "gpu.png"


def write(found: dict[str, Any], out: Path) -> None:
    """gpu.json and gpu.md of what there is by now."""
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(plain(found), indent=1, allow_nan=False)
    (out / "gpu.json").write_text(text + "\n", encoding="utf-8")
    (out / "gpu.md").write_text("\n".join(report.lines(found)) + "\n", encoding="utf-8")


def plain(value: Any) -> Any:
    """The same for JSON, which knows finite numbers alone: another becomes its name, "inf" or "nan", and float() reads it again."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def draw(found: dict[str, Any], out: Path) -> None:
    """The picture, where it can be drawn: the numbers are worth having without. The report shows it only then."""
    try:
        from bench.gpu import plots  # noqa: PLC0415  (matplotlib is not everywhere)

        plots.throughput(found, out / PICTURE)
        found["picture"] = PICTURE
    except Exception as error:  # whatever the library says; a measured run is not lost for it
        found["failed"]["picture"] = told(error)

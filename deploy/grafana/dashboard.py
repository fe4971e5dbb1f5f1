"""Reader of the committed dashboard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parent / "headlight.json"


def read() -> dict[str, Any]:
    """Return the dashboard."""
    dashboard: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return dashboard


def panels() -> list[dict[str, Any]]:
    """Return its panels; rows only group them."""
    return [panel for panel in read()["panels"] if panel["type"] != "row"]


def expressions() -> list[tuple[str, str]]:
    """Return the title of each panel with each of its expressions."""
    return [(panel["title"], target["expr"]) for panel in panels() for target in panel["targets"]]

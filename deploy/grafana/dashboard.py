"""What the committed dashboard asks of Prometheus."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parent / "headlight.json"


def read() -> dict[str, Any]:
    """Return the dashboard."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def panels() -> list[dict[str, Any]]:
    """Return its panels; rows only group them."""
    return [panel for panel in read()["panels"] if panel["type"] != "row"]


def expressions() -> list[tuple[str, str]]:
    """Return the title of each panel with each of its expressions."""
    return [(panel["title"], target["expr"]) for panel in panels() for target in panel["targets"]]

"""Bundles that earlier versions wrote, with their recorded answers."""

from __future__ import annotations

from pathlib import Path

FORMAT_3 = Path(__file__).parent / "format-3"
FORMAT_3_ANSWERS = FORMAT_3.with_suffix(".json")

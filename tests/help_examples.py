"""Examples of a help, and the files that they name."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet


def examples(shown: str, title: str = "examples") -> list[str]:
    """Return the command lines below a title of a help."""
    lines = shown.partition(f"\n{title}:\n")[2].splitlines()
    return [line.strip() for line in lines if line.startswith("  ") and "headlight " in line]


def write_texts(folder: Path) -> None:
    """Write the texts that examples read."""
    (folder / "texts.txt").write_text("join two paths\nparse a date\n", encoding="utf-8")
    (folder / "text.txt").write_text(
        "def read(path):\n    return open(path).read()\n", encoding="utf-8"
    )
    rows = {"id": [7, 8], "body": ["join two paths", "parse a date"]}
    pyarrow.parquet.write_table(pyarrow.table(rows), folder / "docs.parquet")
    lines = ({"id": number, "text": f"text {number}"} for number in range(3))
    (folder / "texts.jsonl").write_text(
        "".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8"
    )

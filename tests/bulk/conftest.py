"""Size of the runs with kills, and the numbers of both: `--rows 20000 --kills 4` is a quick try."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rows", type=int, default=200_000)
    parser.addoption("--kills", type=int, default=20)
    parser.addoption("--report", type=Path, help="write the numbers of the kills to this file")


@pytest.fixture(scope="session")
def report(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """Collect the numbers of the runs with kills, for --report."""
    numbers: dict[str, Any] = {}
    yield numbers
    path: Path | None = request.config.getoption("--report")
    if path is not None:
        path.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")

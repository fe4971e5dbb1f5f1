"""Size of the run with kills: `--rows 20000 --kills 4` is a quick try."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rows", type=int, default=200_000)
    parser.addoption("--kills", type=int, default=20)

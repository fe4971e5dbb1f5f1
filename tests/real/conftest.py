"""The option for a report; nothing is looked up at a model hub."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of `nox -s real-model`."""
    parser.addoption("--report", type=Path, help="file to write the agreement into")

"""Option for the environment that `nox -s pythons` installs."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--programs", type=Path, required=True, help="folder of its programs")

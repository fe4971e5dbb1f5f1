"""The installed clients are those of the requirements."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path


def test_the_versions_are_those_of_the_requirements() -> None:
    lines = Path(__file__).with_name("requirements.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    for name, version in pinned.items():
        assert importlib.metadata.version(name) == version, name

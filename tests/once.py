"""Shared test data, made once for all test processes."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

# Variable with a folder for the data of several runs of the same sources, as of `.ci/run`.
SHARED = "TESTS_MADE"


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return a folder of this name, made by the first process while others wait.

    Do not change it: copy it first.

    Args:
        name: the same for all callers of the same data.
        make: writes into the given folder, which has this name but is not yet in place.
    """
    return once_in(place_of(factory), name, make)


def place_of(factory: pytest.TempPathFactory) -> Path:
    """Return the folder that all processes of a run share, or that the environment names."""
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent  # each process has a folder of its own in that of the run
    made = Path(os.environ.get(SHARED) or base / "made")
    made.mkdir(parents=True, exist_ok=True)
    return made


def once_in(made: Path, name: str, make: Callable[[Path], object]) -> Path:
    """Do so in a folder of `place_of`."""
    folder = made / name
    with (made / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=made) as begun:
                make(Path(begun) / name)
                (Path(begun) / name).rename(folder)
    return folder

"""Shared test data, made once for all test processes."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return a folder of this name, made by the first process while others wait.

    Do not change it: copy it first.

    Args:
        name: the same for all callers of the same data.
        make: writes into the given folder, which has this name but is not yet in place.
    """
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent  # each process has a folder of its own in that of the run
    made = base / "made"
    made.mkdir(exist_ok=True)
    folder = made / name
    with (made / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            begun = factory.mktemp(name) / name
            make(begun)
            begun.rename(folder)
    return folder

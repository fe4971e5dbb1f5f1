"""Real renderings to break, a fresh one for each test.

Needs kubectl; run by `nox -s deploy-check`.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable

import pytest

from deploy.check.manifests import Manifest
from deploy.check.rendering import DEPLOY, render

Load = Callable[[str], list[Manifest]]


@functools.cache
def rendered(folder: str) -> list[Manifest]:
    return render(DEPLOY / folder)


@pytest.fixture
def load() -> Load:
    """Return a function that loads a private copy of a rendering, by its folder under deploy/."""
    return lambda folder: copy.deepcopy(rendered(folder))

"""One running service for each shipped model, shared by the tests that leave it as they found it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.processes import ROOT, Service

MODELS = ("docs-rope", "docs-sinusoidal")


def bundle_of(model: str) -> Path:
    """Made by `make export`, on which `make system` depends."""
    return ROOT / "build" / "bundles" / model


@pytest.fixture(scope="session")
def rope() -> Iterator[Service]:
    with Service(bundle_of("docs-rope")) as service:
        yield service


@pytest.fixture(scope="session")
def sinusoidal() -> Iterator[Service]:
    with Service(bundle_of("docs-sinusoidal")) as service:
        yield service


@pytest.fixture(scope="session", params=MODELS)
def served(request: pytest.FixtureRequest) -> tuple[str, Service]:
    """Each model in turn: its name and the service that has it."""
    service: Service = request.getfixturevalue("rope" if request.param == "docs-rope" else "sinusoidal")
    return request.param, service

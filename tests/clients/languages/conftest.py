"""A service of the shipped model, for clients in this environment."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.system.processes import ROOT, Service

BUNDLE = ROOT / "build/bundles/docs-rope"


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    with Service(BUNDLE) as running:
        yield running

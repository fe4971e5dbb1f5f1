"""A service of the shipped model, and the vectors that the gRPC client gets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headlight import Client
from tests.system.processes import ROOT, Service

BUNDLE = ROOT / "build/bundles/docs-rope"
TEXTS = ["join two paths", "read a file line by line", "été: 日本"]
MANY = 2048  # texts in one request, the default limit


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    with Service(BUNDLE) as running:
        yield running


@pytest.fixture(scope="session")
def expected(service: Service) -> Any:
    with Client(service.target) as own:
        return own.encode(TEXTS, normalize=True)

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headlight import Client
from tests.headlight.fake_server import FakeServicer, default_limits, serving


@pytest.fixture
def servicer() -> FakeServicer:
    return FakeServicer(default_limits())


@pytest.fixture
def target(servicer: FakeServicer) -> Iterator[str]:
    with serving(servicer) as target:
        yield target


@pytest.fixture
def client(target: str) -> Iterator[Client]:
    with Client(target) as client:
        yield client

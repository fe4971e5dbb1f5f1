from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator

import pytest

from headlight import Client
from tests.headlight.fake_server import FakeServicer, default_limits, serving

Pipe = Callable[[bytes], None]


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Pipe:
    """Return a function that puts bytes on standard input, as a pipe does; at first it is empty."""

    def fill(data: bytes = b"") -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))

    fill()
    return fill


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

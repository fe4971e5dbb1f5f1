from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headlight import AsyncClient, Client
from tests.headlight.blocking import Blocking, LoopThread, open_blocking
from tests.headlight.fake_server import FakeServicer, default_limits, serving

Pipe = Callable[[bytes], None]
Open = Callable[..., Any]


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


@pytest.fixture(scope="session")
def loop() -> Iterator[LoopThread]:
    made = LoopThread()
    yield made
    made.close()


@pytest.fixture(params=[Client, AsyncClient], ids=["blocking", "asyncio"])
def open_client(request: pytest.FixtureRequest, target: str, loop: LoopThread) -> Iterator[Open]:
    """Return a function that makes a client of either kind, called as the blocking one."""
    made: list[Blocking] = []

    def open_(place: str = target, **options: Any) -> Blocking:
        made.append(open_blocking(request.param, loop, place, **options))
        return made[-1]

    yield open_
    for each in made:
        each.close()


@pytest.fixture
def either(open_client: Open) -> Any:
    """A client of either kind, called as the blocking one."""
    return open_client()

"""A request that takes long, and what the service counts if its client does not wait for it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from tests.system.processes import Service

LONG = ["word " * 250] * 60  # takes seconds, and one request may have no more tokens
SOON = 0.2  # seconds: a timeout that LONG exceeds
POLL_SECONDS = 0.02
LIMIT_SECONDS = 60  # for what takes milliseconds on an idle machine


def until(condition: Callable[[], bool], problem: str) -> None:
    """Wait until a condition of the service's metrics holds."""
    end = time.monotonic() + LIMIT_SECONDS
    while not condition():
        assert time.monotonic() < end, problem
        time.sleep(POLL_SECONDS)


def is_at_work(service: Service) -> bool:
    """Return whether the service has admitted texts that it has not answered."""
    return service.counted("headlight_queue_tokens{") > 0


@contextlib.contextmanager
def abandoned(
    service: Service, protocol: str, method: str, code: str = "499", requests: int = 1
) -> Iterator[None]:
    """Assert that the service counts requests without a reader, and drops their work.

    Args:
        service: no other request is under way there.
        protocol: a label of `headlight_requests_total`.
        method: the same.
        code: the same; 499 is a client of HTTP that disconnected.
        requests: how many end with this code.
    """
    labels = f'code="{code}",method="{method}",protocol="{protocol}"'
    series = f"headlight_requests_total{{{labels}}}"
    before = service.counted(series)
    answered = service.counted("headlight_texts_total{")
    yield
    until(lambda: service.counted(series) == before + requests, f"not counted: {labels}")
    until(lambda: not is_at_work(service), "the work goes on")
    assert service.counted("headlight_texts_total{") < answered + len(LONG)


async def cancel_at_work(service: Service, request: Awaitable[Any]) -> None:
    """Cancel a request of LONG that the service has begun with."""
    task = asyncio.ensure_future(request)
    await asyncio.to_thread(until, lambda: task.done() or is_at_work(service), "it did not begin")
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

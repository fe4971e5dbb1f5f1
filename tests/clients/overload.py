"""Requests that fill the queue of a service, so that others are refused."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.system.processes import Service

QUEUE = ("--max-queue-tokens", "2560", "--max-request-tokens", "2048")  # holds two of BUSY
BUSY = "word " * 1000


def refusals(service: Service) -> float:
    """Return how many requests were refused because the queue was full."""
    return service.counted('headlight_rejected_total{model="docs-rope",reason="queue_tokens"}')


def twelve_at_once(service: Service, ask: Callable[[], Any]) -> list[Any]:
    """Return answers and errors of twelve requests, some of which the service refused.

    Args:
        service: it has the options QUEUE.
        ask: sends a request of BUSY, from any thread.
    """
    before = refusals(service)
    for _ in range(5):  # on a busy machine, twelve may come one after the other
        with ThreadPoolExecutor(12) as pool:
            asked = [pool.submit(ask) for _ in range(12)]
        if refusals(service) > before:
            return [each.exception() or each.result() for each in asked]
    raise AssertionError("no request was refused")

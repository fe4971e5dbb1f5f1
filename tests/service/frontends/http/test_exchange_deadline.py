"""A deadline over HTTP that passes just as the answer comes."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from typing import Any, cast

import pytest

from headlight.errors import DeadlineExceeded
from headlight_service.frontends.http.exchange import Exchange
from tests.service.core.pipelines import Core, submit


class SlowFuture(Future[Any]):
    """Future whose result comes late: its thread has been interrupted."""

    def __init__(self, may_end: threading.Event) -> None:
        super().__init__()
        self._may_end = may_end

    def set_result(self, result: Any) -> None:
        assert self._may_end.wait(30)
        super().set_result(result)


async def test_a_request_given_up_as_its_answer_comes_holds_nothing(made: Core) -> None:
    made.engine.gate.clear()
    may_end = threading.Event()
    handle = submit(made, size_bytes=9, deadline=time.monotonic() + 0.3)
    handle.future = SlowFuture(may_end)
    exchange = Exchange(cast("Any", None), "POST", "/", {}, b"", "id")
    waiting = asyncio.create_task(exchange.wait(handle))
    made.engine.gate.set()
    with pytest.raises(DeadlineExceeded):
        await waiting
    may_end.set()
    await asyncio.to_thread(made.computed)
    assert made.held == (0, 0, 0)
    assert made.model.bound == 0

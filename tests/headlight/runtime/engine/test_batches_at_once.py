"""Batches of several callers in one process share the engine's workers."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headlight.runtime import Runtime

CALLERS, STREAMS = 3, 2


class Counting:
    """Session that counts runs at once, and waits until there are as many as workers."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.inputs = inner, inner.inputs
        self.now = self.most = 0
        self.lock, self.meeting = threading.Lock(), threading.Barrier(STREAMS)

    def run(self, *arguments: Any, **named: Any) -> Any:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        self.meeting.wait(60)
        try:
            return self.inner.run(*arguments, **named)
        finally:
            with self.lock:
                self.now -= 1


@pytest.fixture
def texts() -> Sequence[str]:
    return ["a text of some length " * 5 for _ in range(40)]  # an even number of batches


def test_callers_together_run_as_many_batches_as_there_are_workers(
    bundle_path: Path, texts: Sequence[str]
) -> None:
    with Runtime(bundle_path, streams=STREAMS, threads=1, wide=False) as runtime:
        expected = runtime.encode(texts)
        session: Any = Counting(runtime.engine._sessions["embed"])
        runtime.engine._sessions["embed"] = session
        with ThreadPoolExecutor(CALLERS) as callers:
            found = list(callers.map(runtime.encode, [texts] * CALLERS))
    assert session.most == STREAMS
    for each in found:
        np.testing.assert_array_equal(each, expected)

"""Shipped clients, each on its own connection, that call while others misbehave."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from headlight import AsyncClient, Client
from headlight.errors import HeadlightError
from headlight.results import Floats
from headlight.runtime import Runtime
from tests.chaos.traffic.reference import POOLED_TOLERANCE

TEXTS = ("join two paths", "open a file", "lock a thread", "read json from a socket")
NEIGHBOURS = 8
TIMEOUT_SECONDS = 10.0
PAUSE_SECONDS = 0.02  # leaves the CPU to the service and the misbehaving clients
# A lost call has to show, so none of gRPC's retries may hide it.
WITHOUT_RETRIES = [("grpc.enable_retries", 0)]


def expected_vectors(bundle: Path) -> dict[str, Floats]:
    """Return the vector of each text, computed in this process."""
    runtime = Runtime(bundle, threads=1)
    vectors: dict[str, Floats] = {}
    for text in TEXTS:
        [found] = runtime.encode_items([text])
        assert found.pooled is not None
        vectors[text] = found.pooled
    return vectors


def right(vector: Floats, expected: Floats) -> bool:
    """Return whether an answer is that of the reference."""
    return vector.shape == expected.shape and bool(
        np.abs(vector - expected).max() <= POOLED_TOLERANCE
    )


class Neighbours:
    """Clients, half of them blocking. An async context manager; they call until its end.

    Attributes:
        calls: how many were answered.
        lost: the errors of those that were not, and of wrong answers.
        slowest: seconds of the slowest answered call.
    """

    def __init__(
        self,
        target: str,
        expected: Mapping[str, Floats],
        *,
        count: int = NEIGHBOURS,
        options: list[tuple[str, Any]] | None = None,
        **arguments: Any,
    ) -> None:
        """Create the clients; they call once the context is entered.

        Args:
            target: host:port.
            expected: texts and their vectors.
            count: of clients, even.
            options: of the channel; None: gRPC's retries are off.
            arguments: of the clients: TLS, token.
        """
        self.calls = 0
        self.lost: list[str] = []
        self.slowest = 0.0
        self._expected = [*expected.items()]
        # A separate pool for each channel, so that none shares a connection.
        options = [
            *(WITHOUT_RETRIES if options is None else options),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        self._arguments: dict[str, Any] = {
            "timeout": TIMEOUT_SECONDS,
            "options": options,
            **arguments,
        }
        self._target = target
        self._count = count
        self._stop = threading.Event()
        self._noting = threading.Lock()
        self._begun = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop

    async def __aenter__(self) -> Neighbours:
        self._loop = asyncio.get_running_loop()
        self._threads = [
            threading.Thread(target=self._block, args=(n,)) for n in range(self._count // 2)
        ]
        for thread in self._threads:
            thread.start()
        self._tasks = [asyncio.create_task(self._call(n)) for n in range(self._count // 2)]
        await asyncio.wait_for(self._begun.wait(), 60)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        await asyncio.gather(*self._tasks)
        for thread in self._threads:
            await asyncio.to_thread(thread.join, 60)
            assert not thread.is_alive()

    def problems(self) -> list[str]:
        """Return the failed calls; empty: none."""
        kinds = dict.fromkeys(self.lost)
        return [
            (
                f"of {self.calls + len(self.lost)} calls of neighbours, {len(self.lost)} failed: "
                f"{[*kinds][:3]}"
            )
        ] * bool(self.lost)

    def _block(self, number: int) -> None:
        with Client(self._target, **self._arguments) as client:
            while not self._stop.wait(PAUSE_SECONDS):
                text, expected = self._expected[(number + self.calls) % len(self._expected)]
                begun = time.monotonic()
                try:
                    [vector] = client.encode([text])
                except HeadlightError as error:
                    self._note(begun, f"{type(error).__name__}: {error}")
                else:
                    self._note(begun, "" if right(vector, expected) else "a wrong answer")

    async def _call(self, number: int) -> None:
        async with AsyncClient(self._target, **self._arguments) as client:
            while not self._stop.is_set():
                text, expected = self._expected[(number + self.calls) % len(self._expected)]
                begun = time.monotonic()
                try:
                    [vector] = await client.encode([text])
                except HeadlightError as error:
                    self._note(begun, f"{type(error).__name__}: {error}")
                else:
                    self._note(begun, "" if right(vector, expected) else "a wrong answer")
                await asyncio.sleep(PAUSE_SECONDS)

    def _note(self, begun: float, problem: str) -> None:
        with self._noting:
            if problem:
                self.lost.append(problem)
            else:
                self.calls += 1
                self.slowest = max(self.slowest, time.monotonic() - begun)
            if self.calls + len(self.lost) >= 2 * self._count:
                self._loop.call_soon_threadsafe(self._begun.set)

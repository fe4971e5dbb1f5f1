"""Real replicas that are restarted and replaced, and callers that must not notice."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from types import TracebackType

import numpy as np

from headlight import AsyncClient, Client
from tests.ports import free_port
from tests.system.conftest import bundle_of
from tests.system.names import NAME, Names
from tests.system.processes import Service

CROWD = 64  # callers at once
# For each caller: frequent enough to hit every phase of a restart, and leaves CPU for starting
# replicas.
CALLS_A_SECOND = 8
TEXT = "a b c d "  # three times: within the length of the small model, which starts sooner
# Of both: callers in step with each other could have it that one replica gets all of a kind.
OK = tuple(
    f'grpc_server_handled_total{{grpc_code="OK",grpc_method="{method}"'
    for method in ("Encode", "EncodeStream")
)


class Fleet:
    """Replicas at addresses of loopback, all at one port, and their name.

    Use as a context manager, in an event loop.

    Attributes:
        port: of all.
        replicas: by address; those that a caller may be sent to.
        names: who tells the addresses.
    """

    def __init__(self, *options: str, model: str = "reverse-learned") -> None:
        self._bundle = bundle_of(model)
        self.port = free_port()
        self.replicas: dict[str, Service] = {}
        self._options = ("--streams", "1", "--threads", "1", *options)
        self._fresh = (f"127.0.1.{last}" for last in itertools.count(1))

    @property
    def target(self) -> str:
        """Return a target for a client that asks the name server."""
        return f"dns://127.0.0.1:{self.names.port}/{NAME}:{self.port}"

    @property
    def addresses(self) -> list[str]:
        return [f"{address}:{self.port}" for address in self.replicas]

    async def add(self, address: str | None = None) -> str:
        """Add a replica, at a fresh address unless given; announced once it serves."""
        address = address or next(self._fresh)
        at = f"{address}:{self.port}"
        self.replicas[address] = await asyncio.to_thread(
            Service, self._bundle, *self._options, grpc_at=at
        )
        return address

    async def remove(self, address: str) -> None:
        """Remove a replica in Kubernetes' order: first from the name, then SIGTERM."""
        replica = self.replicas.pop(address)
        await asyncio.to_thread(replica.__exit__, None, None, None)

    def answered(self) -> dict[str, float]:
        """Return the calls answered so far, by address."""
        return {address: replica.counted(OK) for address, replica in self.replicas.items()}

    async def __aenter__(self) -> Fleet:
        self.names = await Names.serve(lambda: list(self.replicas))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for address in list(self.replicas):
            await self.remove(address)
        await self.names.close()


class Callers:
    """Callers of all kinds at a rate, with the shipped client; each answer is checked.

    Use as a context manager.

    Attributes:
        calls: answered, and right.
        failed: what else came of a call.
    """

    def __init__(self, target: str) -> None:
        self._target = target
        self._tasks: list[asyncio.Task[None]] = []
        self.calls = 0
        self.failed: list[BaseException] = []

    async def __aenter__(self) -> Callers:
        self._client = AsyncClient(self._target)
        self._vector = (await self._client.encode([TEXT]))[0]
        self._weights = (await self._client.attend(TEXT)).weights
        self._blocking = Client(self._target)
        kinds = (self._one, self._many, self._streamed, self._streamed_blocking)
        self._tasks = [asyncio.create_task(self._repeat(kind)) for kind in kinds]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for task in self._tasks:
            task.cancel()
        self._blocking.close()  # its thread cannot be cancelled
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.close()

    async def further(self, calls: int) -> None:
        """Wait until so many more calls have been answered, or one failed."""
        until = self.calls + calls
        while self.calls < until and not self.failed:
            await asyncio.sleep(0.05)

    async def _repeat(
        self, call: Callable[[], Awaitable[None]], apart: float = 1 / CALLS_A_SECOND
    ) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            try:
                await call()
                self.calls += 1
            except asyncio.CancelledError as error:
                if (task := asyncio.current_task()) is None or task.cancelling():
                    raise
                self.failed.append(error)  # gRPC may raise a CancelledError of its own
            except Exception as error:  # counted, and shown by the test
                self.failed.append(error)
            due = max(due + apart, loop.time())
            await asyncio.sleep(due - loop.time())

    async def _one(self) -> None:
        found = await self._client.encode([TEXT])
        np.testing.assert_allclose(found[0], self._vector, atol=1e-5)

    async def _many(self) -> None:
        found = await self._client.encode([TEXT * (1 + at % 3) for at in range(9)])
        np.testing.assert_allclose(found[0], self._vector, atol=1e-5)

    async def _streamed(self) -> None:
        found = await self._client.attend(TEXT)
        np.testing.assert_allclose(found.weights, self._weights, atol=1e-5)

    async def _streamed_blocking(self) -> None:
        found = await asyncio.to_thread(self._blocking.attend, TEXT)
        np.testing.assert_allclose(found.weights, self._weights, atol=1e-5)


class Crowd(Callers):
    """Many callers of one client, each with one call after the other, of one text.

    As many at once as there are callers.
    """

    async def __aenter__(self) -> Crowd:
        self._client = AsyncClient(self._target)
        self._blocking = Client(self._target)
        self._vector = (await self._client.encode([TEXT]))[0]
        self._tasks = [
            asyncio.create_task(self._repeat(self._one, apart=0.0)) for _ in range(CROWD)
        ]
        return self

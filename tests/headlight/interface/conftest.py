"""One small model behind each kind of encoder: in this process, and over loopback."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from headlight import AsyncClient, Client, Encoder
from headlight.runtime import Runtime
from tests.conftest import MakeBundle
from tests.factory import with_options
from tests.service.conftest import serving
from tests.service.fakes import FakeRuntime

SECONDS = 60  # for one call
DIM = 36


class LoopThread:
    """An event loop on a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(SECONDS)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Blocking:
    """The methods of an AsyncClient, each executed to its end."""

    def __init__(self, client: AsyncClient, loop: LoopThread) -> None:
        self._client, self._loop = client, loop

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def execute(*arguments: Any, **keywords: Any) -> Any:
            found = getattr(self._client, name)(*arguments, **keywords)
            return await found if inspect.isawaitable(found) else [each async for each in found]

        return lambda *arguments, **keywords: self._loop.run(execute(*arguments, **keywords))


@pytest.fixture(scope="module")
def bundle(make_bundle: MakeBundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle that takes pairs, with prompts, int8 and a similarity of its own."""
    target = tmp_path_factory.mktemp("encoders") / "bundle"
    ranges = {f"int8_{DIM}": np.stack([np.full(DIM, -0.4), np.full(DIM, 0.4)]).astype(np.float32)}
    options: dict[str, Any] = {"prompts": {"query": "q: "}, "similarity": "dot"}
    return with_options(make_bundle("learned"), target, ranges, **options)


@pytest.fixture(scope="module")
def loop() -> Iterator[LoopThread]:
    made = LoopThread()
    yield made
    made.close()


@pytest.fixture(scope="module")
def encoders(bundle: Path, loop: LoopThread) -> Iterator[dict[str, Encoder]]:
    """The same model as each kind of encoder, by its name."""
    with each_kind(bundle, loop) as made_encoders:
        yield made_encoders


@contextlib.contextmanager
def each_kind(bundle: Path, loop: LoopThread) -> Iterator[dict[str, Encoder]]:
    """Yield the model of a bundle as each kind of encoder, by its name."""
    served = contextlib.AsyncExitStack()
    with Runtime(bundle, threads=1) as runtime, Runtime(bundle, threads=1) as behind:
        service = loop.run(served.enter_async_context(serving(cast(FakeRuntime, behind))))
        awaited = loop.run(made(service.target))
        with Client(service.target) as client:
            yield {
                "Runtime": runtime,
                "Client": client,
                "AsyncClient": cast(Encoder, Blocking(awaited, loop)),
            }
        loop.run(awaited.close())
        loop.run(served.aclose())


async def made(target: str) -> AsyncClient:
    return AsyncClient(target)

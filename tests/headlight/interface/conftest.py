"""One small model behind each kind of encoder: in this process, and over loopback."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from headlight import AsyncClient, Client, Encoder
from headlight.runtime import Runtime
from tests.conftest import MakeBundle
from tests.factory import with_options
from tests.headlight.blocking import LoopThread, open_blocking
from tests.service.conftest import serving
from tests.service.fakes import FakeRuntime

DIM = 36


@pytest.fixture(scope="module")
def bundle(make_bundle: MakeBundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle that takes pairs, with prompts, int8 and a similarity of its own."""
    target = tmp_path_factory.mktemp("encoders") / "bundle"
    ranges = {f"int8_{DIM}": np.stack([np.full(DIM, -0.4), np.full(DIM, 0.4)]).astype(np.float32)}
    options: dict[str, Any] = {"prompts": {"query": "q: "}, "similarity": "dot"}
    return with_options(make_bundle("learned"), target, ranges, **options)


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
        awaited = open_blocking(AsyncClient, loop, service.target)
        with Client(service.target) as client:
            yield {
                "Runtime": runtime,
                "Client": client,
                "AsyncClient": cast(Encoder, awaited),
            }
        awaited.close()
        loop.run(served.aclose())

"""The asyncio client returns what the sync client returns, errors included."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from headlight import (
    AsyncClient,
    AttentionSpec,
    InvalidInput,
)
from headlight.client.async_client import MANY_INPUTS
from headlight.client.calls.list_work import measure
from headlight.interface.arguments import Input

TEXTS = [f"text number {index} " * (index % 4 + 1) for index in range(50)]


@pytest.fixture
async def aclient(target: str) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(target) as client:
        yield client


@pytest.mark.parametrize(
    "ask",
    [
        AsyncClient.encode,
        AsyncClient.encode_tokens,
        AsyncClient.token_vectors,
        AsyncClient.tokenize,
        lambda client, texts: client.attention(texts, AttentionSpec()),
    ],
)
async def test_the_event_loop_is_not_blocked_while_a_long_list_is_measured(
    aclient: AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
    ask: Callable[[AsyncClient, Iterable[str]], Awaitable[Any]],
) -> None:
    """The list is read on the loop, because its iterator may belong there."""
    read, measured = list[threading.Thread](), list[threading.Thread]()

    def noted(inputs: Sequence[Input], most: int) -> list[tuple[int, int]]:
        measured.append(threading.current_thread())
        return measure(inputs, most)

    def drawn(count: int) -> Iterator[str]:
        for number in range(count):
            read.append(threading.current_thread())
            yield f"text {number}"

    monkeypatch.setattr("headlight.client.calls.list_work.measure", noted)
    await ask(aclient, drawn(3))
    assert measured.pop() is threading.main_thread()
    await ask(aclient, drawn(MANY_INPUTS))
    assert measured.pop() is not threading.main_thread()
    with pytest.raises(InvalidInput):
        await ask(aclient, [*drawn(MANY_INPUTS), "\ud800"])
    assert set(read) == {threading.main_thread()}


async def test_many_callers_share_one_client(aclient: AsyncClient) -> None:
    answers = await asyncio.gather(*(aclient.encode([text]) for text in TEXTS))
    np.testing.assert_array_equal(np.concatenate(answers), await aclient.encode(TEXTS))


async def test_a_client_of_another_loop_says_so(aclient: AsyncClient) -> None:
    def elsewhere() -> str:
        with pytest.raises(RuntimeError) as refused:
            asyncio.run(aclient.encode(["one"]))
        return str(refused.value)

    assert "belongs to another event loop" in await asyncio.to_thread(elsewhere)
    assert len(await aclient.encode(["one"])) == 1


async def test_a_client_from_before_a_fork_says_so(
    aclient: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(RuntimeError, match="made before a fork; make one in each process"):
        await aclient.encode(["one"])
    monkeypatch.undo()
    assert len(await aclient.encode(["one"])) == 1

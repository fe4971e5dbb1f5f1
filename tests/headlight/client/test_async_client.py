"""The asyncio client returns what the sync client returns, errors included."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any

import grpc
import numpy as np
import pytest

from headlight import (
    AsyncClient,
    AttentionSpec,
    Client,
    DeadlineExceeded,
    EngineError,
    InvalidInput,
    Overloaded,
    Unavailable,
)
from headlight.client.async_client import MANY_INPUTS
from headlight.client.calls.list_work import measure
from headlight.interface.arguments import Input
from tests.headlight.fake_model import DIM
from tests.headlight.fake_server import FakeServicer, Refusal

TEXTS = [f"text number {index} " * (index % 4 + 1) for index in range(50)]


@pytest.fixture
async def aclient(target: str) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(target) as client:
        yield client


async def test_every_method_returns_what_the_sync_client_returns(
    aclient: AsyncClient, client: Client
) -> None:
    np.testing.assert_array_equal(await aclient.encode(TEXTS), client.encode(TEXTS))
    assert (await aclient.encode_with_info(TEXTS)).model == client.encode_with_info(TEXTS).model
    for ours, theirs in zip(
        await aclient.encode_tokens(TEXTS), client.encode_tokens(TEXTS), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    attention, expected = (
        await aclient.attend("a few words", [-1]),
        client.attend("a few words", [-1]),
    )
    np.testing.assert_array_equal(attention.weights, expected.weights)
    assert (attention.layers, attention.tokens, attention.model) == (
        expected.layers,
        expected.tokens,
        expected.model,
    )
    hidden = await aclient.hidden("a few words")
    np.testing.assert_array_equal(hidden.states, client.hidden("a few words").states)
    assert await aclient.tokenize(TEXTS) == client.tokenize(TEXTS)
    assert await aclient.model() == client.model()
    assert await aclient.list_models() == client.list_models()


async def test_empty_input_returns_no_vectors(aclient: AsyncClient) -> None:
    assert (await aclient.encode([])).shape == (0, DIM)
    assert await aclient.encode_tokens([]) == []
    assert await aclient.tokenize([]) == []


async def test_errors_are_the_same(aclient: AsyncClient, servicer: FakeServicer) -> None:
    servicer.limits.max_unary_response_bytes = 4096 + 200  # so that attention is streamed
    with pytest.raises(InvalidInput) as caught:
        await aclient.encode([*TEXTS, ""])
    assert caught.value.field == f"inputs[{len(TEXTS)}].text"
    with pytest.raises(InvalidInput):
        await aclient.attend("")
    servicer.refusals.append(Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "the queue is full"))
    with pytest.raises(Overloaded):
        await aclient.encode("text")
    # Retried as UNAVAILABLE is.
    servicer.refusals.extend([Refusal(grpc.StatusCode.CANCELLED, "shutting down")] * 4)
    with pytest.raises(Unavailable):
        await aclient.encode("text")
    servicer.change_frames = lambda frames: frames[1:]
    with pytest.raises(EngineError, match="before the header"):
        await aclient.attend("text")


async def test_unavailable_is_retried(aclient: AsyncClient, servicer: FakeServicer) -> None:
    servicer.refusals.append(Refusal(grpc.StatusCode.UNAVAILABLE, "draining"))
    assert (await aclient.encode("text")).shape == (DIM,)
    assert len(servicer.encoded) == 2


async def test_shed_and_unanswered_requests_are_sent_again(
    aclient: AsyncClient, servicer: FakeServicer
) -> None:
    shed = Refusal(
        grpc.StatusCode.RESOURCE_EXHAUSTED, "the queue is full", (("grpc-retry-pushback-ms", "1"),)
    )
    expected = await aclient.encode(TEXTS)
    servicer.refusals.extend([shed, shed])
    np.testing.assert_array_equal(await aclient.encode(TEXTS), expected)
    servicer.refusals.append(Refusal(grpc.StatusCode.UNAVAILABLE, "draining"))
    assert (await aclient.attend("text")).layers == (0, 1, 2)
    servicer.refusals.append(Refusal(grpc.StatusCode.UNAVAILABLE, "draining"))
    assert [piece async for piece in aclient.attention_pieces("text", AttentionSpec())]


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


async def test_the_timeout_bounds_the_whole_method(target: str) -> None:
    async with AsyncClient(target, timeout=0.0) as client:
        with pytest.raises(DeadlineExceeded):
            await client.encode(TEXTS)


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

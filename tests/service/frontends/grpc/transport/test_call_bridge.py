"""Calls as their coroutines see them.

Interrupted writes, late messages, disconnected callers.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from typing import Any

import pytest
from grpc import _server

from headlight_service.frontends.grpc.transport.call_bridge import Bridge
from headlight_service.frontends.grpc.transport.grpc_call import Call, CallerGone
from headlight_service.frontends.grpc.transport.message_queue import Messages, Missing
from tests.service.calls import until

SECONDS = 30


class Context:
    """The part of a gRPC call context that a Call uses."""

    def __init__(self) -> None:
        self.ended: Any = None

    def time_remaining(self) -> float:
        return 1e10  # as of a call without a deadline

    def is_active(self) -> bool:
        return True

    def add_callback(self, callback: Any) -> bool:
        self.ended = callback
        return True


def call(bridge: Bridge, context: Context) -> Call:
    given: Any = context
    return Call(given, bridge)


async def test_no_message_is_sent_during_an_abandoned_send() -> None:
    """gRPC counts sends by name.

    A concurrent second one would never end, nor would the call.
    """
    bridge, taken, sent = Bridge(), threading.Event(), list[bytes | None]()
    writer = call(bridge, Context())

    def send(message: bytes | None) -> None:
        sent.append(message)
        assert taken.wait(SECONDS)

    writer.send = send
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await writer.write(b"1")
    with pytest.raises(CallerGone):
        await writer.write(b"2")
    assert sent == [b"1"]
    taken.set()
    await until(lambda: not writer._unsent)
    await writer.write(b"3")
    assert sent == [b"1", b"3"]


@pytest.mark.parametrize("late", [False, True])
async def test_a_call_that_ends_before_its_first_step_still_runs_it(late: bool) -> None:
    """Otherwise it would be counted as started and never as ended."""
    context, steps = Context(), list[str]()
    bridge = Bridge()
    gone = call(bridge, context)
    assert gone.attach(gone.end)
    assert context.ended == gone.end

    async def answer() -> None:
        steps.append("begun")
        await asyncio.Event().wait()

    if not late:
        gone.end()
    results: list[Any] = []
    gone.start(answer(), results.append)
    gone.acts.append(lambda: steps.append("over"))
    if late:
        gone.end()
    await until(lambda: len(steps) == 2)
    assert steps == ["begun", "over"]
    assert results == [Missing.GONE]


async def test_resources_of_a_call_are_released_in_reverse_order() -> None:
    """So that it is in flight until all else is released; shutdown waits for that."""
    answered, steps = call(Bridge(), Context()), list[str]()
    for step in ("in flight", "held", "traced"):
        answered.acts.append(functools.partial(steps.append, step))
    answered.handled()
    assert steps == []
    answered.end()
    assert steps == ["traced", "held", "in flight"]


async def test_callbacks_posted_from_threads_run_in_order() -> None:
    bridge, seen = Bridge(), list[int]()

    def post() -> None:
        for number in range(1000):
            bridge.post(lambda number=number: seen.append(number))  # type: ignore[misc]

    await asyncio.to_thread(post)
    await until(lambda: len(seen) == 1000)
    assert seen == list(range(1000))


async def test_a_stream_is_read_on_demand() -> None:
    messages, read = Messages(), list[bytes]()

    def reader() -> None:
        while messages.requested():
            read.append(bytes([len(read)]))
            loop.call_soon_threadsafe(messages.put, read[-1])

    loop = asyncio.get_running_loop()
    reading = asyncio.create_task(asyncio.to_thread(reader))
    assert [await anext(messages), await anext(messages)] == [b"\0", b"\1"]
    messages.close()
    await reading
    assert len(read) == 2


async def test_an_unserialisable_answer_does_not_end_the_stream() -> None:
    writer, sent = call(Bridge(), Context()), list[bytes | None]()
    writer.send = sent.append
    with pytest.raises(TypeError):
        await writer.write(object())
    await writer.write(b"1")
    assert sent == [b"1"]


async def test_a_failing_transport_does_not_block_the_writer() -> None:
    writer = call(Bridge(), Context())

    def fail(message: bytes | None) -> None:
        raise ValueError("too many operations")

    writer.send = fail
    async with asyncio.timeout(SECONDS):
        with pytest.raises(CallerGone):
            await writer.write(b"1")


def test_grpc_still_has_the_internals_that_interrupt_needs() -> None:
    """`Call.interrupt` depends on it; without it such callers are reset without a reason."""
    context = _server._Context(None, _server._RPCState(), None)  # type: ignore[no-untyped-call]
    assert hasattr(context._state, "condition")
    assert hasattr(context._state, "request")

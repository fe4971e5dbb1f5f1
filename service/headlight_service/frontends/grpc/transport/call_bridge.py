"""Calls of the thread-based gRPC server: unary ones on their threads, streams on the event loop.

A thread of the server takes a call and reads its message. That of a unary call answers it; that of
a stream hands messages to a coroutine and reads on. grpc.aio would need no threads, and ends with
the first path that is not UTF-8 (docs/decisions/0001-grpc-transport.md).
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Protocol, TypeAlias

import grpc

from headlight_service.frontends.grpc.grpc_status import Refusal
from headlight_service.frontends.grpc.transport.call_threads import CallThreads
from headlight_service.frontends.grpc.transport.grpc_call import Call, attempt
from headlight_service.frontends.grpc.transport.message_queue import Messages, Missing

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"  # generic in the stubs alone


class Method(Protocol):
    """A method of a service."""

    def check(self, call: Call) -> bool:
        """Return whether the message of a call is to be read. On the call's thread; never raises."""

    def leave(self) -> None:
        """Note that the thread of a call has ended."""

    def unary(self, call: Call, message: bytes | Missing) -> bytes | Refusal | Missing:
        """Answer a call of one message with one. On the call's thread; never raises."""

    async def stream(self, call: Call, messages: bytes | Missing | Messages) -> Refusal | None:
        """Answer a call of one message, or of many, with writes; return how it failed."""

    @property
    def waiting(self) -> Waiting:
        """The watch over callers that send nothing."""


class Waiting(Protocol):
    """Calls whose message has not come."""

    def add(self, call: Call) -> None:
        """One more is waited for. On its thread."""

    def discard(self, call: Call) -> None:
        """It has come, or never will. On its thread."""


class Bridge:
    """Between the threads of a gRPC server and the event loop.

    Attributes:
        threads: the executor of the server.
        live: calls that are not over.
    """

    def __init__(self) -> None:
        """Belong to the running event loop."""
        self.threads = CallThreads()
        self.live: set[Call] = set()
        self._loop = asyncio.get_running_loop()
        self._posted: deque[Callable[[], object]] = deque()
        self._woken = False
        self._abandoned = False

    def post(self, act: Callable[[], object]) -> None:
        """Call `act` on the event loop. From any thread; what comes together wakes the loop once."""
        self._posted.append(act)
        if not self._woken:
            self._woken = True
            try:
                self._loop.call_soon_threadsafe(self._run)
            except RuntimeError:  # the loop has ended
                self._posted.clear()

    def _run(self) -> None:
        self._woken = False
        while self._posted:
            attempt(self._posted.popleft())

    def abandon(self) -> None:
        """End all calls, now and later: their server is lost, or stopped, and tells of no end. On the loop."""
        self._abandoned = True
        for call in [*self.live]:
            call.abandon()

    def unary(self, method: Method) -> Handler:
        """A handler of one message for one; its thread answers it."""

        def answer(requests: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
            call = Call(context, self)
            try:
                message = self._receive(call, method, requests, call.end)
                self.live.add(call)
                if self._abandoned:
                    call.abandon()
                try:
                    answer = method.unary(call, message)
                finally:
                    call.handled()
                return call.give(answer)
            finally:
                method.leave()

        # A stream, of which one message is read: left to read it itself, gRPC never answers a call
        # that ends without one.
        return grpc.stream_unary_rpc_method_handler(answer)

    def unary_stream(self, method: Method) -> Handler:
        """A handler of one message for many; it holds no thread once the message has come."""

        def take(call: Call, requests: Iterator[bytes]) -> None:
            message = self._receive(call, method, requests, lambda: self.post(call.end))
            self.post(lambda: self._start(call, lambda: method.stream(call, message), call.finish))

        return self._streaming(method, take)

    def stream_stream(self, method: Method) -> Handler:
        """A handler of many messages for many; its thread reads them."""

        def take(call: Call, requests: Iterator[bytes]) -> None:
            messages = Messages()

            def then(ending: Refusal | Missing | None) -> None:
                messages.close()
                call.finish(ending)

            given = messages if method.check(call) else Missing.UNREAD
            call.attach(lambda: self.post(call.end))
            self.post(lambda: self._start(call, lambda: method.stream(call, given), then))
            self._read(call, requests, messages)

        return self._streaming(method, take)

    def _streaming(self, method: Method, take: Callable[[Call, Iterator[bytes]], None]) -> Handler:
        """A handler that sends by callback: the mode that grpcio's own health service is built on."""

        def answer(
            requests: Iterator[bytes], context: grpc.ServicerContext, send: Callable[[bytes | None], None]
        ) -> None:
            call = Call(context, self)
            call.send = send
            try:
                take(call, requests)
            finally:
                method.leave()

        answer.experimental_non_blocking = True  # type: ignore[attr-defined]
        return grpc.stream_stream_rpc_method_handler(answer)

    def _read(self, call: Call, requests: Iterator[bytes], messages: Messages) -> None:
        """Read a stream as its messages are wanted, to its end."""
        while messages.wanted():
            message = call.receive(requests)
            came = None if isinstance(message, Missing) else message
            self.post(functools.partial(messages.put, came))
            if came is None:
                return
            del message, came  # an idle stream holds none

    def _receive(
        self, call: Call, method: Method, requests: Iterator[bytes], end: Callable[[], None]
    ) -> bytes | Missing:
        """The message of a call that has one. On the call's thread."""
        wanted = method.check(call)
        if not call.attach(end):
            return Missing.GONE
        if not wanted:
            return Missing.UNREAD
        method.waiting.add(call)
        try:
            return call.receive(requests)
        finally:
            method.waiting.discard(call)

    def _start(
        self,
        call: Call,
        coroutine: Callable[[], Coroutine[Any, Any, Any]],
        then: Callable[[Any], None],
    ) -> None:
        self.live.add(call)
        try:
            call.start(coroutine(), then)
        except Exception:
            self.live.discard(call)
            then(Missing.GONE)
            raise
        if self._abandoned:
            call.abandon()

"""Bridge of the thread-based gRPC server: unary calls on their threads, streams on the event loop.

A thread of the server takes a call and reads its message. A unary call is answered on that thread.
A stream's thread hands messages to a coroutine and continues to read. grpc.aio would need no
threads, but the first path that is not UTF-8 ends it (docs/decisions/0001-grpc-transport.md).
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import grpc

from headlight_service.frontends.grpc.grpc_status import ErrorStatus
from headlight_service.frontends.grpc.transport.call_threads import CallThreads
from headlight_service.frontends.grpc.transport.grpc_call import Call, attempt
from headlight_service.frontends.grpc.transport.message_queue import Messages, Missing

if TYPE_CHECKING:
    from headlight_service.frontends.grpc.peer_timeouts import Arrivals

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"  # generic only in the stubs


class Method(Protocol):
    """A method of a service."""

    def check(self, call: Call) -> bool:
        """Return whether to read the message of a call. On the call's thread; never raises."""

    def leave(self) -> None:
        """Record that the thread of a call has ended."""

    def unary(self, call: Call, message: bytes | Missing) -> bytes | ErrorStatus | Missing:
        """Answer a call of one message with one. On the call's thread; never raises."""

    async def stream(self, call: Call, messages: bytes | Missing | Messages) -> ErrorStatus | None:
        """Answer a call of one message, or of many, with writes; return its failure."""

    @property
    def waiting(self) -> Arrivals:
        """The request timeouts of calls whose client sends nothing."""


class Bridge:
    """Connection between the threads of a gRPC server and the event loop.

    Attributes:
        threads: the executor of the server.
        live: calls that are not over.
    """

    def __init__(self) -> None:
        """Use the running event loop."""
        self.threads = CallThreads()
        self.live: set[Call] = set()
        self._loop = asyncio.get_running_loop()
        self._posted: deque[Callable[[], object]] = deque()
        self._woken = False
        self._abandoned = False

    def post(self, act: Callable[[], object]) -> None:
        """Call `act` on the event loop. From any thread; posts that come together wake it once."""
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
        """End all calls, now and later: a lost or stopped server reports no end. On the loop."""
        self._abandoned = True
        for call in [*self.live]:
            call.abandon()

    def unary(self, method: Method) -> Handler:
        """Return a handler that answers one message with one, on the call's thread."""

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

        # A stream, of which one message is read: if gRPC reads the message itself, it never answers
        # a call that ends without one.
        return grpc.stream_unary_rpc_method_handler(answer)

    def unary_stream(self, method: Method) -> Handler:
        """Return a handler that answers one message with many; then it holds no thread."""

        def take(call: Call, requests: Iterator[bytes]) -> None:
            message = self._receive(call, method, requests, lambda: self.post(call.end))
            self.post(lambda: self._start(call, lambda: method.stream(call, message), call.finish))

        return self._streaming(method, take)

    def stream_stream(self, method: Method) -> Handler:
        """Return a handler that answers many messages with many; the call's thread reads them."""

        def take(call: Call, requests: Iterator[bytes]) -> None:
            messages = Messages()

            def then(ending: ErrorStatus | Missing | None) -> None:
                messages.close()
                call.finish(ending)

            given = messages if method.check(call) else Missing.UNREAD
            call.attach(lambda: self.post(call.end))
            self.post(lambda: self._start(call, lambda: method.stream(call, given), then))
            self._read(call, requests, messages)

        return self._streaming(method, take)

    def _streaming(self, method: Method, take: Callable[[Call, Iterator[bytes]], None]) -> Handler:
        """Return a handler that sends by callback, the mode of grpcio's own health service."""

        def answer(
            requests: Iterator[bytes],
            context: grpc.ServicerContext,
            send: Callable[[bytes | None], None],
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
        """Read the messages of a stream as they are requested, to its end."""
        while messages.requested():
            message = call.receive(requests)
            came = None if isinstance(message, Missing) else message
            self.post(functools.partial(messages.put, came))
            if came is None:
                return
            del message, came  # an idle stream holds none

    def _receive(
        self, call: Call, method: Method, requests: Iterator[bytes], end: Callable[[], None]
    ) -> bytes | Missing:
        """Return the message of a call that has one. On the call's thread."""
        expected = method.check(call)
        if not call.attach(end):
            return Missing.GONE
        if not expected:
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

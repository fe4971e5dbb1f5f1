"""One call of the thread-based gRPC server."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any

import grpc

from headlight.refusals import CONTRACT, Edge
from headlight_service.frontends.grpc.grpc_status import ErrorStatus
from headlight_service.frontends.grpc.transport.message_queue import Missing
from headlight_service.telemetry.json_logs import describe

if TYPE_CHECKING:
    from headlight_service.frontends.grpc.transport.call_bridge import Bridge
    from headlight_service.telemetry.request_trace import RequestTrace

log = logging.getLogger("headlight_service.frontends.grpc.transport.grpc_call")
NO_DEADLINE_SECONDS = 1e9  # gRPC returns a number of that order for a call without a deadline


class CallerGone(Exception):
    """The call ended before its answer was sent: cancelled, expired, or its connection is lost."""


class Call:
    """One call. Its handler runs on the call's thread; a stream's in a task of the event loop.

    Attributes:
        context: gRPC's context of the call: peer, metadata, certificate, status.
        begun: its arrival, on time.perf_counter.
        deadline: deadline on time.monotonic; infinity without one.
        token_name: name of the client by its token; None without tokens.
        client: its caller; see `Request`.
        refused: the reason why nothing of it is read.
        trace: its spans.
        edge: the words for its failure, of its protocol.
        serialize: encodes a written message to bytes.
        send: for a stream: sends a message of the answer; None sends its status.
        acts: called in reverse order after the handler has ended and the answer is sent, or never
            will be: a call is in flight until all else is done. On any thread; for a stream on the
            event loop.
    """

    def __init__(self, context: grpc.ServicerContext, bridge: Bridge) -> None:
        self.begun = time.perf_counter()
        remaining = context.time_remaining()
        self.deadline = (
            math.inf if remaining > NO_DEADLINE_SECONDS else time.monotonic() + remaining
        )
        self.token_name: str | None = None
        self.client: str = ""
        self.refused: Exception | None = None
        self.trace: RequestTrace | None = None
        self.edge: Edge = CONTRACT
        self.serialize: Callable[[Any], bytes] = bytes
        self.send: Callable[[bytes | None], None]
        self.context = context
        self._bridge = bridge
        self._lock = threading.Lock()
        self.acts: list[Callable[[], object]] = []
        self._cancel: Callable[[], object] | None = None
        self._over = False  # gRPC has nothing more to do for it
        self._handled = False  # its handler has ended
        self._unsent = False  # the transport has a message, though its writer may have given up

    def set_code(self, code: grpc.StatusCode) -> None:
        """Set the status to count; called by generated code for a method that is missing."""
        self.context.set_code(code)

    def set_details(self, details: str) -> None:
        """Set the message of that status."""
        self.context.set_details(details)

    def on_disconnect(self, cancel: Callable[[], object]) -> None:
        """Call `cancel` if the call ends before its handler; at once if it has. On any thread."""
        self._cancel = cancel
        if self._over:
            cancel()

    async def write(self, response: Any) -> None:
        """Send one message of a stream; return when the transport has taken it.

        Raises:
            CallerGone: the client no longer reads.
        """
        if self._over or self._unsent:  # gRPC sends one message of a call at a time
            raise CallerGone
        message = self.serialize(response)
        self._unsent = True
        sent: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._bridge.threads.submit(self._write, message, sent)
        if not await sent:
            raise CallerGone

    def interrupt(self) -> None:
        """Wake the thread that waits for the message, which is then Missing.LATE. From any thread.

        gRPC's public interface can only reset such a call, without a reason for the client.
        """
        state = getattr(self.context, "_state", None)
        if state is None:
            self.context.cancel()  # type: ignore[no-untyped-call]
            return
        with state.condition:
            if state.request is None:
                state.request = Missing.LATE
            state.condition.notify_all()

    # The methods below are for the bridge.

    def attach(self, end: Callable[[], None]) -> bool:
        """Have `end` called when the call is over; at once, with False returned, if it is over."""
        attached = self.context.add_callback(end)
        if not attached:
            end()
        return attached

    def start(self, coroutine: Coroutine[Any, Any, Any], then: Callable[[Any], None]) -> None:
        """Run the handler in a task; `then` receives its result, or Missing.GONE."""
        loop = asyncio.get_running_loop()
        task = loop.create_task(coroutine)

        def done(task: asyncio.Task[Any]) -> None:
            ended = task.cancelled() or task.exception() is not None
            try:
                then(Missing.GONE if ended else task.result())
            finally:
                self.handled()

        task.add_done_callback(done)
        # After the task's first step; an earlier cancellation would leave the call uncounted.
        self.on_disconnect(lambda: loop.call_soon(task.cancel))

    def handled(self) -> None:
        """Record that the handler has ended."""
        with self._lock:
            self._handled = True
            over = self._over
        self._cancel = None
        if over:
            self._settle()

    def end(self) -> None:
        """Record that the call is over, for gRPC or because its server is lost."""
        with self._lock:
            if self._over:
                return
            self._over = True
            handled, cancel = self._handled, self._cancel
        if handled:
            self._settle()
        elif cancel is not None:
            cancel()

    def abandon(self) -> None:
        """End the call of a server that will not report its end; its thread is released."""
        if self.context.code() is None:  # type: ignore[attr-defined]  # not in the stubs
            self.context.set_code(grpc.StatusCode.UNAVAILABLE)
        self.interrupt()
        self.end()

    def _settle(self) -> None:
        self._bridge.live.discard(self)
        acts, self.acts = self.acts, []
        attempt(*reversed(acts))

    def _write(self, message: bytes, sent: asyncio.Future[bool]) -> None:
        taken = False

        def settle() -> None:
            self._unsent = False
            if not sent.done():
                sent.set_result(taken)

        try:
            self.send(message)
            taken = self.context.is_active()
        finally:
            self._bridge.post(settle)

    def receive(self, requests: Iterator[bytes]) -> bytes | Missing:
        """Wait for the next message. On the call's thread."""
        try:
            return next(requests, Missing.EMPTY)
        except grpc.RpcError:
            return Missing.GONE

    def finish(self, ending: ErrorStatus | Missing | None) -> None:
        """End a stream with its status; None: OK. Does not wait."""
        if isinstance(ending, ErrorStatus):
            self.context.set_trailing_metadata(ending.trailing_metadata)
            self.context.set_code(ending.status)
            self.context.set_details(ending.message)
        elif ending is not None:
            self.context.set_code(grpc.StatusCode.CANCELLED)
        self.send(None)

    def give(self, answer: bytes | ErrorStatus | Missing) -> bytes:
        """Return the answer of a unary call to gRPC, or raise to end it with a status."""
        if isinstance(answer, bytes):
            return answer
        if isinstance(answer, Missing):
            self.context.abort(grpc.StatusCode.CANCELLED, "")
        self.context.set_trailing_metadata(answer.trailing_metadata)
        self.context.abort(answer.status, answer.message)


def attempt(*acts: Callable[[], object]) -> None:
    """Call each in order. A bug in one is logged, and the others still run."""
    for act in acts:
        try:
            act()
        except Exception as error:
            log.error("a step of a call failed", extra={"event": "call_failed", **describe(error)})

"""Around every RPC: decode the request, count and time the call, turn whatever goes wrong into a status for the caller.

Left alone, gRPC would answer malformed messages and unexpected exceptions with UNKNOWN and the exception's text.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import grpc
from google.protobuf.message import DecodeError
from prometheus_client import Counter

from headlight.errors import InvalidInput, Overloaded
from headlight_service.frontends.grpc.grpc_status import Refusal, gone, refusal
from headlight_service.frontends.grpc.in_flight_calls import InFlight, Stay
from headlight_service.frontends.grpc.request_timeout import Arrivals, no_more
from headlight_service.frontends.grpc.transport.call_bridge import Bridge, Handler
from headlight_service.frontends.grpc.transport.call_threads import CallThreads
from headlight_service.frontends.grpc.transport.grpc_call import Call, CallerGone
from headlight_service.frontends.grpc.transport.message_queue import Messages, Missing
from headlight_service.security.authentication import EXEMPT, Gate
from headlight_service.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from headlight_service.telemetry.otlp import Tracing
    from headlight_service.telemetry.request_trace import RequestTrace

T = TypeVar("T")
UNDECODABLE = "the message cannot be decoded; is the client built from this server's .proto?"
NO_MESSAGE = "the call ended without a message; send one"
BUSY = "too many calls are open on this replica; close idle streams, or try another replica"
BUSY_SECONDS = 1.0
PROBE_SECONDS, PROBE_BYTES = 2.0, 1024  # for the message of a call to the health service, and of its size
OURS = "/headlight."
ABORT_SECONDS = 1.0
SENDING_SECONDS = 0.01  # for a message on its way: a client of grpc.aio takes a refusal meanwhile for INTERNAL
TRANSIT_SECONDS = 0.05  # that a call may have been on its way; of a short one less


class _Series:
    """The metrics of one method."""

    def __init__(self, metrics: Metrics, kind: str, service: str, method: str) -> None:
        labels = (kind, service, method)
        self._handled = metrics.grpc_handled
        self._labels = labels
        self._by_code: dict[grpc.StatusCode, Counter] = {}  # to find one by its labels takes longer than to count
        self.started = metrics.grpc_started.labels(*labels)
        self.seconds = metrics.grpc_seconds.labels(*labels)

    def handled(self, code: grpc.StatusCode) -> None:
        counter = self._by_code.get(code)
        if counter is None:
            counter = self._by_code[code] = self._handled.labels(*self._labels, code.name)
        counter.inc()


class Interceptor(grpc.ServerInterceptor):  # type: ignore[type-arg]  # generic in the stubs alone
    """Wraps each method's handler, once. It runs on the thread that serves all calls."""

    def __init__(
        self,
        bridge: Bridge,
        metrics: Metrics,
        in_flight: InFlight,
        arrivals: Arrivals,
        gate: Gate | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        self._bridge = bridge
        self._metrics = metrics
        self._tracing = tracing
        self._in_flight = in_flight
        self._arrivals = arrivals
        self._probes = Arrivals(PROBE_SECONDS, PROBE_BYTES)
        self._gate = gate
        self._wrapped: dict[str, Handler] = {}
        self._unknown = _Series(metrics, "unary", "other", "other")  # whatever name a caller invents

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Handler | None],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        method = handler_call_details.method
        wrapped = self._wrapped.get(method)
        if wrapped is not None:
            return wrapped
        handler = continuation(handler_call_details)
        if handler is None:
            self._unknown.started.inc()
            self._unknown.handled(grpc.StatusCode.UNIMPLEMENTED)
            return None
        self._wrapped[method] = wrapped = self._wrap(handler, method)
        return wrapped

    def _wrap(self, handler: Handler, method: str) -> Handler:
        _, service, name = method.split("/")
        ours = method.startswith(OURS)
        probe = method.startswith(EXEMPT)
        guard = _Guard(
            _Series(self._metrics, _kind(handler), service, name),
            self._in_flight if ours else InFlight(),
            self._probes if probe else self._arrivals,
            handler,
            None if probe else self._gate,
            self._bridge.threads,
            functools.partial(self._tracing.call, service, name) if ours and self._tracing is not None else None,
            probe=probe,
        )
        if not handler.response_streaming:
            return self._bridge.unary(guard)
        if handler.request_streaming:
            return self._bridge.stream_stream(guard)
        return self._bridge.unary_stream(guard)


class _Guard:
    """The wrapped behaviours of one method. They take bytes, so that undecodable ones are answered like any other."""

    def __init__(
        self,
        series: _Series,
        in_flight: InFlight,
        arrivals: Arrivals,
        handler: Handler,
        gate: Gate | None,
        threads: CallThreads,
        trace: Callable[[Any], RequestTrace] | None,
        *,
        probe: bool,
    ) -> None:
        """Wrap the behaviour of `handler`. Calls to the health service, a `probe`, are let in while `threads` are busy."""
        self._series = series
        self._gate = gate
        self._threads = threads
        self._probe = probe
        self._trace = trace
        self._in_flight = in_flight
        self.waiting = arrivals
        self._handler: Any = handler  # its behaviours are untyped

    def check(self, call: Call) -> bool:
        """Return whether the message of a call is to be read. On the call's thread; never raises."""
        self._series.started.inc()
        try:
            if self._probe:
                if not self._threads.add_probe():
                    self.waiting.interrupt_oldest()
            elif self._threads.should_refuse(self._handler.request_streaming):
                raise Overloaded(BUSY, BUSY_SECONDS)
            elif self._gate is not None:
                self._gate.identify(call)
        except Exception as error:  # `_answer` makes a status of it
            call.refused = error
        return call.refused is None and not self._in_flight.closed

    def leave(self) -> None:
        """Note that the thread of a call has ended."""
        if self._probe:
            self._threads.remove_probe()

    async def unary(self, call: Call, message: bytes | Missing) -> bytes | Refusal:
        """Answer a call of one message with one."""

        async def respond(stay: Stay) -> bytes:
            response = await self._handler.unary_unary(await self._message(call, message, stay), call)
            # Large answers come serialised, by whoever could do it off the event loop.
            return response if isinstance(response, bytes) else bytes(self._handler.response_serializer(response))

        return await self._answer(respond, call)

    async def stream(self, call: Call, messages: bytes | Missing | Messages) -> Refusal | None:
        """Answer a call of one message, or of many, with writes; return how it failed."""

        async def respond(stay: Stay) -> None:
            if not isinstance(messages, Messages):
                await self._send(await self._message(call, messages, stay), call)
                return
            await stay.enter()
            await self._send(self._decoded(messages), call)

        refused = await self._answer(respond, call)
        if refused is not None and self._handler.request_streaming:
            await asyncio.sleep(SENDING_SECONDS)
        return refused

    async def _decoded(self, messages: Messages) -> AsyncIterator[Any]:
        with contextlib.suppress(StopAsyncIteration):
            while True:  # without a name for the message, which an idle stream would keep
                yield self._decode(await anext(messages))

    async def _message(self, call: Call, message: bytes | Missing, stay: Stay) -> Any:
        """The message of a call that has one. Who never sends it must not hold up the end, and so is not yet counted in."""
        await self._in_flight.admit()  # nothing is read of one that is not
        if message is Missing.LATE:
            raise self.waiting.late(call)
        if message is Missing.EMPTY:
            await no_more()
            raise InvalidInput("", NO_MESSAGE)
        if isinstance(message, Missing):
            raise CallerGone
        await stay.enter()
        return self._decode(message)

    def _decode(self, request: bytes) -> Any:
        try:
            return self._handler.request_deserializer(request)
        except (DecodeError, UnicodeDecodeError):
            raise InvalidInput("", UNDECODABLE) from None

    async def _send(self, request: Any, call: Call) -> None:
        """Run a streaming behaviour of either style: a coroutine that writes, or a generator."""
        call.serialize = self._handler.response_serializer
        behaviour = self._handler.stream_stream or self._handler.unary_stream
        if not inspect.isasyncgenfunction(behaviour):
            await behaviour(request, call)
            return
        async for response in behaviour(request, call):
            await call.write(response)

    async def _answer(self, respond: Callable[[Stay], Awaitable[T]], call: Call) -> T | Refusal:
        code: grpc.StatusCode | None = None
        spans: RequestTrace | None = None
        stay = Stay(self._in_flight, call)
        try:
            if call.refused is not None:
                refusing, call.refused = call.refused, None
                raise refusing
            if self._gate is not None:
                self._gate.account(call)
            if self._trace is not None:  # of whom was let in: others choose neither what is traced nor how much
                spans = self._trace(call.invocation_metadata())
            answer = await respond(stay)
            call.when_over(functools.partial(self._answered, call, spans))
            return answer
        except (asyncio.CancelledError, CallerGone) as error:
            code = _cancelled(call.deadline - time.monotonic(), time.perf_counter() - call.begun)
            gone(code, call)
            call.when_over(functools.partial(_forget, error))
            raise
        except Exception as error:
            refused = refusal(error, call)
            code = refused.status
        finally:
            if code is not None:
                self._ended(code, spans)
            self._series.seconds.observe(time.perf_counter() - call.begun)
        # Here the exception is gone, and with it the request, to which its frames refer. One who does
        # not read its status does not hold up the end.
        late = asyncio.get_running_loop().call_later(ABORT_SECONDS, stay.leave)
        call.when_over(late.cancel)
        return refused

    def _answered(self, call: Call, spans: RequestTrace | None) -> None:
        """All was sent, or the caller was cut for taking too long; then the call has a code."""
        self._ended(call.code() or grpc.StatusCode.OK, spans)

    def _ended(self, code: grpc.StatusCode, spans: RequestTrace | None) -> None:
        self._series.handled(code)
        if spans is not None:
            spans.end(code)


def _forget(error: BaseException) -> None:
    """Let go of the frames that an exception has passed, which hold the request and the answer.

    TaskGroup keeps a cancellation with its frame: a circle, which only the garbage collector would break.
    """
    error.__traceback__ = error.__context__ = None


def _cancelled(left: float, seconds: float) -> grpc.StatusCode:
    """Why a call was cancelled: by its deadline, which passes for its caller a little sooner, or by choice.

    Args:
        left: seconds to its deadline; infinity without one.
        seconds: that it lasted.
    """
    late = left <= min(TRANSIT_SECONDS, seconds / 3)
    return grpc.StatusCode.DEADLINE_EXCEEDED if late else grpc.StatusCode.CANCELLED


def _kind(handler: Handler) -> str:
    if handler.request_streaming:
        return "bidi_stream" if handler.response_streaming else "client_stream"
    return "server_stream" if handler.response_streaming else "unary"

"""Around every RPC: decode the request, count and time the call, turn whatever goes wrong into a status for the caller.

Left alone, gRPC would answer malformed messages and unexpected exceptions with UNKNOWN and the exception's text.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.message import DecodeError
from prometheus_client import Counter

from headlight.errors import InvalidInput, Overloaded
from headlight_service.frontends.grpc.grpc_status import Refusal, gone, refusal
from headlight_service.frontends.grpc.in_flight_calls import InFlight
from headlight_service.frontends.grpc.peer_timeouts import Arrivals, has_hung_up, no_more
from headlight_service.frontends.grpc.transport.call_bridge import Bridge, Handler
from headlight_service.frontends.grpc.transport.call_threads import CallThreads
from headlight_service.frontends.grpc.transport.grpc_call import Call, CallerGone
from headlight_service.frontends.grpc.transport.message_queue import Messages, Missing
from headlight_service.security.authentication import EXEMPT, Gate
from headlight_service.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from headlight_service.telemetry.otlp import Tracing
    from headlight_service.telemetry.request_trace import RequestTrace

UNDECODABLE = "the message cannot be decoded; is the client built from this server's .proto?"
NO_MESSAGE = "the call ended without a message; send one"
BUSY = "too many calls are open on this replica; close idle streams, or try another replica"
BUSY_SECONDS = 1.0
PROBE_SECONDS, PROBE_BYTES = 2.0, 1024  # for the message of a call to the health service, and of its size
OURS = "/headlight."
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

    def unary(self, call: Call, message: bytes | Missing) -> bytes | Refusal | Missing:
        """Answer a call of one message with one. On the call's thread."""
        try:
            self._let_in(call)
            self._in_flight.wait_told()  # nothing is read of a call that is not let in
            if message is Missing.EMPTY and has_hung_up(call):
                raise CallerGone
            response = self._handler.unary_unary(self._message(call, message), call)
            # Ours come serialised.
            answer = response if isinstance(response, bytes) else self._handler.response_serializer(response)
            call.acts.append(functools.partial(self._answered, call))
            return bytes(answer)
        except (CancelledError, CallerGone):
            self._gone(call)
            return Missing.GONE
        except Exception as error:
            return self._refused(call, error)
        finally:
            self._series.seconds.observe(time.perf_counter() - call.begun)

    async def stream(self, call: Call, messages: bytes | Missing | Messages) -> Refusal | None:
        """Answer a call of one message, or of many, with writes; return how it failed."""
        try:
            self._let_in(call)
            await self._in_flight.wait_told_async()
            if isinstance(messages, Messages):
                self._in_flight.enter(call)
                await self._send(self._decoded(messages), call)
            else:
                if messages is Missing.EMPTY:
                    await no_more()
                await self._send(self._message(call, messages), call)
            call.acts.append(functools.partial(self._answered, call))
            return None
        except (asyncio.CancelledError, CallerGone) as error:
            self._gone(call)
            call.acts.append(functools.partial(_forget, error))
            raise
        except Exception as error:
            refused = self._refused(call, error)
        finally:
            self._series.seconds.observe(time.perf_counter() - call.begun)
        # Here the exception is gone, and with it the request, to which its frames refer.
        if self._handler.request_streaming:
            await asyncio.sleep(SENDING_SECONDS)
        return refused

    async def _decoded(self, messages: Messages) -> AsyncIterator[Any]:
        with contextlib.suppress(StopAsyncIteration):
            while True:  # without a name for the message, which an idle stream would keep
                yield self._decode(await anext(messages))

    def _let_in(self, call: Call) -> None:
        """Say whose call it is. Raises why it is refused."""
        if call.refused is not None:
            refusing, call.refused = call.refused, None
            raise refusing
        if self._gate is not None:
            call.client = self._gate.client(call)
        if self._trace is not None:  # of callers that were let in: others choose neither what is traced nor how much
            call.trace = self._trace(call.invocation_metadata())

    def _message(self, call: Call, message: bytes | Missing) -> Any:
        """The message of a call that has one. A caller that never sends it holds up no end: it is not counted in."""
        if message is Missing.LATE:
            raise self.waiting.late(call)
        if message is Missing.EMPTY:
            raise InvalidInput("", NO_MESSAGE)
        if isinstance(message, Missing):
            raise CallerGone
        self._in_flight.enter(call)
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

    def _gone(self, call: Call) -> None:
        """Count a call whose caller has left."""
        code = _cancelled(call.deadline - time.monotonic(), time.perf_counter() - call.begun)
        gone(code, call, call.trace)
        self._ended(call, code)

    def _refused(self, call: Call, error: Exception) -> Refusal:
        """Count a call that failed; returns its status."""
        refused = refusal(error, call, call.trace)
        self._in_flight.refused(call)
        self._ended(call, refused.status)
        return refused

    def _answered(self, call: Call) -> None:
        """All was sent, or the caller was cut for taking too long; then the call has a code."""
        self._ended(call, call.code() or grpc.StatusCode.OK)

    def _ended(self, call: Call, code: grpc.StatusCode) -> None:
        self._series.handled(code)
        if call.trace is not None:
            call.trace.end(code)


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

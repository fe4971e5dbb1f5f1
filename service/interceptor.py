"""Around every RPC: decode the request, count and time the call, turn whatever goes wrong into a status for the caller.

Left alone, gRPC would answer malformed messages and unexpected exceptions with UNKNOWN and the exception's text.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

import grpc
from google.protobuf.message import DecodeError
from prometheus_client import Counter

from headlight.errors import InvalidInput
from service.arriving import Arrivals, Arriving, no_more
from service.deadline import deadline_of
from service.gate import EXEMPT, Gate
from service.inflight import InFlight, Stay
from service.metrics import Metrics
from service.sending import when_sent
from service.status import Refusal, gone, refusal

if TYPE_CHECKING:
    from service.spans import RequestSpans
    from service.telemetry import Tracing

T = TypeVar("T")
Context = grpc.aio.ServicerContext[Any, Any]
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"  # generic in the stubs alone
UNDECODABLE = "the message cannot be decoded; is the client built from this server's .proto?"
NO_MESSAGE = "the call ended without a message; send one"
OURS = "/headlight."
ABORT_SECONDS = 1.0
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


class Interceptor(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # the same
    """Wraps each method's handler, once."""

    def __init__(
        self,
        metrics: Metrics,
        in_flight: InFlight,
        arrivals: Arrivals,
        gate: Gate | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        self._metrics = metrics
        self._tracing = tracing
        self._in_flight = in_flight
        self._arrivals = arrivals
        self._gate = gate
        self._wrapped: dict[str, Handler] = {}
        self._unknown = _Series(metrics, "unary", "other", "other")  # whatever name a caller invents

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        method = handler_call_details.method
        wrapped = self._wrapped.get(method)
        if wrapped is not None:
            return wrapped
        handler: Handler | None = await continuation(handler_call_details)
        if handler is None:
            self._unknown.started.inc()
            self._unknown.handled(grpc.StatusCode.UNIMPLEMENTED)
            return handler  # type: ignore[return-value]  # how gRPC is told that there is none
        self._wrapped[method] = wrapped = self._wrap(handler, method)
        return wrapped

    def _wrap(self, handler: Handler, method: str) -> Handler:
        _, service, name = method.split("/")
        ours = method.startswith(OURS)
        guard = _Guard(
            _Series(self._metrics, _kind(handler), service, name),
            self._in_flight if ours else InFlight(),
            self._arrivals,
            handler,
            None if method.startswith(EXEMPT) else self._gate,
            functools.partial(self._tracing.call, service, name) if ours and self._tracing is not None else None,
        )
        # All take a stream: left to read the one message itself, gRPC never answers a call that ends without it. It costs
        # nothing, other than to look for a second message (a sixth of the speed of small calls): that one is never read.
        if not handler.response_streaming:
            return grpc.stream_unary_rpc_method_handler(guard.unary)
        behaviour = guard.stream_stream if handler.request_streaming else guard.unary_stream
        return grpc.stream_stream_rpc_method_handler(behaviour, response_serializer=handler.response_serializer)


class _Guard:
    """The wrapped behaviours of one method. They take bytes, so that undecodable ones are answered like any other."""

    def __init__(
        self,
        series: _Series,
        in_flight: InFlight,
        arrivals: Arrivals,
        handler: Handler,
        gate: Gate | None,
        trace: Callable[[Any], RequestSpans] | None,
    ) -> None:
        self._series = series
        self._gate = gate
        self._trace = trace
        self._in_flight = in_flight
        self._arrivals = arrivals
        self._handler: Any = handler  # its behaviours are untyped

    async def unary(self, _: AsyncIterator[bytes], context: Context) -> bytes:
        async def respond(stay: Stay) -> bytes:
            response = await self._handler.unary_unary(await self._message(context, stay), context)
            # Large answers come serialised, by whoever could do it off the event loop.
            return response if isinstance(response, bytes) else bytes(self._handler.response_serializer(response))

        return await self._guard(respond, context)

    async def unary_stream(self, _: AsyncIterator[bytes], context: Context) -> None:
        async def respond(stay: Stay) -> None:
            await _send(self._handler.unary_stream, await self._message(context, stay), context)

        await self._guard(respond, context)

    async def stream_stream(self, requests: AsyncIterator[bytes], context: Context) -> None:
        async def decoded() -> AsyncIterator[Any]:
            async for request in requests:
                yield self._decode(request)

        async def respond(stay: Stay) -> None:
            await stay.enter()
            await _send(self._handler.stream_stream, decoded(), context)

        await self._guard(respond, context)

    async def _message(self, context: Context, stay: Stay) -> Any:
        """The message of a call that has one. Who never sends it must not hold up the end, and so is not yet counted in."""
        await self._in_flight.admit()  # nothing is read of one that is not
        with Arriving(self._arrivals, context):
            request = await context.read()
        if request is grpc.aio.EOF:  # type: ignore[attr-defined]  # the stubs lack it
            await no_more()
            raise InvalidInput("", NO_MESSAGE)
        await stay.enter()
        return self._decode(request)

    def _decode(self, request: bytes) -> Any:
        try:
            return self._handler.request_deserializer(request)
        except (DecodeError, UnicodeDecodeError):
            raise InvalidInput("", UNDECODABLE) from None

    async def _guard(self, call: Callable[[Stay], Awaitable[T]], context: Context) -> T:
        try:
            return await self._answer(call, context)
        except BaseException as error:
            when_sent(functools.partial(_forget, error))
            raise

    async def _answer(self, call: Callable[[Stay], Awaitable[T]], context: Context) -> T:
        started, code = time.perf_counter(), None
        spans: RequestSpans | None = None
        self._series.started.inc()
        stay = Stay(self._in_flight)
        try:
            if self._gate is not None:
                self._gate.enter(context)
            if self._trace is not None:  # of whom was let in: others choose neither what is traced nor how much
                spans = self._trace(context.invocation_metadata())
            answer = await call(stay)
            when_sent(functools.partial(self._answered, context, spans))
            return answer
        except asyncio.CancelledError:
            code = _cancelled(context, time.perf_counter() - started)
            gone(code, context)
            raise
        except grpc.aio.AbortError:
            code = context.code()
            raise
        except grpc.aio.BaseError:  # the caller has gone while we wrote
            code = _cancelled(context, time.perf_counter() - started)
            gone(code, context)
            raise
        except Exception as error:
            refused = refusal(error, context)
            code = refused.status
        finally:
            if code is not None:
                self._ended(code, spans)
            self._series.seconds.observe(time.perf_counter() - started)
        # Here the exception is gone, and with it the request, to which its frames refer: the caller may let us wait.
        await _abort(context, refused, stay.leave)

    def _answered(self, context: Context, spans: RequestSpans | None) -> None:
        """All was sent, or the caller was cut for taking too long; then the call has a code."""
        code: grpc.StatusCode | None = context.code()  # the stubs do not know that it can be None
        self._ended(grpc.StatusCode.OK if code is None else code, spans)

    def _ended(self, code: grpc.StatusCode, spans: RequestSpans | None) -> None:
        self._series.handled(code)
        if spans is not None:
            spans.end(code)


async def _abort(context: Context, refused: Refusal, leave: Callable[[], None]) -> NoReturn:
    """End a call with a status. It is delivered after all that was written before; one who does not read does not hold up the end."""
    late = asyncio.get_running_loop().call_later(ABORT_SECONDS, leave)
    try:
        await context.abort(refused.status, refused.message, refused.trailing_metadata)
    except grpc.aio.AbortError:
        raise
    except grpc.aio.BaseError:  # the caller has gone meanwhile
        raise asyncio.CancelledError from None  # how gRPC is told that a handler has ended with no more to say
    finally:
        late.cancel()


def _forget(error: BaseException) -> None:
    """Let go of the frames that an exception has passed, which hold the request and the answer.

    gRPC keeps the exception of an abort with the call, and TaskGroup that of a cancellation with its frame: circles, which only
    the garbage collector would break.
    """
    error.__traceback__ = error.__context__ = None


async def _send(behaviour: Any, request: Any, context: Context) -> None:
    """Run a streaming behaviour of either style: a coroutine that writes, or a generator."""
    if not inspect.isasyncgenfunction(behaviour):
        await behaviour(request, context)
        return
    async for response in behaviour(request, context):
        await context.write(response)


def _cancelled(context: Context, seconds: float) -> grpc.StatusCode:
    """Why a call that lasted so long was cancelled: by its deadline, which passes for its caller a little sooner, or by choice."""
    late = deadline_of(context) <= time.monotonic() + min(TRANSIT_SECONDS, seconds / 3)
    return grpc.StatusCode.DEADLINE_EXCEEDED if late else grpc.StatusCode.CANCELLED


def _kind(handler: Handler) -> str:
    if handler.request_streaming:
        return "bidi_stream" if handler.response_streaming else "client_stream"
    return "server_stream" if handler.response_streaming else "unary"

"""Interceptor of every RPC: decodes requests, counts and times calls, maps errors to statuses.

By itself, gRPC would answer malformed messages and unexpected exceptions with UNKNOWN and the
exception's text.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import inspect
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.message import DecodeError

from headlight.errors import InvalidInput, Overloaded, Reason, Unavailable
from headlight_service.frontends.grpc.grpc_status import ErrorStatus, error_status, gone
from headlight_service.frontends.grpc.in_flight_calls import InFlight
from headlight_service.frontends.grpc.peer_timeouts import Arrivals, has_hung_up, no_more
from headlight_service.frontends.grpc.transport.call_bridge import Bridge, Handler
from headlight_service.frontends.grpc.transport.call_threads import CallThreads
from headlight_service.frontends.grpc.transport.grpc_call import Call, CallerGone
from headlight_service.frontends.grpc.transport.message_queue import Messages, Missing
from headlight_service.security.authentication import EXEMPT, Authenticator
from headlight_service.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from headlight_service.telemetry.otlp import Tracing
    from headlight_service.telemetry.request_trace import RequestTrace

BUSY_SECONDS = 1.0
PROBE_SECONDS, PROBE_BYTES = 2.0, 1024  # limits for the message of a call to the health service
# The label `protocol` of the services whose calls are requests to the model, by the first part of
# their names.
PROTOCOLS = {"headlight": "grpc", "inference": "oip", "tei": "tei-grpc"}
OURS = tuple(f"/{name}." for name in PROTOCOLS)  # traced, and waited for by a drain
KINDS = {  # in the metrics, by whether requests and responses are streams
    (False, False): "unary",
    (True, False): "client_stream",
    (False, True): "server_stream",
    (True, True): "bidi_stream",
}
# Wait so long before refusing a stream: a grpc.aio client that is still sending would report
# INTERNAL.
REFUSAL_DELAY_SECONDS = 0.01
TRANSIT_SECONDS = 0.05  # that a call may have been on its way; less for a short one


class _Series:
    """The metrics of one method."""

    def __init__(self, metrics: Metrics, kind: str, service: str, method: str) -> None:
        labels = (kind, service, method)
        self.started = metrics.grpc_started.labels(*labels)
        self.seconds = metrics.grpc_seconds.labels(*labels)
        # By the name of the code; a lookup by labels takes longer than the count.
        self.handled = functools.cache(functools.partial(metrics.grpc_handled.labels, *labels))
        protocol = PROTOCOLS.get(service.partition(".")[0])
        self.requests = (
            None
            if protocol is None
            else functools.cache(functools.partial(metrics.requests.labels, protocol, method))
        )


class Interceptor(grpc.ServerInterceptor):  # type: ignore[type-arg]  # generic only in the stubs
    """Wrapper of each method's handler, made once. It runs on the thread that serves all calls."""

    def __init__(
        self,
        bridge: Bridge,
        metrics: Metrics,
        in_flight: InFlight,
        arrivals: Arrivals,
        authenticator: Authenticator | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        self._bridge = bridge
        self._metrics = metrics
        self._tracing = tracing
        self._in_flight = in_flight
        self._arrivals = arrivals
        self._probes = Arrivals(PROBE_SECONDS, PROBE_BYTES)
        self._authenticator = authenticator
        self._wrapped: dict[str, Handler] = {}
        self._unknown = _Series(metrics, "unary", "other", "other")  # any unknown name

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
            self._unknown.handled(grpc.StatusCode.UNIMPLEMENTED.name).inc()
            return None
        self._wrapped[method] = wrapped = self._wrap(handler, method)
        return wrapped

    def _wrap(self, handler: Handler, method: str) -> Handler:
        _, service, name = method.split("/")
        ours, probe = method.startswith(OURS), method.startswith(EXEMPT)
        streams = handler.request_streaming, handler.response_streaming
        guard = _Guard(
            handler,
            _Series(self._metrics, KINDS[streams], service, name),
            self._bridge.threads,
            in_flight=self._in_flight if ours else InFlight(),
            waiting=self._probes if probe else self._arrivals,
            authenticator=None if probe else self._authenticator,
            trace=functools.partial(self._tracing.call, service, name)
            if ours and self._tracing is not None
            else None,
            probe=probe,
        )
        if not handler.response_streaming:
            return self._bridge.unary(guard)
        return (
            self._bridge.stream_stream(guard)
            if handler.request_streaming
            else self._bridge.unary_stream(guard)
        )


@dataclasses.dataclass(slots=True, eq=False)
class _Guard:
    """The wrapped behaviours of one method; implements `call_bridge.Method`.

    They take bytes, so undecodable ones are answered, too.

    Attributes:
        handler: handler of the method; its behaviours are untyped.
        series: its metrics.
        threads: the executor of the server.
        in_flight: the calls that a drain waits for.
        waiting: the request timeouts of calls whose client sends nothing.
        authenticator: authenticates calls; None: no call is authenticated.
        trace: begins the spans of a call; None: there are none.
        probe: whether it is of the health service, whose calls are admitted while `threads` are
            busy.
    """

    handler: Any
    series: _Series
    threads: CallThreads
    in_flight: InFlight
    waiting: Arrivals
    authenticator: Authenticator | None
    trace: Callable[[Any], RequestTrace] | None
    probe: bool

    def check(self, call: Call) -> bool:
        """Count, limit and authenticate a call, before its message is read.

        Returns whether to read the message. On the call's thread; never raises.
        """
        self.series.started.inc()
        try:
            if self.probe:
                if not self.threads.add_probe():
                    self.waiting.interrupt_oldest()
            elif self.threads.should_refuse(self.handler.request_streaming):
                raise Overloaded(Reason.TOO_MANY_CALLS, BUSY_SECONDS)
            elif self.authenticator is not None:
                self.authenticator.authenticate(call)
        except Exception as error:  # `_let_in` raises it, and it becomes a status
            call.refused = error
        return call.refused is None and self.in_flight.admits()

    def leave(self) -> None:
        """Record that the thread of a call has ended."""
        if self.probe:
            self.threads.remove_probe()

    def unary(self, call: Call, message: bytes | Missing) -> bytes | ErrorStatus | Missing:
        """Answer a call of one message with one. On the call's thread."""
        try:
            self._let_in(call)
            if message is Missing.EMPTY and has_hung_up(call):
                raise CallerGone
            # Methods of many requests and one answer are only refused: the first message is enough.
            behaviour = self.handler.unary_unary or self.handler.stream_unary
            response = behaviour(self._request(call, message), call)
            # Headlight's own answers are serialised already.
            answer: bytes = (
                response
                if isinstance(response, bytes)
                else self.handler.response_serializer(response)
            )
            call.acts.append(functools.partial(self._answered, call))
            return answer
        except (CancelledError, CallerGone):
            self._gone(call)
            return Missing.GONE
        except Exception as error:
            return self._refused(call, error)
        finally:
            self.series.seconds.observe(time.perf_counter() - call.begun)

    async def stream(self, call: Call, messages: bytes | Missing | Messages) -> ErrorStatus | None:
        """Answer a call of one message, or of many, with writes; return its failure."""
        try:
            self._let_in(call)
            if messages is Missing.EMPTY:
                await no_more()
            await self._send(self._request(call, messages), call)
            call.acts.append(functools.partial(self._answered, call))
            return None
        except (asyncio.CancelledError, CallerGone) as error:
            self._gone(call)
            call.acts.append(functools.partial(_forget, error))
            raise
        except Exception as error:
            refused = self._refused(call, error)
        finally:
            self.series.seconds.observe(time.perf_counter() - call.begun)
        # Here the exception is gone, and with it the request, to which its frames refer.
        if self.handler.request_streaming:
            await asyncio.sleep(REFUSAL_DELAY_SECONDS)
        return refused

    def _let_in(self, call: Call) -> None:
        """Raise the refusal of `check`; else name the client and begin the spans."""
        if call.refused is not None:
            refusing, call.refused = call.refused, None
            raise refusing
        if self.authenticator is not None:
            call.client = self.authenticator.client_of(call)
        else:
            call.client = call.context.peer().rpartition(":")[0]  # its address, without the port
        # Only for admitted clients: others must not choose what is traced, or how much.
        if self.trace is not None:
            call.trace = self.trace(call.context.invocation_metadata())

    def _request(self, call: Call, message: bytes | Missing | Messages) -> Any:
        """Decode the message. A call that never sends it is not counted, and delays no drain."""
        if isinstance(message, Missing):
            match message:
                case Missing.UNREAD:
                    raise Unavailable(Reason.ENDING)
                case Missing.LATE:
                    raise self.waiting.late(call)
                case Missing.EMPTY:
                    raise InvalidInput("", Reason.NO_MESSAGE)
                case Missing.GONE:
                    raise CallerGone
        self.in_flight.enter(call)
        if isinstance(message, Messages):
            message.decode = self._decode
            return message
        return self._decode(message)

    def _decode(self, request: bytes) -> Any:
        try:
            return self.handler.request_deserializer(request)
        except (DecodeError, UnicodeDecodeError):
            raise InvalidInput("", Reason.UNDECODABLE) from None

    async def _send(self, request: Any, call: Call) -> None:
        """Run a streaming behaviour of either style: a coroutine that writes, or a generator."""
        call.serialize = self.handler.response_serializer
        behaviour = self.handler.stream_stream or self.handler.unary_stream
        if not inspect.isasyncgenfunction(behaviour):
            await behaviour(request, call)
            return
        async for response in behaviour(request, call):
            await call.write(response)

    def _gone(self, call: Call) -> None:
        """Count a call whose client disconnected."""
        code = _cancelled(call.deadline - time.monotonic(), time.perf_counter() - call.begun)
        gone(code, call.context, call.trace)
        self._ended(call, code)

    def _refused(self, call: Call, error: Exception) -> ErrorStatus:
        """Count a call that failed, and return its status."""
        refused = error_status(error, call.context, call.trace, call.edge)
        self.in_flight.refused(call)
        self._ended(call, refused.status)
        return refused

    def _answered(self, call: Call) -> None:
        """Count a call whose answer was sent, or timed out; the call has a code then."""
        # Not in the stubs.
        self._ended(call, call.context.code() or grpc.StatusCode.OK)  # type: ignore[attr-defined]

    def _ended(self, call: Call, code: grpc.StatusCode) -> None:
        self.series.handled(code.name).inc()
        if self.series.requests is not None:
            self.series.requests(code.name).inc()
        if call.trace is not None:
            call.trace.end(code)


def _forget(error: BaseException) -> None:
    """Drop the frames that an exception has passed, which hold the request and the answer.

    TaskGroup keeps a cancellation with its frame: a cycle, which only the garbage collector would
    break.
    """
    error.__traceback__ = error.__context__ = None


def _cancelled(left: float, seconds: float) -> grpc.StatusCode:
    """Return the code of a cancellation: by the deadline, or by choice.

    The deadline passes a little earlier for the client.

    Args:
        left: seconds until the deadline; infinity without one.
        seconds: duration of the call.
    """
    late = left <= min(TRANSIT_SECONDS, seconds / 3)
    return grpc.StatusCode.DEADLINE_EXCEEDED if late else grpc.StatusCode.CANCELLED

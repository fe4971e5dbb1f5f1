"""A stream of requests: reads them, answers each when ready, and keeps to its memory limit.

An ordered stream sends its answers in the order of the requests. It waits for room where a unary
call would be refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import grpc
from google.protobuf.message import Message

from headlight.errors import InvalidInput, Reason, Unavailable
from headlight.refusals import Edge
from headlight_service.core.admission.admission_control import SMALL_ANSWER_BYTES
from headlight_service.core.admission.answer_window import AnswerWindow
from headlight_service.core.admission.shed_error import Shed, Shortage
from headlight_service.core.handle import Handle
from headlight_service.core.pipeline import Pipeline
from headlight_service.core.requests.request import Request
from headlight_service.frontends.answer_wait import done, wake
from headlight_service.frontends.grpc.grpc_status import ErrorStatus, error_status
from headlight_service.frontends.grpc.peer_timeouts import Replies, no_more
from headlight_service.frontends.grpc.transport.grpc_call import Call, CallerGone
from headlight_service.frontends.stall_timeout import ReplyTimeout

if TYPE_CHECKING:
    from headlight_service.telemetry.request_trace import RequestTrace

# Shortages that the core refuses at once, but an ordered stream waits for.
AWAITED = (Shortage.QUOTA, Shortage.REQUEST_BYTES)
RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)


class ReaderStalled(Shed):
    """The client has stopped reading."""

    def __init__(self, seconds: float, unread_bytes: int = 0) -> None:
        super().__init__(Reason.STALLED, Shortage.STALLED_READER, seconds=f"{seconds:g}")
        self.unread_bytes = unread_bytes  # which the transport keeps until the call is over


class _Ended(Exception):
    """A failed request has ended the stream; its error is in `_ending`."""


class Decoded(NamedTuple, Generic[ResponseT]):
    """A decoded request.

    Attributes:
        request: for the pipeline.
        form: sizes the answer, as `submit` needs it.
        messages: yields the messages of the answer, each made as it is sent.
        encode: makes what `messages` takes of the answer, on a thread, so that the event loop goes
            on; None: `messages` takes the answer.
    """

    request: Request
    form: Any
    messages: Callable[[Any], Iterator[ResponseT]]
    encode: Callable[[Any], Any] | None = None


class _Turn:
    """The place of one request in an ordered stream; without an order, it never waits.

    Attributes:
        before: set once the request before it is answered.
        queued: set once it holds all that it needs, or has failed.
        answered: set once it is answered.
    """

    def __init__(self, before: asyncio.Event) -> None:
        self.before, self.queued, self.answered = before, asyncio.Event(), asyncio.Event()

    def end(self) -> None:
        """Let the requests behind it go on."""
        self.queued.set()
        self.answered.set()


class RequestStream(Generic[RequestT, ResponseT]):
    """The server's side of one stream. A subclass decodes requests and makes messages."""

    ordered = False

    def __init__(self, pipeline: Pipeline, call: Call, stall_seconds: float) -> None:
        """Prepare; `serve` reads. Create it in the call's own task.

        Args:
            pipeline: receives the requests.
            call: the call of the stream; only this object writes to it.
            stall_seconds: reply timeout of one message, and again for each PACE_BYTES of an answer.

        Raises:
            Unavailable: the first model, whose limits apply to the stream, is still being loaded.
        """
        self._pipeline = pipeline
        self._call = call
        self._stall_seconds = stall_seconds
        limits = pipeline.models.limits
        self._slots = asyncio.Semaphore(limits.max_stream_in_flight)
        self._window = AnswerWindow(limits.max_stream_output_bytes, SMALL_ANSWER_BYTES)
        self._cut = False  # the server has ended the call, and the client may still be connected
        self._writing = asyncio.Lock()
        self._unanswered = 0
        self._last_answered = asyncio.Event()  # of an ordered stream
        self._last_answered.set()
        self._was_idle = False  # the client had no more when all were answered
        self._reader: asyncio.Task[None] | None = None
        self._ending: deque[Exception] = deque(maxlen=1)  # cause of an early end

    def check(self, request: RequestT) -> None:
        """Check a request as it is read. Raises InvalidInput: it ends the stream."""

    def decode(self, request: RequestT) -> Decoded[ResponseT]:
        """Decode a request. Raises HeadlightError: only this request fails."""
        raise NotImplementedError

    def submit(
        self,
        decoded: Decoded[ResponseT],
        trace: RequestTrace | None,
        when_queued: Callable[[], object] | None,
    ) -> Handle[Any]:
        """Start a request; see `Pipeline.submit`."""
        return self._pipeline.submit(
            decoded.request,
            decoded.form,
            trace=trace,
            window=self._window,
            when_queued=when_queued,
        )

    def edge(self, request: RequestT) -> Edge:
        """Return the words for a failed request."""
        return self._call.edge

    def failed(self, request: RequestT, refused: ErrorStatus) -> ResponseT | None:
        """Return the message of a failed request; None: the failure ends the stream."""
        raise NotImplementedError

    def on_write(self, message: ResponseT) -> None:
        """Note a message just before it is sent."""

    async def serve(self, requests: AsyncIterator[RequestT]) -> None:
        """Answer requests until the client has no more.

        Raises:
            Unavailable: `drain` was called; the requests read so far are answered.
            InvalidInput: `check` refused a request; those before it are answered.
            HeadlightError: a request failed, and has no message.
            Shed: the client stopped reading; everything held for it has been released.
            CallerGone: the client no longer reads.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                if not self._ending:  # else draining began earlier
                    self._reader = tasks.create_task(self._read(requests, tasks.create_task))
            if self._was_idle:  # else the answers notice a disconnected client
                await no_more()
        except* (ReaderStalled, _Ended):
            pass  # its cause is in _ending
        finally:
            self._reader = None  # it refers back to this object, and holds the last request
        if self._ending:
            # Without its frames, which hold results. Once it is raised, nothing here may hold it.
            raise self._ending.pop().with_traceback(None)

    def drain(self) -> None:
        """Read no further; end once the requests read so far are answered."""
        # If the reader has ended, all requests are read and will be answered: no error is needed.
        if self._reader is None or self._reader.cancel():
            self._ending.append(Unavailable(Reason.STREAM_ENDING))

    async def _read(
        self, requests: AsyncIterator[RequestT], start: Callable[..., asyncio.Task[None]]
    ) -> None:
        while True:
            await self._slots.acquire()  # before reading: unread requests wait at the client's end
            try:
                request = await anext(requests, None)
                if request is None:
                    self._was_idle = not self._unanswered
                    return
                self.check(request)
            except InvalidInput as error:
                self._ending.append(error)
                return
            self._unanswered += 1
            turn = _Turn(self._last_answered)
            start(self._answer(request, turn))
            del request  # an idle stream holds none
            if self.ordered:
                self._last_answered = turn.answered
                # A request that got ahead could hold the room that this one waits for.
                await turn.queued.wait()

    async def _answer(self, request: RequestT, turn: _Turn) -> None:
        """Answer one request with all its messages."""
        trace = None if self._call.trace is None else self._call.trace.message()
        code = grpc.StatusCode.CANCELLED
        try:
            await self._encode(request, trace, turn)
            code = grpc.StatusCode.OK
        except CallerGone as error:  # the call is cancelled, now or a moment after it has ended
            if not self._ending:
                self._ending.append(error.with_traceback(None))
        except Exception as error:
            refused = error_status(error, self._call.context, trace, self.edge(request))
            code = refused.status
            if isinstance(error, ReaderStalled):
                raise  # ends the stream, and with it all other requests of this client
            turn.queued.set()
            await turn.before.wait()
            message = self.failed(request, refused)
            if message is None:
                self._cut = True
                self._ending.append(error)
                raise _Ended from None
            with contextlib.suppress(CallerGone):
                await self._write(message, ReplyTimeout(self._stall_seconds))
        finally:
            if trace is not None:
                trace.end(code)
            self._unanswered -= 1
            turn.end()
            self._slots.release()

    async def _encode(self, request: RequestT, trace: RequestTrace | None, turn: _Turn) -> None:
        decoded = self.decode(request)
        handle, answer = await self._computed(decoded, trace, turn)
        reply_timeout = ReplyTimeout(self._stall_seconds)
        try:
            if decoded.encode is not None:
                answer = await self._pipeline.codec.run(functools.partial(decoded.encode, answer))
            await turn.before.wait()
            for message in decoded.messages(answer):
                await self._write(message, reply_timeout)
        except (asyncio.CancelledError, CallerGone):
            self._window.close()
            if not self._cut:  # answers that wait for their turn find a writer that has given up
                handle.count_cancelled("send")
            raise
        except Exception as error:
            # The transport keeps an untaken message, and so its bytes stay held.
            kept = handle.close(
                error, error.unread_bytes if isinstance(error, ReaderStalled) else 0
            )
            if kept:
                self._call.acts.append(functools.partial(handle.release, kept))
            raise
        finally:
            handle.close()

    async def _computed(
        self, decoded: Decoded[ResponseT], trace: RequestTrace | None, turn: _Turn
    ) -> tuple[Handle[Any], Any]:
        """Wait for the answer. On an ordered stream, also wait for a quota or for request bytes.

        The core itself waits for the other resources. The requests behind this one are not read
        meanwhile.
        """
        decoded.request.waits = self.ordered
        while True:
            try:
                return await self._submitted(decoded, trace, turn)
            except Shed as shed:
                seconds = shed.retry_after_seconds
                left = decoded.request.deadline - time.monotonic()
                waits = self.ordered and shed.shortage in AWAITED
                if not waits or seconds is None or seconds > left:
                    raise
            await asyncio.sleep(seconds)

    async def _submitted(
        self, decoded: Decoded[ResponseT], trace: RequestTrace | None, turn: _Turn
    ) -> tuple[Handle[Any], Any]:
        loop = asyncio.get_running_loop()
        queued = functools.partial(wake, loop, turn.queued) if self.ordered else None
        handle = self.submit(decoded, trace, queued)
        try:
            await done(handle)
            return handle, handle.result()
        # The window is closed: another answer found that the client does not read.
        except CancelledError:
            raise CallerGone from None
        except asyncio.CancelledError:
            self._window.close()  # else the next answer would be computed when this one leaves
            handle.cancel(by_caller=not self._cut)
            handle.close()  # it may have been answered at the same moment
            raise

    async def _write(self, message: ResponseT, reply_timeout: ReplyTimeout) -> None:
        """Send one message, and wait until the transport has taken it: backpressure to this stream.

        Raises:
            ReaderStalled: it was not taken in time.
            CallerGone: the client disconnected, or the stream has failed.
        """
        async with self._writing:
            if self._cut:  # an answer behind a failed one is about to be cancelled
                raise CallerGone
            self.on_write(message)
            begun = time.monotonic()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(reply_timeout.remaining):
                    await self._call.write(message)
                reply_timeout.took(message.ByteSize(), time.monotonic() - begun)
                return
            # Raised outside of the handler it has no context, whose frames would hold the results.
            self._ending.append(ReaderStalled(self._stall_seconds, message.ByteSize()))
            self._cut = True  # the stream's other requests are about to be cancelled
            self._window.close()
            raise self._ending[0]


class OpenStreams:
    """The open streams of a servicer, which a drain ends."""

    def __init__(self, replies: Replies) -> None:
        self._replies = replies
        self._streams: set[RequestStream[Any, Any]] = set()
        self._draining = False

    def __iter__(self) -> Iterator[RequestStream[Any, Any]]:
        return iter(self._streams)

    async def serve(
        self, stream: RequestStream[RequestT, Any], requests: AsyncIterator[RequestT], call: Call
    ) -> None:
        """Serve one stream; raises as `RequestStream.serve` does."""
        if self._draining:
            stream.drain()
        self._streams.add(stream)
        try:
            await stream.serve(requests)
        finally:
            self._streams.discard(stream)
            self._replies.linger(call)

    def drain(self) -> None:
        """Let every stream end once it has answered the requests that it has read."""
        self._draining = True
        for stream in self._streams:
            stream.drain()

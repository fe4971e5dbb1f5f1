"""One EncodeStream call: reads requests, answers each when ready, and keeps to its memory limit."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING

import grpc

from headlight.errors import HeadlightError, InvalidInput, Unavailable
from headlight.pb import headlight_pb2 as pb
from headlight_service.core.admission.admission_control import SMALL_ANSWER_BYTES
from headlight_service.core.admission.answer_window import AnswerWindow
from headlight_service.core.admission.shed_error import Shed, Shortage
from headlight_service.core.pipeline import Pipeline
from headlight_service.frontends.answer_wait import done
from headlight_service.frontends.contract.answer_forms import StreamForm, frames
from headlight_service.frontends.contract.request_decoding import counted, decode_encode
from headlight_service.frontends.grpc.grpc_status import refusal
from headlight_service.frontends.grpc.peer_timeouts import no_more
from headlight_service.frontends.grpc.transport.grpc_call import Call, CallerGone
from headlight_service.frontends.stall_timeout import ReplyTimeout

if TYPE_CHECKING:
    from headlight_service.telemetry.request_trace import RequestTrace

MAX_ID_BYTES = 128
DRAINING = "this replica is shutting down; resend unanswered requests on a new stream"
LAST_FRAMES = ("response", "end", "error")  # of an answer


class ReaderStalled(Shed):
    """The client has stopped reading."""

    def __init__(self, seconds: float, unread_bytes: int = 0) -> None:
        problem = (
            f"too little was read for {seconds:g} s; resend unanswered requests on a new stream"
        )
        super().__init__(problem, Shortage.STALLED_READER)
        self.unread_bytes = unread_bytes  # which the transport keeps until the call is over


class StreamCall:
    """The server's side of one stream."""

    def __init__(self, pipeline: Pipeline, call: Call, stall_seconds: float) -> None:
        """Prepare; `serve` reads. Create it in the call's own task.

        Args:
            pipeline: receives the requests.
            call: the call of the stream; only this object writes to it.
            stall_seconds: reply timeout of one frame, and again for each PACE_BYTES of an answer.

        Raises:
            Unavailable: the first model, whose limits apply to the stream, is still being loaded.
        """
        self._pipeline = pipeline
        self._call = call
        self._stall_seconds = stall_seconds
        limits = pipeline.models.first.limits
        self._slots = asyncio.Semaphore(limits.max_stream_in_flight)
        self._window = AnswerWindow(limits.max_stream_output_bytes, SMALL_ANSWER_BYTES)
        self._cut = False  # the server has ended the call, and the client may still be connected
        self._writing = asyncio.Lock()
        self._live: set[str] = set()  # ids of requests whose last frame is not yet sent
        self._was_idle = False  # the client had no more when all were answered
        self._reader: asyncio.Task[None] | None = None
        self._ending: deque[HeadlightError | CallerGone] = deque(maxlen=1)  # cause of an early end

    async def serve(self, requests: AsyncIterator[pb.EncodeStreamRequest]) -> None:
        """Answer requests until the client has no more.

        Raises:
            Unavailable: `drain` was called; the requests read so far are answered.
            InvalidInput: a request had no valid id; those before it are answered.
            Shed: the client stopped reading; everything held for it has been released.
            CallerGone: the client no longer reads.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                if not self._ending:  # else draining began earlier
                    self._reader = tasks.create_task(self._read(requests, tasks.create_task))
            if self._was_idle:  # else the answers notice a disconnected client
                await no_more()
        except* ReaderStalled:
            pass  # it is in _ending
        finally:
            self._reader = None  # it refers back to this object, and holds the last request
        if self._ending:
            # Without its frames, which hold results. Once it is raised, nothing here may hold it.
            raise self._ending.pop().with_traceback(None)

    def drain(self) -> None:
        """Read no further; end once the requests read so far are answered."""
        # If the reader has ended, all requests are read and will be answered: no error is needed.
        if self._reader is None or self._reader.cancel():
            self._ending.append(Unavailable(DRAINING))

    async def _read(
        self,
        requests: AsyncIterator[pb.EncodeStreamRequest],
        start: Callable[..., asyncio.Task[None]],
    ) -> None:
        while True:
            await self._slots.acquire()  # before reading: unread requests wait at the client's end
            try:
                request = await anext(requests, None)
                if request is None:
                    self._was_idle = not self._live and not self._writing.locked()
                    return
                self._check_id(request.id)
            except InvalidInput as error:
                self._ending.append(error)
                return
            self._live.add(request.id)
            start(self._answer(request))
            del request  # an idle stream holds none

    def _check_id(self, request_id: str) -> None:
        """Refuse an invalid id, and one that is in use."""
        if not 1 <= len(request_id.encode()) <= MAX_ID_BYTES:
            raise InvalidInput("id", f"must have 1 to {MAX_ID_BYTES} bytes")
        if request_id in self._live:
            raise InvalidInput(
                "id", "is that of a request still unanswered; use each id once at a time"
            )

    async def _answer(self, request: pb.EncodeStreamRequest) -> None:
        """Answer one request with all its frames."""
        trace = None if self._call.trace is None else self._call.trace.message()
        code = grpc.StatusCode.CANCELLED
        try:
            await self._encode(request, trace)
            code = grpc.StatusCode.OK
        except CallerGone as error:  # the call is cancelled, now or a moment after it has ended
            if not self._ending:
                self._ending.append(error.with_traceback(None))
        except Exception as error:
            refused = refusal(error, self._call.context, trace)
            code = refused.status
            if isinstance(error, ReaderStalled):
                raise  # ends the stream, and with it all other requests of this client
            with contextlib.suppress(CallerGone):
                frame = pb.EncodeStreamResponse(id=request.id, error=refused.frame)
                await self._write(frame, ReplyTimeout(self._stall_seconds))
        finally:
            if trace is not None:
                trace.end(code)
            self._slots.release()

    async def _encode(self, request: pb.EncodeStreamRequest, trace: RequestTrace | None) -> None:
        model = self._pipeline.models.get(request.encode.model)
        with counted(model):
            wanted = decode_encode(
                request.encode, model, self._call.deadline, self._call.quota_owner
            )
        wanted.size_bytes = request.ByteSize()
        form = StreamForm(model.limits, dry_run=request.encode.dry_run)
        handle = self._pipeline.submit(wanted, form, trace=trace, window=self._window)
        try:
            await done(handle)
            answer = handle.result()
        # The window is closed: another answer found that the client does not read.
        except CancelledError:
            raise CallerGone from None
        except asyncio.CancelledError:
            self._window.close()  # else the next answer would be computed when this one leaves
            handle.cancel(by_caller=not self._cut)
            handle.close()  # it may have been answered at the same moment
            raise
        reply_timeout = ReplyTimeout(self._stall_seconds)
        try:
            for frame in frames(request.id, form.header, answer):
                await self._write(frame, reply_timeout)
        except (asyncio.CancelledError, CallerGone):
            self._window.close()
            if not self._cut:  # answers that wait for their turn find a writer that has given up
                handle.count_cancelled("send")
            raise
        except Exception as error:
            # The transport keeps an untaken frame, and so its bytes stay held.
            kept = handle.close(
                error, error.unread_bytes if isinstance(error, ReaderStalled) else 0
            )
            if kept:
                self._call.acts.append(functools.partial(handle.release, kept))
            raise
        finally:
            handle.close()

    async def _write(self, frame: pb.EncodeStreamResponse, reply_timeout: ReplyTimeout) -> None:
        """Send one frame, and wait until the transport has taken it: backpressure to this handler.

        Raises:
            ReaderStalled: it was not taken in time.
        """
        async with self._writing:
            if frame.WhichOneof("frame") in LAST_FRAMES:
                # Before the client can have it: the id may be reused as soon as the frame is read.
                self._live.discard(frame.id)
            begun = time.monotonic()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(reply_timeout.remaining):
                    await self._call.write(frame)
                reply_timeout.took(frame.ByteSize(), time.monotonic() - begun)
                return
            # Raised outside of the handler it has no context, whose frames would hold the results.
            self._ending.append(ReaderStalled(self._stall_seconds, frame.ByteSize()))
            self._cut = True  # the stream's other requests are about to be cancelled
            self._window.close()
            raise self._ending[0]

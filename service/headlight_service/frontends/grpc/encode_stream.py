"""One EncodeStream call: reads requests, answers each as it is ready, and never holds more than its share of memory."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING

import grpc

from headlight.errors import HeadlightError, InvalidInput, Unavailable
from headlight.pb import headlight_pb2 as pb
from headlight_service.core.admission.admission_control import Shed, Shortage
from headlight_service.core.admission.permits import Permit
from headlight_service.core.cancellation import can_be_cut
from headlight_service.core.model_registry import Models
from headlight_service.core.prepared_request import Prepared, check_header, check_max_bytes, check_stream
from headlight_service.core.served_model import ServedModel
from headlight_service.frontends.grpc.answer_frames import CHUNK_BYTES, HEADER_LIMIT_BYTES, frames
from headlight_service.frontends.grpc.grpc_status import refusal
from headlight_service.frontends.grpc.reply_timeout import Patience, Sending
from headlight_service.frontends.grpc.request_timeout import no_more
from headlight_service.frontends.grpc.transport.grpc_call import Call, CallerGone
from headlight_service.telemetry.request_trace import CURRENT

if TYPE_CHECKING:
    from headlight_service.telemetry.request_trace import RequestTrace

MAX_ID_BYTES = 128
LAST_FRAMES = ("response", "end", "error")  # of an answer


class ReaderStalled(Shed):
    """The caller has stopped reading."""

    def __init__(self, seconds: float, unread_bytes: int = 0) -> None:
        problem = f"too little was read for {seconds:g} s; send again, on a new stream, what is unanswered"
        super().__init__(problem, Shortage.STALLED_READER)
        self.unread_bytes = unread_bytes  # which the transport keeps until the call is over


class ByteBudget:
    """Bytes that may be held at once; more than that only by a lone holder. First come, first served."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0
        self._turn = asyncio.Lock()
        self._freed = asyncio.Event()

    def hold(self, amount: int, waiting: AbstractContextManager[None]) -> AbstractAsyncContextManager[None]:
        """Wait until so many bytes are free, with `waiting` around that, and hold them."""
        return self._holding(amount, waiting) if amount else contextlib.nullcontext()

    @contextlib.asynccontextmanager
    async def _holding(self, amount: int, waiting: AbstractContextManager[None]) -> AsyncIterator[None]:
        with waiting:
            await self._take(amount)
        try:
            yield
        finally:
            self._held -= amount
            self._freed.set()

    async def _take(self, amount: int) -> None:
        async with self._turn:
            while self._held and self._held + amount > self._limit:
                self._freed.clear()
                await self._freed.wait()
            self._held += amount


class StreamCall:
    """The server's side of one stream."""

    def __init__(
        self,
        models: Models,
        limits: pb.Limits,
        call: Call,
        stall_seconds: float,
        sending: Sending,
    ) -> None:
        """Nothing is read before `serve`. To be made in the call's own task.

        Args:
            models: those served.
            limits: on requests read and not yet answered, and on bytes of results held, computed or being sent.
            call: answered by the stream; this object alone writes to it.
            stall_seconds: how long one frame may wait for its reader, and again for each PACE_BYTES of an answer.
            sending: holds what a reader who was cut leaves in the transport.
        """
        self._models = models
        self._call = call
        self._deadline = call.deadline
        self._stall_seconds = stall_seconds
        self._sending = sending
        self._slots = asyncio.Semaphore(limits.max_stream_in_flight)
        self._results = ByteBudget(limits.max_stream_output_bytes)
        self._cut = can_be_cut()
        self._writing = asyncio.Lock()
        self._live: set[str] = set()
        self._open = 0  # requests that are not yet answered, to the last frame
        self._read_all = False  # the caller has no more requests, or sent one that ends the stream
        self._was_idle = False  # the caller had no more when all were answered
        self._reader: asyncio.Task[None] | None = None
        self._ending: HeadlightError | CallerGone | None = None

    async def serve(self, requests: AsyncIterator[pb.EncodeStreamRequest]) -> None:
        """Answer requests until the caller has no more.

        Raises:
            Unavailable: `drain` was called; what had been read is answered.
            InvalidInput: a request came that no frame could be addressed to; those before it are answered.
            Shed: the caller stopped reading; everything held for it has been let go.
            CallerGone: nobody reads any more.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                if self._ending is None:  # else draining began before we did
                    self._reader = tasks.create_task(self._read(requests, tasks.create_task))
        except* ReaderStalled:
            pass  # it has become our ending
        finally:
            self._reader = None  # it refers back to us, and holds the last request
        if self._was_idle:  # else a caller who has gone is noticed by the answers
            await no_more()
        self._end()

    def drain(self) -> None:
        """Read no further; end once what has been read is answered."""
        if self._read_all:
            return  # it is answered and never learns
        self._ending = Unavailable("this replica is shutting down; send again, on a new stream, what is unanswered")
        if self._reader is not None:
            self._reader.cancel()

    def _end(self) -> None:
        ending, self._ending = self._ending, None
        try:
            if ending is not None:
                # Without the frames it has passed, which hold results; and once it is on its way nothing here may hold it.
                raise ending.with_traceback(None)
        finally:
            del ending

    async def _read(
        self,
        requests: AsyncIterator[pb.EncodeStreamRequest],
        start: Callable[..., asyncio.Task[None]],
    ) -> None:
        while True:
            await self._slots.acquire()  # before reading: what is unread waits at the caller's end
            try:
                request = await anext(requests, None)
                if request is None:
                    self._read_all, self._was_idle = True, not self._open
                    return
                self._check_id(request.id)
            except InvalidInput as error:
                self._read_all, self._ending = True, error
                return
            self._live.add(request.id)
            self._open += 1
            spans = CURRENT.get()
            start(self._answer(request) if spans is None else self._traced(request, spans))
            del request  # an idle stream holds none

    def _check_id(self, request_id: str) -> None:
        """Refuse an id that no answer could be told apart by."""
        if not 1 <= len(request_id.encode()) <= MAX_ID_BYTES:
            raise InvalidInput("id", f"must have 1 to {MAX_ID_BYTES} bytes")
        if request_id in self._live:
            raise InvalidInput("id", "is that of a request still unanswered; use each id once at a time")

    async def _traced(self, request: pb.EncodeStreamRequest, spans: RequestTrace) -> None:
        with spans.message():
            await self._answer(request)

    async def _answer(self, request: pb.EncodeStreamRequest) -> None:
        """All frames of one request."""
        try:
            await self._encode(request)
        except CallerGone as error:  # the call is cancelled, now or a moment after it has ended
            self._ending = self._ending or error.with_traceback(None)
            if (spans := CURRENT.get()) is not None:
                spans.refused(grpc.StatusCode.CANCELLED, "cancelled")
        except ReaderStalled:
            raise  # ends the stream, and with it whatever else waits for this reader
        except Exception as error:
            refused = refusal(error, self._call)
            with contextlib.suppress(CallerGone):
                frame = pb.EncodeStreamResponse(id=request.id, error=refused.frame)
                await self._write(frame, Patience(self._stall_seconds))
        finally:
            self._open -= 1
            self._slots.release()

    async def _encode(self, request: pb.EncodeStreamRequest) -> None:
        model = self._models.get(request.encode.model)
        with model.receive(request.ByteSize()):
            prepared = await model.prepare(request.encode, self._deadline)
            if request.encode.dry_run:
                check_header(prepared, HEADER_LIMIT_BYTES)
                frame = pb.EncodeStreamResponse(id=request.id, response=prepared.header)
                with model.hold_info(prepared.header.ByteSize()) as permit:
                    return await self._sent(self._write(frame, Patience(self._stall_seconds)), permit)
            check_max_bytes(prepared)
            check_stream(prepared, model.limits.max_stream_output_bytes)
            # Small answers need not wait for a large one to be read: there are never more of them than requests in flight.
            held = prepared.data_bytes if prepared.data_bytes > CHUNK_BYTES else 0
            async with self._results.hold(held, model.stage("queue")):
                with model.hold_output(prepared) as permit:
                    await self._sent(self._respond(request.id, model, prepared, permit), permit)

    async def _sent(self, sending: Awaitable[None], permit: Permit) -> None:
        """Send an answer. Where its reader is cut, the transport keeps what was not taken, and the permit for it stays."""
        try:
            await sending
        except ReaderStalled as stalled:
            self._sending.hold(permit.split(min(stalled.unread_bytes, permit.amount)))
            raise

    async def _respond(self, request_id: str, model: ServedModel, prepared: Prepared, held: Permit) -> None:
        results = await model.compute(prepared, self._deadline, held)
        model.finish(prepared)
        patience = Patience(self._stall_seconds)
        with model.stage("send"):
            vector = prepared.selection.vector
            for frame in frames(request_id, prepared.header, results, prepared.data_bytes, vector):
                await self._write(frame, patience)

    async def _write(self, frame: pb.EncodeStreamResponse, patience: Patience) -> None:
        """Send one frame; returns when the transport has taken it, so a slow reader slows us down.

        Raises:
            ReaderStalled: it was not taken in time.
        """
        async with self._writing:
            if frame.WhichOneof("frame") in LAST_FRAMES:
                # Before the caller can have it: the id may be used again as soon as the frame is read.
                self._live.discard(frame.id)
            begun = time.monotonic()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience.left):
                    await self._call.write(frame)
                patience.took(frame.ByteSize(), time.monotonic() - begun)
                return
            # Out here it has no context, whose frames would hold the results.
            self._ending = ReaderStalled(self._stall_seconds, frame.ByteSize())
            self._cut.by_us = True  # the stream's other requests are about to be cancelled
            raise self._ending

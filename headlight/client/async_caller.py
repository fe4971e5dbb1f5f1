"""How the asyncio client waits, as `headlight.client.sync_caller` has it of the blocking one."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

import grpc

from headlight.client.calls.attention_pieces import AttentionPiece, Pieces
from headlight.client.calls.stream_calls import Streamed
from headlight.client.calls.unary_calls import RequestT, ResponseT, ResultT, UnaryWork
from headlight.client.channel import ClientBase, Options, Retries, WorkT
from headlight.client.reloading_channel import CLOSED
from headlight.client.stream_end import end_async
from headlight.client.stream_status import status_now, true_status
from headlight.description import ModelDescription
from headlight.errors import Overloaded, Unavailable
from headlight.pb import headlight_pb2 as pb
from headlight.wire.answer_checks import check_description
from headlight.wire.client_codec import from_model
from headlight.wire.status_errors import is_to_be_repeated, readable

MANY_INPUTS = 256  # fewer take a few milliseconds, or tens of them where they are long lists of ids


class AsyncCaller(ClientBase[grpc.aio.Channel]):
    """Does the work of `headlight.client.calls.unary_calls` and `headlight.client.calls.stream_calls` over a channel of asyncio."""

    _closing: Sequence[asyncio.Task[None]] = ()  # channels whose certificates were replaced

    def _open(self, target: str, credentials: grpc.ChannelCredentials | None, options: Options) -> grpc.aio.Channel:
        try:
            asyncio.get_running_loop()
        except (
            RuntimeError
        ):  # gRPC would take another loop than the one that it is awaited in, and say so at the first call
            raise RuntimeError("there is no running event loop: make an AsyncClient inside of one") from None
        if credentials is None:
            return grpc.aio.insecure_channel(target, options)
        return grpc.aio.secure_channel(target, credentials, options)

    def _discard(self, channel: grpc.aio.Channel) -> None:
        closing = asyncio.create_task(channel.close(None))
        self._closing = [*(task for task in self._closing if not task.done()), closing]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the connection; calls in flight, and any later one, raise ValueError."""
        channels = self._end()
        self._ended.set()
        for channel in channels:
            await channel.close(None)
        await asyncio.gather(*self._closing)

    @functools.cached_property
    def _ended(self) -> asyncio.Event:
        return asyncio.Event()

    async def _pause(self, seconds: float) -> None:
        """Wait before something is sent again; not for longer than the client is open."""
        if seconds:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._ended.wait()

    @contextlib.contextmanager
    def _errors(self, first_input: int = 0, large: bool = False) -> Iterator[None]:
        """Also turns calls that were cancelled by no caller's wish into errors: else nobody hears of them."""
        with super()._errors(first_input, large):
            try:
                yield
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                if self._closed.is_set():
                    raise ValueError(CLOSED) from None
                raise Unavailable("the connection was lost") from None

    async def _describe(self, deadline: float | None) -> ModelDescription:
        return self._description or await self._learn(deadline)

    async def _learn(self, deadline: float | None) -> ModelDescription:
        response = await self._ask(self._stub.GetModel, pb.GetModelRequest(model=self._model), deadline)
        self._description = description = check_description(from_model(response), self._model)
        return description

    async def _ask(self, method: Any, request: Any, deadline: float | None) -> Any:
        """The response of one unary call, which is sent again when the server says."""
        retries = Retries(deadline, Overloaded)
        while True:
            await self._pause(retries.pause())
            with retries, self._errors():
                return readable(await method(request, timeout=self._left(deadline)))

    async def _laid_out(self, make: Callable[[ModelDescription], WorkT], model: ModelDescription, inputs: int) -> WorkT:
        """What a method is to do with so many inputs; of many, the loop goes on while they are measured."""
        if inputs < MANY_INPUTS:
            return self._made(make, model)
        # Not one of the loop's threads, which may all be waiting for this.
        thread = ThreadPoolExecutor(1)
        try:
            return await asyncio.get_running_loop().run_in_executor(thread, self._made, make, model)
        finally:
            thread.shutdown(wait=False)

    async def _call(
        self, method: Any, make: Callable[[ModelDescription], UnaryWork[RequestT, ResponseT, ResultT]], inputs: int
    ) -> ResultT:
        deadline = self._deadline()
        work = await self._laid_out(make, await self._describe(deadline), inputs)
        pending: deque[tuple[range, RequestT, Any]] = deque()
        retries = Retries(deadline, Overloaded, once_answered=self._outlasts)

        def start(request: RequestT) -> Any:
            return method(request, timeout=self._left(deadline))

        async def finish_first() -> None:
            part, _, first = pending[0]
            with retries, self._errors(part.start, work.may_be_large(part)):
                work.receive(part, readable(await first))
                pending.popleft()
                retries.reset()
                return
            await self._pause(retries.pause())
            failed = status_now(first)
            for at, (part, request, call) in enumerate(list(pending)):
                status = status_now(call) if call.done() else None
                if status is not None and is_to_be_repeated(status, failed or status):
                    pending[at] = part, request, start(request)

        try:
            for part, request in work.requests():
                while len(pending) == self._concurrency:
                    await finish_first()
                pending.append((part, request, start(request)))
            while pending:
                await finish_first()
        finally:
            for _, _, call in pending:
                call.cancel()
        return work.result()

    async def _stream(self, make: Callable[[ModelDescription], Streamed[ResultT]], inputs: int = 1) -> list[ResultT]:
        deadline = self._deadline()
        work = await self._laid_out(make, await self._describe(deadline), inputs)
        retries = Retries(deadline, Overloaded, Unavailable)
        while work.unanswered:
            await self._pause(retries.pause())
            call = self._stub.EncodeStream(work.requests(), timeout=self._left(deadline))
            try:
                with retries, self._errors(), true_status(call):
                    async for frame in call:
                        if work.receive(readable(frame)):
                            retries.reset()
                    work.finish()
            finally:
                await end_async(call, work.over)
        return work.result()

    async def _pieces(self, pieces: Pieces, deadline: float | None) -> AsyncIterator[AttentionPiece]:
        pieces.expect(await self._describe(deadline))
        retries = Retries(deadline, Overloaded, Unavailable)
        while not pieces.complete:
            await self._pause(retries.pause(last=pieces.begun))
            call = self._stub.EncodeStream(iter([pieces.request]), timeout=self._left(deadline))
            try:
                with retries, self._errors(), true_status(call):
                    async for frame in call:
                        for piece in pieces.receive(readable(frame)):
                            yield piece
                    pieces.finish()
                    return
            finally:
                await end_async(call, pieces.over)

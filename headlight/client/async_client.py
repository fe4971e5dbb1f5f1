"""Asyncio client: the methods of the blocking client, with flows executed by awaiting."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, cast

import grpc

from headlight.client.call_flow import (
    Command,
    Failure,
    Flow,
    LayOut,
    Linger,
    Output,
    Pause,
    Read,
    Wait,
    steps,
)
from headlight.client.channel import Options
from headlight.client.client_flows import ClientFlows
from headlight.client.reloading_channel import CLOSED
from headlight.client.sync_client import Client
from headlight.errors import DeadlineExceeded, HeadlightError, Unavailable
from headlight.interface.arguments import Input, Reading
from headlight.interface.encoder import Encoder
from headlight.outputs.contract import malformed
from headlight.results import AttentionPiece
from headlight.spec import AttentionSpec
from headlight.wire.status_errors import error_of_call, readable

P = ParamSpec("P")
T = TypeVar("T")
OVERWRITTEN = "Internal error from Core"  # grpc.aio's words; no server sends them
MANY_INPUTS = 256  # fewer take a few ms, or tens of ms for long lists of ids


def awaited(
    method: Callable[Concatenate[Any, P], T],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Turn a method that returns a flow's result into a coroutine that awaits it."""

    @functools.wraps(method)
    async def awaiting(client: Any, /, *arguments: P.args, **keywords: P.kwargs) -> T:
        return await cast("Awaitable[T]", method(client, *arguments, **keywords))

    awaiting.__qualname__ = f"AsyncClient.{method.__name__}"
    return awaiting


class AsyncClient(ClientFlows[grpc.aio.Channel]):
    """`headlight.client.sync_client.Client` for asyncio: each method is a coroutine.

    Arguments, methods, results and errors are the same. Create it inside a running event loop, else
    it raises RuntimeError. It closes at the end of its `async with` block, or by `close()`.
    Cancelling a method cancels its calls.
    """

    _grpc = grpc.aio
    _event = asyncio.Event
    _closing: Sequence[asyncio.Task[None]] = ()  # of channels whose certificates were replaced

    encode = awaited(Encoder.encode)
    encode_with_info = awaited(Encoder.encode_with_info)
    encode_tokens = awaited(Encoder.encode_tokens)
    token_vectors = awaited(Encoder.token_vectors)
    span_vectors = awaited(Encoder.span_vectors)
    attend = awaited(Encoder.attend)
    attention = awaited(Encoder.attention)
    attention_bytes = awaited(Encoder.attention_bytes)
    rerank = awaited(Encoder.rerank)
    classify = awaited(Encoder.classify)
    scores = awaited(Encoder.scores)
    encode_sparse = awaited(Encoder.encode_sparse)
    encode_multi_vector = awaited(Encoder.encode_multi_vector)
    multi_vectors = awaited(Encoder.multi_vectors)
    compare = awaited(Encoder.compare)
    occlusion = awaited(Encoder.occlusion)
    hidden = awaited(Encoder.hidden)
    tokenize = awaited(Encoder.tokenize)
    similarity = awaited(Encoder.similarity)
    model = awaited(Client.model)
    list_models = awaited(Client.list_models)

    def attention_pieces(
        self,
        text: Input,
        spec: AttentionSpec,
        **reading: Unpack[Reading],
    ) -> AsyncIterator[AttentionPiece]:
        """Yield the attention of one text piece by piece; see `Encoder.attention_pieces`."""
        pieces: Any = Encoder.attention_pieces(cast("Encoder", self), text, spec, **reading)
        return cast("AsyncIterator[AttentionPiece]", pieces)

    def _open(
        self, target: str, credentials: grpc.ChannelCredentials | None, options: Options
    ) -> Any:
        try:
            self._loop, self._process = asyncio.get_running_loop(), os.getpid()
        except RuntimeError:  # gRPC would take another loop and report it only at the first call
            raise RuntimeError(
                "no event loop is running; make an AsyncClient inside a coroutine"
            ) from None
        return super()._open(target, credentials, options)

    def _discard(self, channel: grpc.aio.Channel) -> None:
        closing = asyncio.create_task(channel.close(None))
        self._closing = [*(task for task in self._closing if not task.done()), closing]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the connection. Calls in flight and later calls raise ValueError."""
        for channel in self._end():
            await channel.close(None)
        await asyncio.gather(*self._closing)

    @contextlib.contextmanager
    def _errors(self, first_input: int = 0, large: bool = False) -> Iterator[None]:
        """Convert errors, and the cancellation of a call that the caller did not cancel."""
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

    def _start(self, method: Any, request: Any, timeout: float | None) -> Any:
        return method(request, timeout=timeout)

    def _stream_errors(self, call: Any) -> contextlib.AbstractContextManager[None]:
        return true_status(call)

    async def _run(self, flow: Flow[T]) -> T:
        with contextlib.closing(steps(flow)) as commands:
            return await self._output(commands)  # type: ignore[no-any-return]  # the flow's

    async def _iterate(self, flow: Flow[None]) -> AsyncIterator[AttentionPiece]:
        """Execute a flow and pass on the pieces that it yields."""
        with contextlib.closing(steps(flow)) as commands:
            while (piece := await self._output(commands)) is not None:
                yield piece

    def _check_place(self) -> None:
        """Raise RuntimeError in another process or event loop, where gRPC would hang."""
        if os.getpid() != self._process:
            raise RuntimeError("this AsyncClient was made before a fork; make one in each process")
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError(
                "this AsyncClient belongs to another event loop; make one in each, or make all "
                "calls within one asyncio.run"
            )

    async def _output(self, commands: Flow[None]) -> Any:
        """Execute commands by awaiting and return the next output."""
        self._check_place()
        try:
            command = next(commands)
            while not isinstance(command, Output):
                try:
                    outcome = await self._execute(command)
                except BaseException as error:
                    command = commands.throw(error)
                else:
                    command = commands.send(outcome)
        except HeadlightError as error:
            raise error.with_traceback(None) from None  # a caller needs no frames of flows
        return command.value

    async def _execute(self, command: Command) -> Any:
        match command:
            case Pause(seconds):
                return await self._pause(seconds)
            case LayOut(make, inputs):
                return await lay_out(make, inputs)
            case Wait(call):
                return readable(await call)
            case Failure(call):
                status = status_now(call) if call.done() else None
                return None if status is None else error_of_call(status)
            case Read(call):
                with contextlib.suppress(StopAsyncIteration):
                    return readable(await anext(aiter(call)))
            case Linger(call, seconds):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(call.code(), seconds)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closed.wait()


async def lay_out(make: Callable[[], T], inputs: int) -> T:
    """Return `make()`; for many inputs, run it in a thread.

    The event loop stays free meanwhile.
    """
    if inputs < MANY_INPUTS:
        return make()
    # not a thread of the loop's pool: they may all be waiting for this
    thread = ThreadPoolExecutor(1)
    try:
        return await asyncio.get_running_loop().run_in_executor(thread, make)
    finally:
        thread.shutdown(wait=False)


@contextlib.contextmanager
def true_status(call: Any) -> Iterator[None]:
    """Raise the first status that ended an asyncio stream. Enter this before the first read.

    A call may end while one of its requests is being written. grpc.aio then replaces the server's
    status by an INTERNAL of its own, and reading the call raises that. A done callback still sees
    the first status.

    Raises:
        grpc.aio.AioRpcError: the status, if it was not OK.
        DeadlineExceeded: there is only gRPC's own status, and the call's time has passed.
        Unavailable: there is only gRPC's own status, and time is left.
        BadAnswer: the status was OK, but requests were still to be written.
    """
    seen: list[grpc.aio.AioRpcError | None] = []
    call.add_done_callback(lambda done: seen.append(status_now(done)))
    try:
        yield
    except grpc.aio.AioRpcError as error:
        first = (seen[0] if seen else None) or error
        if first.code() is grpc.StatusCode.OK:
            raise malformed("the stream ended before all requests were read") from None
        if first.details() != OVERWRITTEN:
            raise first from None
        if call.time_remaining() == 0:
            raise DeadlineExceeded("the client's timeout passed") from None
        raise Unavailable("the connection was lost") from None


def status_now(call: Any) -> grpc.aio.AioRpcError | None:
    """Return the status of a finished call without waiting, or None if that is not possible.

    A moment later grpc.aio may replace the status.
    """
    asking = _status(call)
    try:
        asking.send(None)
    except StopIteration as answer:
        return cast("grpc.aio.AioRpcError", answer.value)
    asking.close()
    return None


async def _status(call: Any) -> grpc.aio.AioRpcError:
    code, trailing, details = (
        await call.code(),
        await call.trailing_metadata(),
        await call.details(),
    )
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailing, details, "")

"""Driver of the asyncio client, as `headlight.client.sync_caller` is of the blocking one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self, TypeVar

import grpc

from headlight.client.call_flow import Command, Failure, Flow, LayOut, Linger, Output, Pause, Read, Wait, steps
from headlight.client.calls.attention_pieces import AttentionPiece
from headlight.client.channel import Options
from headlight.client.client_flows import ClientFlows
from headlight.client.reloading_channel import CLOSED
from headlight.client.stream_status import status_now, true_status
from headlight.errors import Unavailable
from headlight.wire.status_errors import error_of_call, readable

T = TypeVar("T")
MANY_INPUTS = 256  # fewer take a few milliseconds, or tens of them where they are long lists of ids


class AsyncCaller(ClientFlows[grpc.aio.Channel]):
    """Executes flows by awaiting."""

    _grpc = grpc.aio
    _event = asyncio.Event
    _closing: Sequence[asyncio.Task[None]] = ()  # channels whose certificates were replaced

    def _open(self, target: str, credentials: grpc.ChannelCredentials | None, options: Options) -> Any:
        try:
            asyncio.get_running_loop()
        except (
            RuntimeError
        ):  # gRPC would take another loop than the one that it is awaited in, and say so at the first call
            raise RuntimeError("there is no running event loop: make an AsyncClient inside of one") from None
        return super()._open(target, credentials, options)

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
        for channel in self._end():
            await channel.close(None)
        await asyncio.gather(*self._closing)

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

    async def _output(self, commands: Flow[None]) -> Any:
        """Execute commands by awaiting and return the next output."""
        command = next(commands)
        while not isinstance(command, Output):
            try:
                outcome = await self._execute(command)
            except BaseException as error:
                command = commands.throw(error)
            else:
                command = commands.send(outcome)
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
    """What a method is to do with so many inputs; of many, the loop goes on while they are measured."""
    if inputs < MANY_INPUTS:
        return make()
    thread = ThreadPoolExecutor(1)  # not one of the loop's threads, which may all be waiting for this
    try:
        return await asyncio.get_running_loop().run_in_executor(thread, make)
    finally:
        thread.shutdown(wait=False)

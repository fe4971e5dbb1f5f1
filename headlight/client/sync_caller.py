"""Driver of the blocking client: its channel, and its way to execute the commands of a flow."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

import grpc

from headlight.client.call_flow import Command, Failure, Flow, LayOut, Linger, Pause, Read, Wait, output, run, steps
from headlight.client.calls.attention_pieces import AttentionPiece
from headlight.client.channel import BLOCKING_CONFIG
from headlight.client.client_flows import ClientFlows
from headlight.wire.status_errors import error_of_call

T = TypeVar("T")


class Caller(ClientFlows[grpc.Channel]):
    """Executes flows by blocking."""

    _service_config = BLOCKING_CONFIG
    _closed: threading.Event

    def _discard(self, channel: grpc.Channel) -> None:
        channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection; calls in flight, and any later one, raise ValueError."""
        for channel in self._end():
            channel.close()

    def _start(self, method: Any, request: Any, timeout: float | None) -> Any:
        return method.future(request, timeout=timeout)

    def _run(self, flow: Flow[T]) -> T:
        return run(flow, self._execute)

    def _iterate(self, flow: Flow[None]) -> Iterator[AttentionPiece]:
        """Execute a flow and pass on the pieces that it yields."""
        with contextlib.closing(steps(flow)) as commands:
            while (piece := output(commands, self._execute)) is not None:
                yield piece

    def _execute(self, command: Command) -> Any:
        match command:
            case Pause(seconds):
                return self._pause(seconds)
            case LayOut(make):
                return make()
            case Wait(call):
                return response_of(call)
            case Failure(call):
                return error_of_call(call) if call.done() else None
            case Read(call):
                return next(iter(call), None)
            case Linger(call, seconds):
                with contextlib.suppress(grpc.FutureTimeoutError, grpc.FutureCancelledError):
                    call.exception(seconds)

    def _pause(self, seconds: float) -> None:
        self._closed.wait(seconds)


def response_of(call: Any) -> Any:
    """The response of a call, once it is there. One that the server cancelled raises itself, as failed ones do."""
    try:
        return call.result()
    except grpc.FutureCancelledError:
        raise call from None

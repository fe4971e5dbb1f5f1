"""How the blocking client waits: its channel, calls in flight together, and what is sent again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

import grpc

from headlight.client.calls.attention_pieces import AttentionPiece, Pieces
from headlight.client.calls.stream_calls import Streamed
from headlight.client.calls.unary_calls import RequestT, ResponseT, ResultT, UnaryWork
from headlight.client.channel import BLOCKING_CONFIG, ClientBase, Options, Retries
from headlight.client.stream_end import end
from headlight.description import ModelDescription
from headlight.errors import Overloaded, Unavailable
from headlight.pb import headlight_pb2 as pb
from headlight.wire.answer_checks import check_description
from headlight.wire.client_codec import from_model
from headlight.wire.status_errors import is_to_be_repeated


class Caller(ClientBase[grpc.Channel]):
    """Does the work of `headlight.client.calls.unary_calls` and `headlight.client.calls.stream_calls` over a blocking channel."""

    _service_config = BLOCKING_CONFIG

    def _open(self, target: str, credentials: grpc.ChannelCredentials | None, options: Options) -> grpc.Channel:
        if credentials is None:
            return grpc.insecure_channel(target, options)
        return grpc.secure_channel(target, credentials, options)

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

    def _pause(self, seconds: float) -> None:
        """Wait before something is sent again; not for longer than the client is open."""
        if seconds:
            self._closed.wait(seconds)

    def _describe(self, deadline: float | None) -> ModelDescription:
        return self._description or self._learn(deadline)  # read once: another thread may forget it at any time

    def _learn(self, deadline: float | None) -> ModelDescription:
        response = self._ask(self._stub.GetModel, pb.GetModelRequest(model=self._model), deadline)
        self._description = description = check_description(from_model(response), self._model)
        return description

    def _ask(self, method: Any, request: Any, deadline: float | None) -> Any:
        """The response of one unary call, which is sent again when the server says."""
        retries = Retries(deadline, Overloaded)
        while True:
            self._pause(retries.pause())
            with retries, self._errors():
                return method(request, timeout=self._left(deadline))

    def _call(
        self, method: Any, make: Callable[[ModelDescription], UnaryWork[RequestT, ResponseT, ResultT]]
    ) -> ResultT:
        deadline = self._deadline()
        work = self._made(make, self._describe(deadline))
        pending: deque[tuple[range, RequestT, Any]] = deque()
        retries = Retries(deadline, Overloaded, once_answered=self._outlasts)

        def start(request: RequestT) -> Any:
            return method.future(request, timeout=self._left(deadline))

        def finish_first() -> None:
            part, _, first = pending[0]  # which stays there until it is done: whatever comes between ends it
            with retries, self._errors(part.start, work.may_be_large(part)):
                work.receive(part, response_of(first))
                pending.popleft()
                retries.reset()
                return
            self._pause(retries.pause())
            for at, (part, request, call) in enumerate(list(pending)):
                if call.done() and is_to_be_repeated(call, first):  # what failed beside it is not waited for once more
                    pending[at] = part, request, start(request)

        try:
            for part, request in work.requests():
                while len(pending) == self._concurrency:
                    finish_first()
                pending.append((part, request, start(request)))
            while pending:
                finish_first()
        finally:
            for _, _, call in pending:
                call.cancel()
        return work.result()

    def _stream(self, make: Callable[[ModelDescription], Streamed[ResultT]]) -> list[ResultT]:
        deadline = self._deadline()
        work = self._made(make, self._describe(deadline))
        retries = Retries(deadline, Overloaded, Unavailable)
        while work.unanswered:
            self._pause(retries.pause())
            call = self._stub.EncodeStream(work.requests(), timeout=self._left(deadline))
            try:
                with retries, self._errors():
                    for frame in call:
                        if work.receive(frame):
                            retries.reset()
                    work.finish()
            finally:
                end(call, work.over)
        return work.result()

    def _pieces(self, pieces: Pieces, deadline: float | None) -> Iterator[AttentionPiece]:
        pieces.expect(self._describe(deadline))
        retries = Retries(deadline, Overloaded, Unavailable)
        while not pieces.complete:
            self._pause(retries.pause(last=pieces.begun))
            call = self._stub.EncodeStream(iter([pieces.request]), timeout=self._left(deadline))
            try:
                with retries, self._errors():
                    for frame in call:
                        yield from pieces.receive(frame)
                    return pieces.finish()
            finally:
                end(call, pieces.over)


def response_of(call: Any) -> Any:
    """The response of a call, once it is there. One that the server cancelled raises itself, as failed ones do."""
    try:
        return call.result()
    except grpc.FutureCancelledError:
        raise call from None

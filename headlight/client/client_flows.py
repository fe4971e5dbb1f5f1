"""The flows of both clients: what is asked of the server for each kind of method, and what is tried again."""

from __future__ import annotations

import abc
import contextlib
import functools
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from headlight.client.call_flow import Command, Flow, LayOut, Linger, Output, Read, Retries, Wait, in_order
from headlight.client.calls.attention_pieces import Pieces
from headlight.client.calls.stream_calls import ResultT, Streamed
from headlight.client.calls.unary_calls import Pooled, Tokenized
from headlight.client.channel import ChannelT, ClientBase
from headlight.description import ModelDescription
from headlight.errors import HeadlightError, Overloaded, Unavailable
from headlight.pb import headlight_pb2 as pb
from headlight.spec import AttentionSpec
from headlight.wire.answer_checks import check_description
from headlight.wire.client_codec import Input, Reading, as_list, from_model

LINGER_SECONDS = 0.25  # for a status that is on its way; a server that has gone is not waited for
P = ParamSpec("P")
UnaryT = TypeVar("UnaryT", Pooled, Tokenized)
Receive = Callable[[pb.EncodeStreamResponse], Iterable[Command]]


class ClientFlows(ClientBase[ChannelT]):
    """Flows over a channel of either kind. `headlight.client.call_flow` says what a flow is."""

    @abc.abstractmethod
    def _start(self, method: Any, request: Any, timeout: float | None) -> Any:
        """Begin a unary call, without waiting for its answer."""

    def _stream_errors(self, call: Any) -> contextlib.AbstractContextManager[None]:
        """Mends the errors that reading a stream raises. To be entered before anything is read."""
        return contextlib.nullcontext()

    def _describe(self, deadline: float | None) -> Flow[ModelDescription]:
        return self._description or (yield from self._learn(deadline))  # read once: another thread may forget it

    def _learn(self, deadline: float | None) -> Flow[ModelDescription]:
        response = yield from self._ask(self._stub.GetModel, pb.GetModelRequest(model=self._model), deadline)
        self._description = description = check_description(from_model(response), self._model)
        return description

    def _ask(self, method: Any, request: Any, deadline: float | None) -> Flow[Any]:
        """The response of one unary call."""
        answers: list[Any] = []
        yield from self._send(method, [(range(1), request)], lambda _, answer: answers.append(answer), deadline)
        return answers[0]

    def _call(
        self,
        method: Any,
        texts: Iterable[Input] | str,
        make: Callable[Concatenate[ModelDescription, str, list[Input], P], UnaryT],
        *rest: P.args,
        **keywords: P.kwargs,
    ) -> Flow[UnaryT]:
        """The work that `make` lays out for some texts, done by as many unary calls as it takes."""
        deadline = self._deadline()
        work: UnaryT = yield from self._laid_out(deadline, texts, make, *rest, **keywords)
        requests = ((part, work.request(part)) for part in work.parts)
        yield from self._send(method, requests, work.receive, deadline, work.large)
        return work

    def _stream(
        self,
        texts: Iterable[Input] | str,
        make: Callable[Concatenate[ModelDescription, str, list[Input], P], Streamed[ResultT]],
        *rest: P.args,
        **keywords: P.kwargs,
    ) -> Flow[list[ResultT]]:
        """The results of the work that `make` lays out for some texts, over as many streams as it takes."""
        deadline = self._deadline()
        work: Streamed[ResultT] = yield from self._laid_out(deadline, texts, make, *rest, **keywords)
        retries = Retries(deadline, Overloaded, Unavailable)

        def receive(frame: pb.EncodeStreamResponse) -> Sequence[Command]:
            if work.receive(frame):
                retries.reset()
            return ()

        yield from self._exchange(work, receive, retries, deadline)
        return work.result()

    def _pieces(self, text: Input, spec: AttentionSpec, reading: Reading) -> Flow[None]:
        """Puts the pieces of attention out, one by one. What can be refused without the server is, before the flow begins."""
        pieces, deadline = Pieces(self._model, text, spec, reading), self._deadline()
        self._left(deadline)  # nor is a client that is closed found out only by the first piece
        return self._received(pieces, deadline)

    def _received(self, pieces: Pieces, deadline: float | None) -> Flow[None]:
        pieces.expect((yield from self._describe(deadline)))
        retries = Retries(deadline, Overloaded, Unavailable)

        def receive(frame: pb.EncodeStreamResponse) -> Flow[None]:
            yield from map(Output, pieces.receive(frame))
            if pieces.begun:
                retries.mended = ()  # what has come cannot be taken back

        yield from self._exchange(pieces, receive, retries, deadline)

    def _laid_out(
        self,
        deadline: float | None,
        texts: Iterable[Input] | str,
        make: Callable[..., Any],
        *rest: Any,
        **keywords: Any,
    ) -> Flow[Any]:
        """What a method is to do, which depends on the model and its limits."""
        inputs = as_list(texts)
        model = yield from self._describe(deadline)
        with self._doubts():
            return (yield LayOut(functools.partial(make, model, self._model, inputs, *rest, **keywords), len(inputs)))

    def _send(
        self,
        method: Any,
        requests: Iterable[tuple[range, Any]],
        receive: Callable[[range, Any], None],
        deadline: float | None,
        large: Collection[int] = (),
    ) -> Flow[None]:
        """Send requests, `concurrency` at once, and receive the answers in order.

        Args:
            method: of the stub.
            requests: the inputs that each is of, by index, and the request.
            receive: takes the answers, with the inputs that they are of.
            deadline: by the monotonic clock.
            large: the first inputs of requests whose answers may rightly be larger than a message.
        """
        retries = Retries(deadline, Overloaded, once_answered=self._outlasts)

        def start(job: tuple[range, Any]) -> Any:
            return self._start(method, job[1], self._left(deadline))

        def take(job: tuple[range, Any], call: Any) -> Flow[None]:
            part = job[0]
            with self._errors(part.start, part.start in large):
                receive(part, (yield Wait(call)))

        yield from in_order(requests, self._concurrency, start, take, retries)

    def _exchange(
        self, work: Streamed[Any] | Pieces, receive: Receive, retries: Retries, deadline: float | None
    ) -> Flow[None]:
        """Send the requests of some work over streams, one after the other, until all are answered."""

        def start(work: Streamed[Any] | Pieces) -> Any:
            return self._stub.EncodeStream(work.requests(), timeout=self._left(deadline))

        def take(work: Streamed[Any] | Pieces, call: Any) -> Flow[None]:
            try:
                with self._errors(), self._stream_errors(call):
                    while (frame := (yield Read(call))) is not None:
                        yield from receive(frame)
                    work.finish()
            except HeadlightError as error:
                if work.over:
                    yield Linger(call, LINGER_SECONDS)  # else the server counts a client that disconnected
                if work.unanswered or not isinstance(error, Overloaded | Unavailable):
                    raise
            finally:
                call.cancel()

        yield from in_order([work] if work.unanswered else [], 1, start, take, retries)

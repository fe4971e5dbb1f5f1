"""Flows of both clients: the calls of each kind of method, and the retries."""

from __future__ import annotations

import abc
import contextlib
import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from numpy.typing import ArrayLike

from headlight.client.call_flow import (
    Command,
    Flow,
    LayOut,
    Linger,
    Output,
    Read,
    ReadyRetries,
    Retries,
    Wait,
    in_order,
    naming,
    then,
)
from headlight.client.calls import unary_calls
from headlight.client.calls.attention_pieces import Pieces
from headlight.client.calls.comparison_calls import Compared
from headlight.client.calls.scoring_calls import Classified, Ranked
from headlight.client.calls.stream_calls import Scored, Streamed
from headlight.client.calls.unary_calls import Pooled, Tokenized
from headlight.client.channel import ChannelT, ClientBase
from headlight.comparison import CompareSpec
from headlight.description import ModelDescription
from headlight.errors import (
    BadAnswer,
    HeadlightError,
    InvalidInput,
    MixedWeights,
    Overloaded,
    Phrase,
    Reason,
    Unavailable,
)
from headlight.interface.arguments import Input, Prompting, Reading, as_list
from headlight.interface.similarity import similarity
from headlight.outputs.scores import ALL
from headlight.pb import headlight_pb2 as pb
from headlight.refusals import Path, Refusal
from headlight.results import Embeddings
from headlight.span_vectors import SpansSpec
from headlight.spec import (
    AttentionSpec,
    PooledSpec,
    TokensLike,
)
from headlight.wire.answer_checks import check_description, check_model
from headlight.wire.client_codec import from_model, from_models

MOST_ANEW = 2  # in a roll-out of replicas, lists of many requests may never be of one version
LINGER_SECONDS = 0.25  # long enough for a status on its way; short if the server is gone
DOCUMENTS: Mapping[Path, Path] = {("inputs",): ("documents",)}  # as measured here
P = ParamSpec("P")
T = TypeVar("T")
UnaryT = TypeVar("UnaryT", Pooled, Tokenized, Compared, Ranked, Classified)
Receive = Callable[[pb.EncodeStreamResponse], Iterable[Command]]


class ClientFlows(ClientBase[ChannelT]):
    """Flows over a channel of either kind. `headlight.client.call_flow` defines flows."""

    @abc.abstractmethod
    def _start(self, method: Any, request: Any, timeout: float | None) -> Any:
        """Begin a unary call, without waiting for its answer."""

    def _stream_errors(self, call: Any) -> contextlib.AbstractContextManager[None]:
        """Correct the errors of reading a stream. Enter it before the first read."""
        return contextlib.nullcontext()

    @abc.abstractmethod
    def _run(self, flow: Flow[Any]) -> Any:
        """Execute a flow and return its result, or an awaitable of it."""

    @abc.abstractmethod
    def _iterate(self, flow: Flow[None]) -> Any:
        """Execute a flow and pass on the pieces that it yields."""

    def _pooled(
        self,
        texts: Iterable[Input] | str,
        spec: PooledSpec,
        head_mask: ArrayLike | None,
        reading: Reading,
        read: Callable[[Embeddings], Any],
    ) -> Any:
        work = self._call(self._stub.Encode, texts, Pooled, spec, head_mask, reading)
        return self._run(then(work, lambda done: read(done.result())))

    def _rerank(self, query: str, documents: list[str], top_n: int | None, reading: Reading) -> Any:
        work = self._call(self._stub.Rerank, documents, Ranked, query, top_n, reading)
        return self._run(then(naming(work, DOCUMENTS), Ranked.result))

    def _classify(self, texts: Iterable[Input] | str, reading: Reading) -> Any:
        work = self._call(self._stub.Classify, texts, Classified, reading)
        return self._run(then(work, Classified.result))

    def _scores(self, texts: Iterable[Input] | str, reading: Reading) -> Any:
        make = functools.partial(Scored, output="scores", spec=ALL, reading=reading, details=False)
        return self._run(self._stream(texts, make))

    def _encode(
        self,
        texts: Iterable[Input] | str,
        output: str,
        spec: Any,
        reading: Reading,
        read: Callable[[list[Any]], Any],
        *,
        head_mask: ArrayLike | None = None,
        details: bool = True,
    ) -> Any:
        make = functools.partial(
            Streamed,
            output=output,
            spec=spec,
            reading=reading,
            head_mask=head_mask,
            details=details,
        )
        return self._run(then(self._stream(texts, make), read))

    def _span_vectors(self, texts: Iterable[Input] | str, spec: SpansSpec, reading: Reading) -> Any:
        return self._encode(texts, "spans", spec, reading, list)

    def _attention_pieces(self, text: Input, spec: AttentionSpec, reading: Reading) -> Any:
        return self._iterate(self._pieces(text, spec, reading))

    def _attention_bytes(self, text: Input, spec: AttentionSpec, reading: Reading) -> Any:
        request = unary_calls.dry_run(self._model, text, spec, reading)
        return self._run(self._ask_by_name(self._stub.Encode, request, unary_calls.data_bytes))

    def _compare(
        self,
        query: Input,
        passages: list[Input],
        spec: CompareSpec,
        query_reading: Reading,
        passage_reading: Reading,
    ) -> Any:
        rest = query, spec, query_reading, passage_reading
        work = self._call(self._stub.Compare, passages, Compared, *rest)
        return self._run(then(work, Compared.result))

    def _occlusion(
        self,
        text: Input,
        tokens: TokensLike | None,
        target: str | ArrayLike | None,
        reading: Reading,
    ) -> Any:
        request = unary_calls.occlusion_request(self._model, text, tokens, reading, target)
        decode = functools.partial(unary_calls.occlusion, text=text, has_target=target is not None)
        return self._run(self._ask_by_name(self._stub.Occlude, request, decode))

    def _tokens(self, texts: Iterable[Input] | str, prompting: Prompting) -> Any:
        work = self._call(self._stub.Tokenize, texts, Tokenized, prompting)
        return self._run(then(work, Tokenized.result))

    def _similarity(self, a: ArrayLike, b: ArrayLike) -> Any:
        described = self._describe(self._deadline())
        return self._run(then(described, lambda model: similarity(model.similarity, a, b)))

    def _describe(self, deadline: float | None) -> Flow[ModelDescription]:
        # read once: another thread may forget it
        return self._description or (yield from self._learn(deadline))

    def _learn(self, deadline: float | None) -> Flow[ModelDescription]:
        response = yield from self._ask(
            self._stub.GetModel, pb.GetModelRequest(model=self._model), deadline
        )
        self._description = description = check_description(from_model(response), self._model)
        return description

    def _list_models(self) -> Any:
        listed = self._ask(self._stub.ListModels, pb.ListModelsRequest(), self._deadline())
        return self._run(then(listed, from_models))

    def _ask_by_name(self, method: Any, request: Any, decode: Callable[..., Any]) -> Flow[Any]:
        """Return what `decode` makes of a response, which is checked to be of the named model."""
        deadline, name = self._deadline(), self._model

        def once() -> Flow[Any]:
            response = yield from self._ask(method, request, deadline)
            with self._doubts():
                if name and response.model.name != name:  # an alias, or name@version
                    check_model(response.model, (yield from self._describe(deadline)), name)
                return decode(response)

        return (yield from self._of_one_version(deadline, once))

    def _ask(self, method: Any, request: Any, deadline: float | None) -> Flow[Any]:
        """Return the response of one unary call."""
        answers: list[Any] = []
        yield from self._send(
            method,
            [(range(1), request)],
            lambda _, answer: answers.append(answer),
            deadline,
            retries=None if self._answered else ReadyRetries(deadline, self._wait_for_ready),
        )
        self._answered = True
        return answers[0]

    def _call(
        self,
        method: Any,
        texts: Iterable[Input] | str,
        make: Callable[Concatenate[ModelDescription, str, list[Input], P], UnaryT],
        *rest: P.args,
        **keywords: P.kwargs,
    ) -> Flow[UnaryT]:
        """Return the work that `make` creates, done by as many unary calls as it needs."""
        deadline, inputs = self._deadline(), as_list(texts)

        def once() -> Flow[UnaryT]:
            work: UnaryT = yield from self._laid_out(deadline, inputs, make, *rest, **keywords)
            requests = ((part, work.request(part)) for part in work.parts)
            yield from self._send(method, requests, work.receive, deadline, work.large)
            return work

        return (yield from self._of_one_version(deadline, once))

    def _stream(
        self,
        texts: Iterable[Input] | str,
        make: Callable[[ModelDescription, str, list[Input]], Streamed],
    ) -> Flow[list[Any]]:
        """Return the results of the work that `make` creates.

        A lone request with a small answer is a unary call. Else there are as many streams as it
        needs.
        """
        deadline, inputs = self._deadline(), as_list(texts)
        once = functools.partial(self._streamed, deadline, inputs, make)
        return (yield from self._of_one_version(deadline, once))

    def _streamed(
        self,
        deadline: float | None,
        inputs: Sequence[Input],
        make: Callable[[ModelDescription, str, list[Input]], Streamed],
    ) -> Flow[list[Any]]:
        """Return the results of the work that `make` creates, if all have the same weights."""
        work: Streamed = yield from self._laid_out(deadline, inputs, make)
        if work.fits_message:
            requests = [(part, work.request(part)) for part in work.parts]
            again = Retries(deadline, Overloaded, Unavailable)
            try:
                yield from self._send(
                    self._stub.Encode, requests, work.receive_whole, deadline, retries=again
                )
            except InvalidInput as error:
                # Of a few characters a tokenizer makes more tokens than they have bytes, and the
                # limit may be that of another replica.
                if not _fits_a_stream(error.refusal):
                    raise
            else:
                return work.result()
        retries = Retries(deadline, Overloaded, Unavailable)

        def receive(frame: pb.EncodeStreamResponse) -> Sequence[Command]:
            if work.receive(frame):
                retries.reset()
            return ()

        yield from self._exchange(work, receive, retries, deadline)
        return work.result()

    def _pieces(self, text: Input, spec: AttentionSpec, reading: Reading) -> Flow[None]:
        """Output the pieces of attention one by one.

        Errors that need no server are raised before the flow begins.
        """
        pieces, deadline = Pieces(self._model, text, spec, reading), self._deadline()
        self._remaining(deadline)  # a closed client fails now, not at the first piece
        return self._received(pieces, deadline)

    def _received(self, pieces: Pieces, deadline: float | None) -> Flow[None]:
        def once() -> Flow[None]:
            pieces.expect((yield from self._describe(deadline)))
            retries = Retries(deadline, Overloaded, Unavailable)

            def receive(frame: pb.EncodeStreamResponse) -> Flow[None]:
                yield from map(Output, pieces.receive(frame))
                if pieces.begun:
                    retries.mended = ()  # pieces that the caller has cannot be taken back

            yield from self._exchange(pieces, receive, retries, deadline)

        yield from self._of_one_version(deadline, once, lambda: pieces.begun)

    def _of_one_version(
        self,
        deadline: float | None,
        once: Callable[[], Flow[T]],
        begun: Callable[[], bool] = lambda: False,
    ) -> Flow[T]:
        """Return the result of a call, which is made anew if the model was replaced.

        Vectors of two versions do not compare, so those of the first are dropped. An answer that
        does not fit a description of before the call may be of a version that came since.

        Args:
            deadline: of the call.
            once: makes the call; it asks for a description that was forgotten.
            begun: whether the caller has part of the result, which cannot be taken back.
        """
        for _ in range(MOST_ANEW):
            earlier = self._description
            try:
                return (yield from once())
            except MixedWeights:
                if begun():
                    raise
            except BadAnswer:
                if begun() or earlier is None:
                    raise
                if (yield from self._describe(deadline)) == earlier:
                    raise
        return (yield from once())

    def _laid_out(
        self,
        deadline: float | None,
        texts: Iterable[Input] | str,
        make: Callable[..., Any],
        *rest: Any,
        **keywords: Any,
    ) -> Flow[Any]:
        """Return the work of a method, which depends on the model and its limits."""
        inputs = as_list(texts)
        model = yield from self._describe(deadline)
        with self._doubts():
            return (
                yield LayOut(
                    functools.partial(make, model, self._model, inputs, *rest, **keywords),
                    len(inputs),
                )
            )

    def _send(
        self,
        method: Any,
        requests: Iterable[tuple[range, Any]],
        receive: Callable[[range, Any], None],
        deadline: float | None,
        large: Collection[int] = (),
        retries: Retries | None = None,
    ) -> Flow[None]:
        """Send requests, `concurrency` at once, and receive the answers in order.

        Args:
            method: of the stub.
            requests: pairs of the inputs, by index, and their request.
            receive: takes the inputs of an answer, and the answer.
            deadline: by the monotonic clock.
            large: the first inputs of requests whose answers may be larger than a message.
            retries: None: the usual.
        """
        retries = retries or Retries(deadline, Overloaded, once_answered=self._outlasts)

        def start(job: tuple[range, Any]) -> Any:
            return self._start(method, job[1], self._remaining(deadline))

        def take(job: tuple[range, Any], call: Any) -> Flow[None]:
            part = job[0]
            with self._errors(part.start, part.start in large):
                receive(part, (yield Wait(call)))

        yield from in_order(requests, self._concurrency, start, take, retries)

    def _exchange(
        self,
        work: Streamed | Pieces,
        receive: Receive,
        retries: Retries,
        deadline: float | None,
    ) -> Flow[None]:
        """Send the requests of some work over one stream after another, until all are answered."""

        def start(work: Streamed | Pieces) -> Any:
            return self._stub.EncodeStream(work.requests(), timeout=self._remaining(deadline))

        def take(work: Streamed | Pieces, call: Any) -> Flow[None]:
            try:
                with self._errors(), self._stream_errors(call):
                    while (frame := (yield Read(call))) is not None:
                        yield from receive(frame)
                    work.finish()
            except HeadlightError as error:
                if work.over:
                    # Else the server would count a client that disconnected.
                    yield Linger(call, LINGER_SECONDS)
                if work.unanswered or not isinstance(error, Overloaded | Unavailable):
                    raise
            finally:
                call.cancel()

        yield from in_order([work] if work.unanswered else [], 1, start, take, retries)


def _fits_a_stream(refusal: Refusal) -> bool:
    """Return whether only the answer in one message is refused; older services do not say so."""
    if refusal.reason is Reason.AS_IS:
        return refusal.path[:1] == ("outputs",)
    return refusal.args.get("remedy") is Phrase.LESS_OF_ONE_MESSAGE

"""Several requests over one stream; answers arrive frame by frame in any order.

    client.attend(text) -> attention(...)  --requests()-->  transport
    transport  --receive(frame), finish()-->  result()

A lone request whose answer fits in a message is a unary call, which costs less:

    transport  --receive_whole(part, response)-->  result()

`headlight.client.calls.large_outputs` uses it. The server may shed one request because its queue is
full. That request waits for another stream, and the others are answered on this one. No new request
is sent on this stream, because the server would read, tokenise and refuse it.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from numpy.typing import ArrayLike

from headlight.client.calls.list_work import INPUT_BYTES, ITEM_BYTES, Cost, ListWork, response_bytes
from headlight.description import ModelDescription
from headlight.errors import HeadlightError, Overloaded
from headlight.interface.arguments import Input, Reading
from headlight.outputs.contract import malformed, require
from headlight.pb import headlight_pb2 as pb
from headlight.wire.answer_checks import Expected
from headlight.wire.client_codec import encode_request
from headlight.wire.reassembly import Answer, Assembly, Check, whole_answer
from headlight.wire.status_errors import error_of_status

ResultT = TypeVar("ResultT")


class Streamed(ListWork[pb.EncodeRequest], Generic[ResultT]):
    """Large outputs of any number of inputs: several requests of one stream, or a unary call.

    Args:
        model: for the limits.
        name: name of the model, as the caller gave it.
        inputs: the inputs to encode.
        outputs: the requested outputs.
        reading: how to read texts.
        take: returns the result of one input (by its index in the request) from an answer.
        token_bytes: most bytes of each token in an answer.
        pair_bytes: most bytes of each pair of tokens in an answer.
        alone: whether each input has a request of its own.
        head_mask: [L, H], for every input; None: ones.
        spans: the spans of each input, if they are given.
    """

    def __init__(
        self,
        model: ModelDescription,
        name: str,
        inputs: Sequence[Input],
        outputs: pb.Outputs,
        reading: Reading,
        take: Callable[[Answer, int], ResultT],
        *,
        token_bytes: int,
        pair_bytes: int = 0,
        alone: bool = False,
        head_mask: ArrayLike | None = None,
        spans: Sequence[pb.TextSpans] = (),
    ) -> None:
        self._max_bytes = model.limits.max_stream_output_bytes
        self._spans, self._token_bytes = spans, token_bytes
        super().__init__(
            model,
            encode_request(name, (), outputs, reading),
            inputs,
            reading,
            self._max_bytes or sys.maxsize,
            item_bytes=ITEM_BYTES,
            token_bytes=token_bytes,
            pair_bytes=pair_bytes,
            alone=alone,
            head_mask=head_mask,
        )
        self._expected = Expected(model, name, outputs, reading)
        self._take = take
        self._results: dict[int, ResultT] = {}
        # State of this stream: an assembly for each request that was sent and is unanswered. After
        # the first shed request: its error and the time of it.
        self._assemblies: dict[str, Assembly] = {}
        self._told: tuple[Overloaded, float] | None = None
        # whether the stream has ended: a request was refused for good after all others were
        # answered
        self.over = False

    def _with_spans(self, at: int, cost: Cost) -> Cost:
        if not self._spans:
            return cost
        own = self._spans[at]
        return cost._replace(
            request_bytes=cost.request_bytes + own.ByteSize() + INPUT_BYTES,
            tokens=max(cost.tokens, len(own.spans)),  # at most as many of both
            response_bytes=cost.response_bytes + len(own.spans) * self._token_bytes,
        )

    def request(self, part: range) -> pb.EncodeRequest:
        """Return the request for some of the inputs, by index, with their own spans."""
        request = super().request(part)
        if self._spans:
            request.outputs.spans.given.inputs.extend(self._spans[part.start : part.stop])
        return request

    @property
    def fits_message(self) -> bool:
        """Whether one request does, whose answer fits in a message."""
        return len(self.parts) == 1 and self.answer_bytes <= response_bytes(self._model)

    def _unanswered(self) -> list[int]:
        return [at for at, part in enumerate(self.parts) if part.start not in self._results]

    @property
    def unanswered(self) -> int:
        """Number of unanswered requests; 0: `result` is complete."""
        return len(self._unanswered())

    @property
    def _awaited(self) -> int:
        """Number of answers that this stream owes."""
        return len(self._assemblies) if self._told else self.unanswered

    def requests(self) -> Iterator[pb.EncodeStreamRequest]:
        """Return the unanswered requests, for a new stream.

        Partial answers of earlier streams are discarded. The id of a request is its index. gRPC
        iterates over the requests in another thread. The iterator cannot fail: the inputs were
        checked before.
        """
        # New objects, because gRPC may still iterate over the requests of an earlier stream.
        self._assemblies, self._told, self.over = {}, None, False
        return self._drawn(self._unanswered(), self._assemblies)

    def _drawn(
        self, left: Sequence[int], assemblies: dict[str, Assembly]
    ) -> Iterator[pb.EncodeStreamRequest]:
        for at in left:
            if self._told:
                return
            part = self.parts[at]
            request = self.request(part)
            assemblies[str(at)] = Assembly(len(part), self._max_bytes, self._check(part, request))
            yield pb.EncodeStreamRequest(id=str(at), encode=request)

    def _check(self, part: range, request: pb.EncodeRequest) -> Check:
        expected = self._expected
        if self._spans:  # each request has its own
            expected = dataclasses.replace(expected, outputs=request.outputs)
        return functools.partial(expected.check, inputs=self._inputs[part.start : part.stop])

    def receive(self, frame: pb.EncodeStreamResponse) -> bool:
        """Take the next frame of any request. Return whether that request is now answered.

        Raises:
            HeadlightError: a request was refused for good, or the frame breaks the contract.
        """
        assembly = self._assemblies.get(frame.id)
        if assembly is None:
            raise malformed("a frame for a request that was not made, or is answered already")
        part = self.parts[int(frame.id)]
        if frame.WhichOneof("frame") == "error":
            self._refused(frame.id, error_of_status(frame.error, part.start))
            return False
        answer = assembly.receive(frame)
        if answer is not None:
            self._accept(part, answer)
            del self._assemblies[frame.id]
        return answer is not None

    def receive_whole(self, part: range, response: pb.EncodeResponse) -> None:
        """Take the answer of a unary call. Raises BadAnswer if it breaks the contract."""
        check = self._check(part, self.request(part))
        self._accept(part, whole_answer(response, len(part), check))

    def _accept(self, part: range, answer: Answer) -> None:
        self._expected.check_numbers(answer)
        self.check_origin(answer.response.model)
        self._results.update((index, self._take(answer, at)) for at, index in enumerate(part))

    def _refused(self, request_id: str, error: HeadlightError) -> None:
        if not isinstance(error, Overloaded) or error.retry_after_seconds is None:
            self.over = self._awaited == 1
            raise error
        del self._assemblies[request_id]
        self._told = error, time.monotonic()

    def finish(self) -> None:
        """Check a stream that ended without an error.

        Raises:
            BadAnswer: it left requests unanswered.
            Overloaded: some requests were shed; the error has the delay before another stream.
        """
        require(not self._awaited, f"the stream ended with {self._awaited} requests unanswered")
        if self._told is not None:
            error, told = self._told
            # Part of the delay has passed while the others were answered.
            left = round(
                max(0.0, (error.retry_after_seconds or 0.0) - (time.monotonic() - told)), 3
            )
            refusal = error.refusal
            raise Overloaded(refusal.reason, left, refusal.path, **refusal.args)

    def result(self) -> list[ResultT]:
        """Return the results in the order of the inputs, after all are answered."""
        return [self._results[index] for index in range(len(self._inputs))]

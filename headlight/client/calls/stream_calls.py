"""Several requests over one stream; answers arrive frame by frame in any order.

    client.attend(text) -> attention(...)  --requests()-->  transport
    transport  --receive(frame), finish()-->  result()

A lone request whose answer fits in a message is a unary call, which costs less:

    transport  --receive_whole(part, response)-->  result()

The server may shed one request because its queue is full. That request waits for another stream,
and the others are answered on this one. No new request is sent on this stream, because the server
would read, tokenise and refuse it.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from numpy.typing import ArrayLike

from headlight.client.calls.list_work import (
    INPUT_BYTES,
    ITEM_BYTES,
    TOKEN_BYTES,
    ListWork,
    response_bytes,
)
from headlight.description import ModelDescription
from headlight.errors import HeadlightError, Overloaded
from headlight.interface.arguments import Input, Reading
from headlight.interface.scoring import scores_of
from headlight.outputs.contract import malformed, require
from headlight.outputs.registry import OUTPUTS
from headlight.pb import headlight_pb2 as pb
from headlight.results import ModelRef, Scores
from headlight.wire.answer_checks import Expected
from headlight.wire.client_codec import encode_request, from_model_ref, from_token_info
from headlight.wire.reassembly import Answer, Assembly, Expect, whole_answer
from headlight.wire.status_errors import error_of_status

HEADER_BYTES = 5 << 19  # of an answer without its data, which is one message of a stream
PLACE_BYTES = 40  # of the place of a token or a span in an answer


class Streamed(ListWork[pb.EncodeRequest]):
    """An output of any number of inputs: several requests of one stream, or a unary call.

    Args:
        model: for the limits.
        name: name of the model, as the caller gave it.
        inputs: the inputs to encode.
        output: the requested output.
        spec: its spec.
        reading: how to read texts.
        head_mask: [L, H], for every input; None: ones.
        details: whether the results have their tokens.
    """

    def __init__(
        self,
        model: ModelDescription,
        name: str,
        inputs: Sequence[Input],
        output: str,
        spec: Any,
        reading: Reading,
        *,
        head_mask: ArrayLike | None = None,
        details: bool = True,
    ) -> None:
        self._output, self._details = OUTPUTS[output], details
        self._spec = self._output.checked(spec, len(inputs))
        self._max_bytes = model.limits.max_stream_output_bytes
        self._name, self._reading = name, reading
        whole = self._output.part(self._spec, range(0))
        # Whether each request has a spec of its own, and not only inputs.
        self._divided = whole != self._spec
        self._expected = Expected(model, name, {output: self._spec}, reading, details=details)
        token_bytes = PLACE_BYTES + TOKEN_BYTES * details
        answer_bytes = self._max_bytes or sys.maxsize
        if getattr(self._spec, "pieces", False):  # they are in the header, which is one message
            answer_bytes = min(answer_bytes, HEADER_BYTES)
        super().__init__(
            model,
            encode_request(name, (), self._outputs(whole), reading),
            inputs,
            reading,
            answer_bytes,
            size=lambda tokens: (
                ITEM_BYTES + token_bytes * tokens + self._expected.most_bytes(tokens)
            ),
            # Attention and hidden states are large.
            alone=self._output.role == "attend",
            head_mask=head_mask,
        )
        self._results: dict[int, Any] = {}
        # State of this stream: an assembly for each request that was sent and is unanswered. After
        # the first shed request: its error and the time of it.
        self._assemblies: dict[str, Assembly] = {}
        self._shed: tuple[Overloaded, float] | None = None
        # whether the stream has ended: a request was refused for good after all others were
        # answered
        self.over = False

    def _outputs(self, spec: Any) -> pb.Outputs:
        info = pb.TokenInfoOutput() if self._details else None
        message = self._output.message_of(spec)
        return pb.Outputs(**{self._output.name: message}, token_info=info)

    def _own_spans(self, at: int) -> tuple[int, int]:
        if not self._divided:
            return 0, 0
        part = self._output.part(self._spec, range(at, at + 1))
        return self._outputs(part).ByteSize() + INPUT_BYTES, len(part.kind[0])

    def request(self, part: range) -> pb.EncodeRequest:
        """Return the request for some of the inputs, by index, with their own spans."""
        request = super().request(part)
        if self._divided:
            request.outputs.CopyFrom(self._outputs(self._output.part(self._spec, part)))
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
        return len(self._assemblies) if self._shed else self.unanswered

    def requests(self) -> Iterator[pb.EncodeStreamRequest]:
        """Return the unanswered requests, for a new stream.

        Partial answers of earlier streams are discarded. The id of a request is its index. gRPC
        iterates over the requests in another thread. The iterator cannot fail: the inputs were
        checked before.
        """
        # New objects, because gRPC may still iterate over the requests of an earlier stream.
        self._assemblies, self._shed, self.over = {}, None, False
        return self._drawn(self._unanswered(), self._assemblies)

    def _drawn(
        self, left: Sequence[int], assemblies: dict[str, Assembly]
    ) -> Iterator[pb.EncodeStreamRequest]:
        for at in left:
            if self._shed:
                return
            part = self.parts[at]
            request = self.request(part)
            assemblies[str(at)] = Assembly(self._expect(part), self._max_bytes)
            yield pb.EncodeStreamRequest(id=str(at), encode=request)

    def _expect(self, part: range) -> Expect:
        expected = self._expected
        if self._divided:
            specs = {self._output.name: self._output.part(self._spec, part)}
            expected = Expected(
                self._model, self._name, specs, self._reading, details=self._details
            )
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
        self._accept(part, whole_answer(response, self._expect(part)))

    def _accept(self, part: range, answer: Answer) -> None:
        self._expected.check_numbers(answer)
        self.check_origin(answer.response.model)
        ref = from_model_ref(answer.response.model)
        self._results.update(
            (index, self._result(answer, at, ref)) for at, index in enumerate(part)
        )

    def _result(self, answer: Answer, at: int, ref: ModelRef) -> Any:
        """Return the result of one input, by its index in the request."""
        name = self._output.name
        arrays = {tensor: answer.part(tensor, at) for tensor in answer.announced.layouts}
        item = answer.response.items[at]
        tokens = from_token_info(item.tokens)
        choice, place = self._expected.choices[name], answer.announced.places[name][at]
        result = self._output.result(choice, place, arrays, tokens, ref)
        return self._output.counted(result, item.original_token_count, item.token_count)

    def _refused(self, request_id: str, error: HeadlightError) -> None:
        if not isinstance(error, Overloaded) or error.retry_after_seconds is None:
            self.over = self._awaited == 1
            raise error
        del self._assemblies[request_id]
        self._shed = error, time.monotonic()

    def finish(self) -> None:
        """Check a stream that ended without an error.

        Raises:
            BadAnswer: it left requests unanswered.
            Overloaded: some requests were shed; the error has the delay before another stream.
        """
        require(not self._awaited, f"the stream ended with {self._awaited} requests unanswered")
        if self._shed is not None:
            error, since = self._shed
            # Part of the delay has passed while the others were answered.
            left = round(
                max(0.0, (error.retry_after_seconds or 0.0) - (time.monotonic() - since)), 3
            )
            refusal = error.refusal
            raise Overloaded(refusal.reason, left, refusal.path, **refusal.args)

    def result(self) -> list[Any]:
        """Return the results in the order of the inputs, after all are answered."""
        return [self._results[index] for index in range(len(self._inputs))]


class Scored(Streamed):
    """Scores of any number of inputs."""

    def _result(self, answer: Answer, at: int, ref: ModelRef) -> Scores:
        item = answer.response.items[at]
        counts = item.original_token_count, item.token_count
        return scores_of(answer.part("scores", at), self._model, ref, counts)

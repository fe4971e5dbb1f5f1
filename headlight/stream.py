"""What the client methods with large outputs do: several requests over one stream, answers frame by frame.

client.attend(text) -> attention(...)  --requests()-->  transport  --receive(frame)-->  result()
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from headlight.chunks import Answer, Assembly
from headlight.convert import (
    Input,
    Truncate,
    from_model_ref,
    from_token_info,
    malformed,
    to_input,
    to_layers,
    to_truncation,
)
from headlight.pb import headlight_pb2 as pb
from headlight.plan import Cost, measure, request_bytes, split
from headlight.results import Attention, Floats, Hidden, ModelDescription, ModelRef, TokenList
from headlight.status import error_of_status
from headlight.work import Origin

ResultT = TypeVar("ResultT")


class Streamed(Generic[ResultT]):
    """Large outputs of any number of inputs, as several requests of one stream.

    Args:
        model: for the limits.
        name: of the model, as the caller gave it.
        inputs: what to encode.
        outputs: what to ask for.
        truncate: as in the clients.
        take: makes the result of one input (its index in the request) of an answer.
        bytes_per_token: of all outputs together, where that is the same for inputs of any length; 0: inputs travel
            alone.
    """

    def __init__(
        self,
        model: ModelDescription,
        name: str,
        inputs: Sequence[Input],
        outputs: pb.Outputs,
        truncate: Truncate,
        take: Callable[[Answer, int], ResultT],
        bytes_per_token: int = 0,
    ) -> None:
        limits, most = model.limits, sys.maxsize
        costs = []
        for size, bound in measure(inputs, request_bytes(model)):
            tokens = min(bound, model.max_length)
            costs.append(Cost(1, size, tokens, tokens * bytes_per_token))
        max_items = (limits.max_items or most) if bytes_per_token else 1
        output_bytes = limits.max_stream_output_bytes or most
        budget = Cost(max_items, request_bytes(model), limits.max_request_tokens or most, output_bytes)
        self._parts = list(split(costs, budget))
        self._max_bytes = limits.max_stream_output_bytes
        self._assemblies = {str(at): Assembly(len(part), self._max_bytes) for at, part in enumerate(self._parts)}
        self._base = pb.EncodeRequest(model=name, outputs=outputs, truncation=to_truncation(truncate))
        self._inputs = inputs
        self._take = take
        self._origin = Origin()
        self._results: dict[int, ResultT] = {}

    @property
    def unanswered(self) -> int:
        """Requests still to be answered; 0: `result` is complete."""
        return len(self._assemblies)

    def requests(self) -> Iterator[pb.EncodeStreamRequest]:
        """What is unanswered, for a new stream: what an earlier one has sent of it is thrown away.

        Each has its index as id. gRPC draws them from another thread; they cannot fail, being converted before.
        """
        left = [int(at) for at in self._assemblies]
        self._assemblies = {str(at): Assembly(len(self._parts[at]), self._max_bytes) for at in left}
        return map(self._request, left)

    def _request(self, at: int) -> pb.EncodeStreamRequest:
        request = pb.EncodeStreamRequest(id=str(at), encode=self._base)
        request.encode.inputs.extend(to_input(self._inputs[index], f"inputs[{index}]") for index in self._parts[at])
        return request

    def receive(self, frame: pb.EncodeStreamResponse) -> None:
        """Takes the next frame of whichever request.

        Raises:
            HeadlightError: a request was refused, or the frame breaks the contract.
        """
        assembly = self._assemblies.get(frame.id)
        if assembly is None:
            raise malformed("a frame for a request that was not made, or is answered already")
        part = self._parts[int(frame.id)]
        if frame.WhichOneof("frame") == "error":
            raise error_of_status(frame.error, part.start)
        answer = assembly.receive(frame)
        if answer is not None:
            self._origin.check(answer.response.model)
            self._results.update((index, self._take(answer, at)) for at, index in enumerate(part))
            del self._assemblies[frame.id]

    def result(self) -> list[ResultT]:
        """The results in the order of the inputs. Raises EngineError where the stream left some out."""
        if self._assemblies:
            raise malformed(f"the stream ended with {len(self._assemblies)} requests unanswered")
        return [self._results[index] for index in range(len(self._inputs))]


def token_vectors(model: ModelDescription, name: str, inputs: Sequence[Input], truncate: Truncate) -> Streamed[Floats]:
    """The vector of each token of any number of inputs."""

    def take(answer: Answer, index: int) -> Floats:
        return answer.part("tokens", index)

    outputs = pb.Outputs(tokens=pb.TokensOutput())
    return Streamed(model, name, inputs, outputs, truncate, take, bytes_per_token=4 * model.dim)


def attention(
    model: ModelDescription, name: str, text: Input, layers: Iterable[int] | None, truncate: Truncate
) -> Streamed[Attention]:
    """The attention weights of one input."""
    outputs = pb.Outputs(attention=pb.AttentionOutput(layers=to_layers(layers)))
    return _of_layers("attention", Attention, outputs, model, name, text, truncate)


def hidden(
    model: ModelDescription, name: str, text: Input, layers: Iterable[int] | None, truncate: Truncate
) -> Streamed[Hidden]:
    """The hidden states of one input."""
    outputs = pb.Outputs(hidden=pb.HiddenOutput(layers=to_layers(layers)))
    return _of_layers("hidden", Hidden, outputs, model, name, text, truncate)


def _of_layers(
    output: str,
    kind: Callable[[Floats, tuple[int, ...], TokenList, ModelRef], ResultT],
    outputs: pb.Outputs,
    model: ModelDescription,
    name: str,
    text: Input,
    truncate: Truncate,
) -> Streamed[ResultT]:
    """Some layers of one input and what its tokens are."""

    def take(answer: Answer, index: int) -> ResultT:
        origin = from_model_ref(answer.response.model)
        return kind(answer.part(output, index), answer.layouts[output].layers, tokens_of(answer, index), origin)

    outputs.token_info.SetInParent()
    return Streamed(model, name, [text], outputs, truncate, take)


def tokens_of(answer: Answer, index: int) -> TokenList:
    """The tokens of one input. Raises EngineError where they do not match its count."""
    item = answer.response.items[index]
    tokens = from_token_info(item.tokens)
    if len(tokens) != item.token_count:
        raise malformed(f"{len(tokens)} tokens described of {item.token_count}")
    return tokens

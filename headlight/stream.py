"""What the client methods with large outputs do: several requests over one stream, answers frame by frame.

client.attend(text) -> attention(...)  --requests()-->  transport  --receive(frame)-->  result()
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headlight.chunks import Answer, Assembly
from headlight.convert import (
    Input,
    Reading,
    encode_request,
    from_model_ref,
    from_token_info,
    malformed,
    to_head_mask,
    to_input,
)
from headlight.description import ModelDescription
from headlight.embeddings import TokenVectors
from headlight.pb import headlight_pb2 as pb
from headlight.plan import Cost, measure, request_bytes, rest_of, split
from headlight.results import Attention, AttentionMaps, Hidden, TokenList, Units
from headlight.spec import AttentionSpec, HiddenSpec, IndicesLike, TokensSpec
from headlight.status import error_of_status
from headlight.wire import attention_output, hidden_output
from headlight.wire_vectors import tokens_output
from headlight.work import Origin, prompt_bytes

ResultT = TypeVar("ResultT")


class Streamed(Generic[ResultT]):
    """Large outputs of any number of inputs, as several requests of one stream.

    Args:
        model: for the limits.
        name: of the model, as the caller gave it.
        inputs: what to encode.
        outputs: what to ask for.
        reading: how texts are read.
        take: makes the result of one input (its index in the request) of an answer.
        bytes_per_token: of all outputs together, where that is the same for inputs of any length; 0: inputs travel
            alone.
        head_mask: [L, H], for every input; None: ones.
    """

    def __init__(
        self,
        model: ModelDescription,
        name: str,
        inputs: Sequence[Input],
        outputs: pb.Outputs,
        reading: Reading,
        take: Callable[[Answer, int], ResultT],
        bytes_per_token: int = 0,
        head_mask: ArrayLike | None = None,
    ) -> None:
        self._base = encode_request(name, (), outputs, reading)
        limits, most, prompt = model.limits, sys.maxsize, prompt_bytes(model, reading)
        costs = []
        for size, bound in measure(inputs, request_bytes(model)):
            tokens = min(bound + prompt, model.max_length)
            costs.append(Cost(1, size, tokens, tokens * bytes_per_token))
        max_items = (limits.max_items or most) if bytes_per_token else 1
        output_bytes = limits.max_stream_output_bytes or most
        request = rest_of(request_bytes(model), self._base)
        budget = Cost(max_items, request, limits.max_request_tokens or most, output_bytes)
        self._parts = list(split(costs, budget))
        self._max_bytes = limits.max_stream_output_bytes
        self._assemblies = {str(at): Assembly(len(part), self._max_bytes) for at, part in enumerate(self._parts)}
        self._inputs = inputs
        self._take = take
        self._head_mask = to_head_mask(model, head_mask)
        self._origin = Origin()
        self._results: dict[int, ResultT] = {}
        self.over = False  # whether nothing more comes on this stream: all else was answered when a request was refused

    @property
    def unanswered(self) -> int:
        """Requests still to be answered; 0: `result` is complete."""
        return len(self._assemblies)

    def requests(self) -> Iterator[pb.EncodeStreamRequest]:
        """What is unanswered, for a new stream: what an earlier one has sent of it is thrown away.

        Each has its index as id. gRPC draws them from another thread; they cannot fail, being converted before.
        """
        left, self.over = [int(at) for at in self._assemblies], False
        self._assemblies = {str(at): Assembly(len(self._parts[at]), self._max_bytes) for at in left}
        return map(self._request, left)

    def _request(self, at: int) -> pb.EncodeStreamRequest:
        request = pb.EncodeStreamRequest(id=str(at), encode=self._base)
        request.encode.inputs.extend(
            to_input(self._inputs[index], f"inputs[{index}]", self._head_mask) for index in self._parts[at]
        )
        return request

    def receive(self, frame: pb.EncodeStreamResponse) -> bool:
        """Takes the next frame of whichever request. Returns whether that is answered now.

        Raises:
            HeadlightError: a request was refused, or the frame breaks the contract.
        """
        assembly = self._assemblies.get(frame.id)
        if assembly is None:
            raise malformed("a frame for a request that was not made, or is answered already")
        part = self._parts[int(frame.id)]
        if frame.WhichOneof("frame") == "error":
            self.over = self.unanswered == 1
            raise error_of_status(frame.error, part.start)
        answer = assembly.receive(frame)
        if answer is not None:
            self._origin.check(answer.response.model)
            self._results.update((index, self._take(answer, at)) for at, index in enumerate(part))
            del self._assemblies[frame.id]
        return answer is not None

    def result(self) -> list[ResultT]:
        """The results in the order of the inputs. Raises EngineError where the stream left some out."""
        if self._assemblies:
            raise malformed(f"the stream ended with {len(self._assemblies)} requests unanswered")
        return [self._results[index] for index in range(len(self._inputs))]


def token_vectors(
    model: ModelDescription, name: str, inputs: Sequence[Input], spec: TokensSpec, reading: Reading
) -> Streamed[TokenVectors]:
    """The vectors of the tokens of any number of inputs, and which they are."""

    def take(answer: Answer, index: int) -> TokenVectors:
        tokens, kept = tokens_of(answer, index), answer.response.kept_tokens
        places = tuple(kept[index].indices) if index < len(kept) else tuple(range(len(tokens)))
        if places and not 0 <= min(places) <= max(places) < len(tokens):
            raise malformed(f"vectors of tokens beyond {len(tokens)}")
        return TokenVectors(answer.part("tokens", index), places, tokens, from_model_ref(answer.response.model))

    outputs = pb.Outputs(tokens=tokens_output(spec))
    outputs.token_info.SetInParent()
    return Streamed(model, name, inputs, outputs, reading, take, bytes_per_token=4 * model.dim)


def bare_token_vectors(
    model: ModelDescription, name: str, inputs: Sequence[Input], spec: TokensSpec, reading: Reading
) -> Streamed[NDArray[Any]]:
    """The same as arrays alone."""

    def take(answer: Answer, index: int) -> NDArray[Any]:
        return answer.part("tokens", index)

    outputs = pb.Outputs(tokens=tokens_output(spec))
    return Streamed(model, name, inputs, outputs, reading, take, bytes_per_token=4 * model.dim)


def whole_attention(
    model: ModelDescription, name: str, text: Input, layers: IndicesLike, reading: Reading
) -> Streamed[Attention]:
    """The whole maps of attention of some layers of one input."""

    def take(answer: Answer, index: int) -> Attention:
        origin, layout = from_model_ref(answer.response.model), answer.layouts["attention"]
        if layout.axes != ("layer", "head", "query", "key") or layout.shapes[index][2] != layout.shapes[index][3]:
            raise malformed(f"whole attention of the axes {layout.axes} and the shape {layout.shapes[index]}")
        return Attention(answer.part("attention", index), layout.layers, tokens_of(answer, index), origin)

    outputs = pb.Outputs(attention=attention_output(AttentionSpec.of(layers)))
    outputs.token_info.SetInParent()
    return Streamed(model, name, [text], outputs, reading, take)


def attention_maps(
    model: ModelDescription,
    name: str,
    inputs: Sequence[Input],
    spec: AttentionSpec,
    reading: Reading,
    head_mask: ArrayLike | None,
) -> Streamed[AttentionMaps]:
    """Attention of any number of inputs in the form that a spec says."""
    outputs = pb.Outputs(attention=attention_output(spec))
    outputs.token_info.SetInParent()
    return Streamed(model, name, inputs, outputs, reading, maps_of, head_mask=head_mask)


def maps_of(answer: Answer, index: int) -> AttentionMaps:
    """The attention of one input. Raises EngineError where the answer does not hold together."""
    told, tokens = answer.response.attention_map, tokens_of(answer, index)
    values = answer.part("attention", index)
    places = told.places[index] if index < len(told.places) else pb.AttentionPlaces()
    sparse = "attention_indices" in answer.layouts
    if sparse != (told.axes[-1:] == ["top"]) or ("attention_scales" in answer.layouts) != (values.dtype == np.uint8):
        raise malformed("indices or scales of attention are missing, or belong to nothing")
    keys = _units(places.keys if places.HasField("keys") else None, len(tokens))
    indices = answer.part("attention_indices", index) if sparse else None
    if indices is not None and indices.max(initial=0) >= len(keys.tokens):
        raise malformed(f"an index of attention beyond its {len(keys.tokens)} keys")
    return AttentionMaps(
        values=values,
        axes=tuple(told.axes),
        layers=answer.layouts["attention"].layers,
        heads=tuple(told.heads),
        queries=_units(places.queries if places.HasField("queries") else None, len(tokens)),
        keys=keys,
        tokens=tokens,
        model=from_model_ref(answer.response.model),
        indices=indices,
        scales=answer.part("attention_scales", index) if values.dtype == np.uint8 else None,
        statistics=tuple(told.statistics),
    )


def _units(units: pb.Units | None, count: int) -> Units:
    """What the wire says of an axis. Raises EngineError where it names tokens that are not there."""
    if units is None:
        return Units(tuple((token,) for token in range(count)))
    tokens = tuple(units.tokens)
    bounds = (*(units.starts or range(len(tokens))), len(tokens))
    if (
        not tokens
        or bounds[0] != 0
        or any(end <= begin for begin, end in itertools.pairwise(bounds))
        or max(tokens) >= count
    ):
        raise malformed(f"units of attention beyond their {count} tokens")
    return Units(tuple(tokens[begin:end] for begin, end in itertools.pairwise(bounds)))


def hidden(model: ModelDescription, name: str, text: Input, spec: HiddenSpec, reading: Reading) -> Streamed[Hidden]:
    """Hidden states of one input."""

    def take(answer: Answer, index: int) -> Hidden:
        origin, chosen = from_model_ref(answer.response.model), answer.response.hidden_tokens
        places = tuple(chosen[index].indices) if index < len(chosen) else None
        layers = answer.layouts["hidden"].layers
        return Hidden(answer.part("hidden", index), layers, tokens_of(answer, index), origin, places)

    outputs = pb.Outputs(hidden=hidden_output(spec))
    outputs.token_info.SetInParent()
    return Streamed(model, name, [text], outputs, reading, take)


def tokens_of(answer: Answer, index: int) -> TokenList:
    """The tokens of one input. Raises EngineError where they do not match its count."""
    item = answer.response.items[index]
    tokens = from_token_info(item.tokens)
    if len(tokens) != item.token_count:
        raise malformed(f"{len(tokens)} tokens described of {item.token_count}")
    return tokens

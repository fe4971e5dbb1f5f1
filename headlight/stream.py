"""What the client methods with large outputs do: several requests over one stream, answers frame by frame.

client.attend(text) -> attention(...)  --requests()-->  transport  --receive(frame)-->  result()
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from headlight.chunks import Answer, Assembly
from headlight.convert import (
    Input,
    Truncate,
    dtype_of,
    encode_request,
    from_bytes,
    from_model_ref,
    from_token_info,
    malformed,
    to_head_mask,
    to_input,
    to_truncation,
)
from headlight.description import ModelDescription
from headlight.pb import headlight_pb2 as pb
from headlight.plan import Cost, measure, request_bytes, split
from headlight.results import Attention, AttentionMaps, Floats, Hidden, Occlusion, TokenList, Units
from headlight.spec import AttentionSpec, HiddenSpec, IndicesLike, TokenChoice
from headlight.status import error_of_status
from headlight.wire import attention_output, hidden_output, selector_of
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
        head_mask: [L, H], for every input; None: ones.
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
        head_mask: ArrayLike | None = None,
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
        self._base = encode_request(name, (), outputs, truncate)
        self._inputs = inputs
        self._take = take
        self._head_mask = to_head_mask(model, head_mask)
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
        request.encode.inputs.extend(
            to_input(self._inputs[index], f"inputs[{index}]", self._head_mask) for index in self._parts[at]
        )
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


def whole_attention(
    model: ModelDescription, name: str, text: Input, layers: IndicesLike, truncate: Truncate
) -> Streamed[Attention]:
    """The whole maps of attention of some layers of one input."""

    def take(answer: Answer, index: int) -> Attention:
        origin, layout = from_model_ref(answer.response.model), answer.layouts["attention"]
        if layout.axes != ("layer", "head", "query", "key") or layout.shapes[index][2] != layout.shapes[index][3]:
            raise malformed(f"whole attention of the axes {layout.axes} and the shape {layout.shapes[index]}")
        return Attention(answer.part("attention", index), layout.layers, tokens_of(answer, index), origin)

    outputs = pb.Outputs(attention=attention_output(AttentionSpec.of(layers)))
    outputs.token_info.SetInParent()
    return Streamed(model, name, [text], outputs, truncate, take)


def attention_maps(
    model: ModelDescription,
    name: str,
    inputs: Sequence[Input],
    spec: AttentionSpec,
    truncate: Truncate,
    head_mask: ArrayLike | None,
) -> Streamed[AttentionMaps]:
    """Attention of any number of inputs in the form that a spec says."""
    outputs = pb.Outputs(attention=attention_output(spec))
    outputs.token_info.SetInParent()
    return Streamed(model, name, inputs, outputs, truncate, maps_of, head_mask=head_mask)


def dry_run(name: str, text: Input, spec: AttentionSpec, truncate: Truncate) -> pb.EncodeRequest:
    """The request that asks how large the attention of one input would be."""
    outputs = pb.Outputs(attention=attention_output(spec))
    return encode_request(name, [to_input(text, "text")], outputs, truncate, dry_run=True)


def occlusion_request(name: str, text: Input, tokens: TokenChoice | None, truncate: Truncate) -> pb.OccludeRequest:
    """The request that asks how far a vector moves when tokens are hidden; None: those that are not special.

    Raises:
        InvalidInput: an argument is none that can be sent.
    """
    request = pb.OccludeRequest(model=name, input=to_input(text, "text"), truncation=to_truncation(truncate))
    if tokens is not None:
        request.tokens.CopyFrom(selector_of("tokens", tokens) or pb.TokenSelector(named=pb.NAMED_TOKENS_ALL))
    return request


def occlusion(response: pb.OccludeResponse) -> Occlusion:
    """What a response says. Raises EngineError where it does not hold together."""
    tokens, places = from_token_info(response.item.tokens), tuple(response.tokens)
    if list(response.moved.shape) != [len(places)] or not places or max(places) >= len(tokens):
        raise malformed(f"distances of the shape {list(response.moved.shape)} for {len(places)} tokens")
    moved = from_bytes(dtype_of(response.moved.dtype), response.moved.data, len(places))
    return Occlusion(moved, places, tokens, from_model_ref(response.model))


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


def hidden(model: ModelDescription, name: str, text: Input, spec: HiddenSpec, truncate: Truncate) -> Streamed[Hidden]:
    """Hidden states of one input."""

    def take(answer: Answer, index: int) -> Hidden:
        origin, chosen = from_model_ref(answer.response.model), answer.response.hidden_tokens
        places = tuple(chosen[index].indices) if index < len(chosen) else None
        layers = answer.layouts["hidden"].layers
        return Hidden(answer.part("hidden", index), layers, tokens_of(answer, index), origin, places)

    outputs = pb.Outputs(hidden=hidden_output(spec))
    outputs.token_info.SetInParent()
    return Streamed(model, name, [text], outputs, truncate, take)


def tokens_of(answer: Answer, index: int) -> TokenList:
    """The tokens of one input. Raises EngineError where they do not match its count."""
    item = answer.response.items[index]
    tokens = from_token_info(item.tokens)
    if len(tokens) != item.token_count:
        raise malformed(f"{len(tokens)} tokens described of {item.token_count}")
    return tokens

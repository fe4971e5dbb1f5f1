"""What a client method does, without a transport: which requests it sends and what it makes of the answers.

    client.encode(texts) -> Pooled(...)  --requests()-->  transport  --receive(part, response)-->  result()

Both clients drive the same objects; a client method is a choice of work and a way to wait. (Streams:
`headlight.client.calls.stream_calls`.)
"""

from __future__ import annotations

import abc
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headlight.client.calls.request_plan import Cost, measure, request_bytes, response_bytes, rest_of, split
from headlight.description import ModelDescription
from headlight.embeddings import Embeddings
from headlight.errors import MixedWeights
from headlight.pb import headlight_pb2 as pb
from headlight.results import ModelRef, TokenList
from headlight.spec import VECTOR_BITS, PooledSpec, VectorType, check_dimensions
from headlight.wire.answer_checks import Expected, check_model, check_token_list
from headlight.wire.client_codec import (
    DTYPES,
    Input,
    Prompting,
    Reading,
    encode_request,
    from_model_ref,
    from_token_info,
    malformed,
    set_reading,
    to_head_mask,
    to_input,
)
from headlight.wire.printable import escaped
from headlight.wire.reassembly import Layout, whole_answer
from headlight.wire.vector_codec import VECTOR_TYPES, pooled_output

ITEM_BYTES = 32  # of an `Item` in a response, without its tokens
MASK_FRAMING_BYTES = 8  # tag and length of a HeadMask in an input
TOKEN_BYTES = 32  # of one token of a `TokenInfo`, its piece included

WHEN_MIXED = "; call again when the roll-out has ended"
RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")
ResultT = TypeVar("ResultT")


class Origin:
    """Which weights answered one call. A long call may meet two versions while replicas are being replaced."""

    def __init__(self) -> None:
        self.ref: ModelRef | None = None

    def check(self, message: pb.ModelRef) -> ModelRef:
        """The reference of an answer. Raises MixedWeights where its vectors would not compare with those before it."""
        ref = from_model_ref(message)
        first = self.ref = self.ref or ref
        if not ref.compares_with(first):
            met = sorted(escaped(f"{each.name} {each.version} {each.precision}") for each in (first, ref))
            raise MixedWeights(f"replicas answered one call with different weights ({', '.join(met)}){WHEN_MIXED}")
        return ref


def prompt_bytes(model: ModelDescription, reading: Prompting) -> int:
    """Bytes of what is put before each text: an upper bound of its tokens."""
    return len(model.prompt_text(reading.get("prompt"), reading.get("prompt_name")).encode())


class UnaryWork(abc.ABC, Generic[RequestT, ResponseT, ResultT]):
    """A list of inputs, in as many unary calls as the server's limits ask for."""

    def __init__(
        self, inputs: Sequence[Input], costs: Sequence[Cost], budget: Cost, head_mask: pb.HeadMask | None = None
    ) -> None:
        self._inputs = inputs
        self._head_mask = head_mask
        self._parts = list(split(costs, budget))
        budgeted = budget.response_bytes
        # The first inputs of requests whose answers may rightly be larger than a message: each holds one input alone.
        self.large = {part.start for part in self._parts if costs[part.start].response_bytes > budgeted}

    def requests(self) -> Iterator[tuple[range, RequestT]]:
        """The inputs that each call carries, by index, and its request, built when drawn: texts are not held twice."""
        for part in self._parts:
            yield (
                part,
                self.request([to_input(self._inputs[index], f"inputs[{index}]", self._head_mask) for index in part]),
            )

    @abc.abstractmethod
    def request(self, inputs: Sequence[pb.Input]) -> RequestT:
        """The request for some of the inputs."""

    @abc.abstractmethod
    def receive(self, part: range, response: ResponseT) -> None:
        """Takes the answer to one request. Raises BadAnswer where it breaks the contract."""

    @abc.abstractmethod
    def result(self) -> ResultT:
        """What the caller gets, once every answer has been received."""


class Pooled(UnaryWork[pb.EncodeRequest, pb.EncodeResponse, Embeddings]):
    """Pooled vectors of any number of inputs."""

    def __init__(
        self,
        model: ModelDescription,
        name: str,
        inputs: Sequence[Input],
        spec: PooledSpec,
        head_mask: ArrayLike | None,
        reading: Reading,
    ) -> None:
        self._base = encode_request(name, (), pb.Outputs(pooled=pooled_output(spec)), reading)
        mask = to_head_mask(model, head_mask)
        mask_bytes = 0 if mask is None else mask.ByteSize() + MASK_FRAMING_BYTES
        self._dtypes: tuple[VectorType, ...] = spec.dtypes or ("float32",)
        # Here, too, for of no inputs the server is not asked, and others lay out room for what is wanted.
        if spec.dimensions is not None and model.pooled_dim:
            check_dimensions(spec.dimensions, model.pooled_dim)
        self._width = spec.dimensions or model.pooled_dim
        item_bytes = ITEM_BYTES + sum(self._width * VECTOR_BITS[dtype] // 8 for dtype in self._dtypes)
        prompt = prompt_bytes(model, reading)
        # What is longer is refused, or cut before it counts.
        costs = [
            Cost(1, size + mask_bytes, min(tokens + prompt, model.max_length), item_bytes)
            for size, tokens in measure(inputs, request_bytes(model))
        ]
        limits, most = model.limits, sys.maxsize
        request, response = rest_of(request_bytes(model), self._base), response_bytes(model)
        super().__init__(
            inputs, costs, Cost(limits.max_items or most, request, limits.max_request_tokens or most, response), mask
        )
        self._model = model
        self._expected = Expected(model, name, self._base.outputs, reading)
        self._origin = Origin()
        self._vectors: dict[VectorType, NDArray[Any]] = {}
        self._counts = np.zeros((3, len(inputs)), np.int64)

    def request(self, inputs: Sequence[pb.Input]) -> pb.EncodeRequest:
        request = pb.EncodeRequest()
        request.CopyFrom(self._base)
        request.inputs.extend(inputs)
        return request

    def receive(self, part: range, response: pb.EncodeResponse) -> None:
        told = [tensor.dtype for tensor in response.pooled]
        if told != [VECTOR_TYPES[dtype] for dtype in self._dtypes]:
            raise malformed(f"vectors of the types {told[:8]}, and {', '.join(self._dtypes)} were asked for")

        def check(response: pb.EncodeResponse, layouts: dict[str, Layout]) -> None:
            self._expected.check(response, layouts, self._inputs[part.start : part.stop])

        answer = whole_answer(response, len(part), check)
        self._expected.check_numbers(answer)
        self._origin.check(response.model)
        place = slice(part.start, part.stop)
        for at, dtype in enumerate(self._dtypes):
            vectors = answer.part("pooled", at)
            if dtype not in self._vectors:
                self._vectors[dtype] = np.empty((len(self._inputs), vectors.shape[1]), vectors.dtype)
            self._vectors[dtype][place] = vectors
        self._counts[0, place] = [item.token_count for item in response.items]
        self._counts[1, place] = [item.prompt_token_count for item in response.items]
        self._counts[2, place] = [item.original_token_count for item in response.items]

    def result(self) -> Embeddings:
        for dtype in self._dtypes:
            if dtype not in self._vectors:  # there were no inputs
                extent = self._width * VECTOR_BITS[dtype] // 8 if VECTOR_BITS[dtype] == 1 else self._width
                self._vectors[dtype] = np.empty((0, extent), DTYPES[VECTOR_TYPES[dtype]])
        encoded, prompts, original = self._counts
        return Embeddings(self._vectors, encoded, prompts, original, self._origin.ref or self._model.ref)


class Tokenized(UnaryWork[pb.TokenizeRequest, pb.TokenizeResponse, list[TokenList]]):
    """The tokens of any number of inputs."""

    def __init__(self, model: ModelDescription, name: str, inputs: Sequence[Input], prompting: Prompting) -> None:
        self._base = pb.TokenizeRequest(model=name)
        set_reading(self._base, prompting)
        prompt = prompt_bytes(model, prompting)
        costs = [
            Cost(1, size, 0, ITEM_BYTES + TOKEN_BYTES * (tokens + prompt))  # tokenising has no limit on tokens
            for size, tokens in measure(inputs, request_bytes(model))
        ]
        request = rest_of(request_bytes(model), self._base)
        super().__init__(inputs, costs, Cost(model.limits.max_items or sys.maxsize, request, 0, response_bytes(model)))
        self._model, self._name = model, name
        self._origin = Origin()
        self._tokens: dict[int, TokenList] = {}

    def request(self, inputs: Sequence[pb.Input]) -> pb.TokenizeRequest:
        request = pb.TokenizeRequest()
        request.CopyFrom(self._base)
        request.inputs.extend(inputs)
        return request

    def receive(self, part: range, response: pb.TokenizeResponse) -> None:
        if len(response.items) != len(part):
            raise malformed(f"{len(response.items)} entries for {len(part)} inputs")
        check_model(response.model, self._model, self._name)
        self._origin.check(response.model)
        for index, info in zip(part, response.items, strict=True):
            tokens = from_token_info(info)
            check_token_list(tokens, self._inputs[index], self._model.vocab_size, f"items[{index - part.start}]")
            self._tokens[index] = tokens

    def result(self) -> list[TokenList]:
        return [self._tokens[index] for index in range(len(self._inputs))]

"""What a client method does, without a transport: which requests it sends and what it makes of the answers.

    client.encode(texts) -> Pooled(...)  --requests()-->  transport  --receive(part, response)-->  result()

Both clients drive the same objects; a client method is a choice of work and a way to wait. (Streams:
`headlight.stream`.)
"""

from __future__ import annotations

import abc
import sys
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from headlight.chunks import whole_answer
from headlight.convert import (
    Input,
    Truncate,
    encode_request,
    from_model_ref,
    from_token_info,
    malformed,
    to_head_mask,
    to_input,
)
from headlight.description import ModelDescription
from headlight.errors import MixedWeights
from headlight.pb import headlight_pb2 as pb
from headlight.plan import Cost, measure, request_bytes, response_bytes, split
from headlight.results import Embeddings, Floats, ModelRef, TokenList

ITEM_BYTES = 32  # of an `Item` in a response, without its tokens
MASK_FRAMING_BYTES = 8  # tag and length of a HeadMask in an input
TOKEN_BYTES = 32  # of one token of a `TokenInfo`, its piece included

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
            raise MixedWeights(
                f"replicas answered one call with different weights ({first.name} {first.version} {first.precision}, "
                f"{ref.name} {ref.version} {ref.precision}); call again when the roll-out has ended"
            )
        return ref


class UnaryWork(abc.ABC, Generic[RequestT, ResponseT, ResultT]):
    """A list of inputs, in as many unary calls as the server's limits ask for."""

    def __init__(
        self, inputs: Sequence[Input], costs: Sequence[Cost], budget: Cost, head_mask: pb.HeadMask | None = None
    ) -> None:
        self._inputs = inputs
        self._head_mask = head_mask
        self._parts = list(split(costs, budget))

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
        """Takes the answer to one request. Raises EngineError where it breaks the contract."""

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
        truncate: Truncate,
        head_mask: ArrayLike | None = None,
    ) -> None:
        mask = to_head_mask(model, head_mask)
        mask_bytes = 0 if mask is None else mask.ByteSize() + MASK_FRAMING_BYTES
        item_bytes = ITEM_BYTES + 4 * model.dim
        # What is longer is refused, or cut before it counts.
        costs = [
            Cost(1, size + mask_bytes, min(tokens, model.max_length), item_bytes)
            for size, tokens in measure(inputs, request_bytes(model))
        ]
        limits = model.limits
        most = sys.maxsize
        budget = Cost(
            limits.max_items or most, request_bytes(model), limits.max_request_tokens or most, response_bytes(model)
        )
        super().__init__(inputs, costs, budget, mask)
        self._model = model
        self._base = encode_request(name, (), pb.Outputs(pooled=pb.PooledOutput()), truncate)
        self._origin = Origin()
        self._vectors: Floats | None = None
        self._counts = np.zeros((2, len(inputs)), np.int64)

    def request(self, inputs: Sequence[pb.Input]) -> pb.EncodeRequest:
        request = pb.EncodeRequest(inputs=inputs)
        request.MergeFrom(self._base)
        return request

    def receive(self, part: range, response: pb.EncodeResponse) -> None:
        vectors = whole_answer(response, len(part)).part("pooled", 0)
        self._origin.check(response.model)
        if self._vectors is None:
            self._vectors = np.empty((len(self._inputs), vectors.shape[1]), np.float32)
        if vectors.shape[1] != self._vectors.shape[1]:
            raise malformed(f"vectors of {self._vectors.shape[1]} and of {vectors.shape[1]} numbers")
        place = slice(part.start, part.stop)
        self._vectors[place] = vectors
        self._counts[0, place] = [item.token_count for item in response.items]
        self._counts[1, place] = [item.original_token_count for item in response.items]

    def result(self) -> Embeddings:
        vectors = np.empty((0, self._model.dim), np.float32) if self._vectors is None else self._vectors
        return Embeddings(vectors, self._counts[0], self._counts[1], self._origin.ref or self._model.ref)


class Tokenized(UnaryWork[pb.TokenizeRequest, pb.TokenizeResponse, list[TokenList]]):
    """The tokens of any number of inputs."""

    def __init__(self, model: ModelDescription, name: str, inputs: Sequence[Input]) -> None:
        costs = [
            Cost(1, size, 0, ITEM_BYTES + TOKEN_BYTES * tokens)  # tokenising has no limit on tokens
            for size, tokens in measure(inputs, request_bytes(model))
        ]
        budget = Cost(model.limits.max_items or sys.maxsize, request_bytes(model), 0, response_bytes(model))
        super().__init__(inputs, costs, budget)
        self._name = name
        self._origin = Origin()
        self._tokens: dict[int, TokenList] = {}

    def request(self, inputs: Sequence[pb.Input]) -> pb.TokenizeRequest:
        return pb.TokenizeRequest(model=self._name, inputs=inputs)

    def receive(self, part: range, response: pb.TokenizeResponse) -> None:
        if len(response.items) != len(part):
            raise malformed(f"{len(response.items)} entries for {len(part)} inputs")
        self._origin.check(response.model)
        self._tokens.update(zip(part, map(from_token_info, response.items), strict=True))

    def result(self) -> list[TokenList]:
        return [self._tokens[index] for index in range(len(self._inputs))]

"""Client methods without a transport: which requests each sends and what it makes of the answers.

    client.encode(texts) -> Pooled(...)  --requests()-->  transport  --receive(part, response)-->  result()

Both clients drive the same objects; a client method is a choice of work and a way to wait. (Streams:
`headlight.client.calls.stream_calls`.)
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headlight.client.calls.list_work import ListWork, RequestT
from headlight.client.calls.request_plan import response_bytes
from headlight.description import ModelDescription
from headlight.embeddings import Embeddings
from headlight.pb import headlight_pb2 as pb
from headlight.results import TokenList
from headlight.spec import VECTOR_BITS, PooledSpec, VectorType, check_dimensions
from headlight.wire.answer_checks import Expected, check_model, check_token_list
from headlight.wire.client_codec import (
    DTYPES,
    Input,
    Prompting,
    Reading,
    encode_request,
    from_token_info,
    malformed,
    set_reading,
)
from headlight.wire.reassembly import whole_answer
from headlight.wire.vector_codec import VECTOR_TYPES, pooled_output

ITEM_BYTES = 32  # of an `Item` in a response, without its tokens
TOKEN_BYTES = 32  # of one token of a `TokenInfo`, its piece included

ResponseT = TypeVar("ResponseT")
ResultT = TypeVar("ResultT")


class UnaryWork(ListWork[RequestT], Generic[RequestT, ResponseT, ResultT]):
    """A list of inputs in several unary calls."""

    def requests(self) -> Iterator[tuple[range, RequestT]]:
        """The inputs that each call carries, by index, and its request, built when drawn: texts are not held twice."""
        for part in self._parts:
            yield part, self.request(part)

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
        base = encode_request(name, (), pb.Outputs(pooled=pooled_output(spec)), reading)
        self._dtypes: tuple[VectorType, ...] = spec.dtypes or ("float32",)
        # Here, too, for of no inputs the server is not asked, and others lay out room for what is wanted.
        if spec.dimensions is not None and model.pooled_dim:
            check_dimensions(spec.dimensions, model.pooled_dim)
        self._width = spec.dimensions or model.pooled_dim
        item_bytes = ITEM_BYTES + sum(self._width * VECTOR_BITS[dtype] // 8 for dtype in self._dtypes)

        def cost(tokens: int) -> tuple[int, int]:
            return min(tokens, model.max_length), item_bytes  # what is longer is refused, or cut before it counts

        super().__init__(model, base, inputs, reading, cost, response_bytes(model), head_mask=head_mask)
        self._expected = Expected(model, name, base.outputs, reading)
        self._vectors: dict[VectorType, NDArray[Any]] = {}
        self._counts = np.zeros((3, len(inputs)), np.int64)

    def receive(self, part: range, response: pb.EncodeResponse) -> None:
        told = [tensor.dtype for tensor in response.pooled]
        if told != [VECTOR_TYPES[dtype] for dtype in self._dtypes]:
            raise malformed(f"vectors of the types {told[:8]}, and {', '.join(self._dtypes)} were asked for")

        check = functools.partial(self._expected.check, inputs=self._inputs[part.start : part.stop])
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
        base = pb.TokenizeRequest(model=name)
        set_reading(base, prompting)

        def cost(tokens: int) -> tuple[int, int]:
            return 0, ITEM_BYTES + TOKEN_BYTES * tokens  # tokenising has no limit on tokens

        super().__init__(model, base, inputs, prompting, cost, response_bytes(model))
        self._name = name
        self._tokens: dict[int, TokenList] = {}

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

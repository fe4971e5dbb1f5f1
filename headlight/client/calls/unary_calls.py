"""Client methods of unary calls, without a transport: their requests and their results.

    client.encode(texts) -> Pooled(...)  --request(part)-->  transport
    transport  --receive(part, response)-->  result()

Both clients drive the same objects: a client method chooses the object, and the client waits for
the calls. (Streams: `headlight.client.calls.stream_calls`.)
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headlight.client.calls.list_work import ITEM_BYTES, TOKEN_BYTES, ListWork, response_bytes
from headlight.description import ModelDescription
from headlight.interface.arguments import Input, Prompting, Reading, checked_target
from headlight.interface.checked_specs import checked_choice
from headlight.outputs.answer_numbers import check_numbers
from headlight.outputs.answer_places import check_tokens
from headlight.outputs.contract import malformed, numbers_of, require, selector_of
from headlight.outputs.maps.wire_form import attention_output
from headlight.outputs.output import TYPES
from headlight.outputs.pooled import pooled_output
from headlight.pb import headlight_pb2 as pb
from headlight.results import Embeddings, Occlusion, TokenList
from headlight.spec import (
    AttentionSpec,
    PooledSpec,
    TokensLike,
    VectorType,
    check_dimensions,
    packed,
    tokens_like,
)
from headlight.wire.answer_checks import Expected, check_model, check_name, check_token_list
from headlight.wire.client_codec import (
    DTYPES,
    encode_request,
    from_bytes,
    from_model_ref,
    from_token_info,
    set_reading,
    to_input,
)
from headlight.wire.reassembly import check_items, whole_answer


class Pooled(ListWork[pb.EncodeRequest]):
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
        # Checked here too: without inputs there is no call, and the result's memory is reserved.
        if spec.dimensions is not None:
            check_dimensions(spec.dimensions, model.pooled_dim)
        width, dtypes = spec.dimensions or model.pooled_dim, spec.dtypes or ("float32",)
        sizes = {dtype: packed(width, dtype) for dtype in dtypes}
        item_bytes = ITEM_BYTES + sum(size for _, size in sizes.values())
        super().__init__(
            model,
            base,
            inputs,
            reading,
            response_bytes(model),
            item_bytes=item_bytes,
            head_mask=head_mask,
        )
        self._expected = Expected(model, name, base.outputs, reading)
        self._vectors: dict[VectorType, NDArray[Any]] = {
            dtype: np.empty((len(inputs), extent), TYPES[dtype])
            for dtype, (extent, _) in sizes.items()
        }
        self._counts = np.zeros((3, len(inputs)), np.int64)

    def receive(self, part: range, response: pb.EncodeResponse) -> None:
        """Take the answer to one request. Raises BadAnswer if it breaks the contract."""
        told = [tensor.dtype for tensor in response.pooled]
        if told != [numbers_of("DataType")[dtype] for dtype in self._vectors]:
            raise malformed(
                f"vectors of the types {told[:8]}, and {', '.join(self._vectors)} were asked for"
            )
        place = slice(part.start, part.stop)
        answer = whole_answer(
            response, len(part), functools.partial(self._expected.check, inputs=self._inputs[place])
        )
        self._expected.check_numbers(answer)
        self.check_origin(response.model)
        for at, vectors in enumerate(self._vectors.values()):
            vectors[place] = answer.part("pooled", at)
        self._counts[:, place] = [
            [item.token_count for item in response.items],
            [item.prompt_token_count for item in response.items],
            [item.original_token_count for item in response.items],
        ]

    def result(self) -> Embeddings:
        """Return the embeddings after all answers."""
        encoded, prompts, original = self._counts
        return Embeddings(
            self._vectors, encoded, prompts, original, self._origin or self._model.ref
        )


class Tokenized(ListWork[pb.TokenizeRequest]):
    """The tokens of any number of inputs."""

    def __init__(
        self, model: ModelDescription, name: str, inputs: Sequence[Input], prompting: Prompting
    ) -> None:
        base = pb.TokenizeRequest(model=name)
        set_reading(base, prompting)
        most = response_bytes(model)
        super().__init__(
            model, base, inputs, prompting, most, item_bytes=ITEM_BYTES, token_bytes=TOKEN_BYTES
        )
        self._name = name
        self._tokens: list[TokenList] = []

    def receive(self, part: range, response: pb.TokenizeResponse) -> None:
        """Take the answer to one request; requests come in order.

        Raises BadAnswer if it breaks the contract.
        """
        require(
            len(response.items) == len(part),
            f"{len(response.items)} entries for {len(part)} inputs",
        )
        check_model(response.model, self._model, self._name)
        self.check_origin(response.model)
        for at, (index, info) in enumerate(zip(part, response.items, strict=True)):
            tokens = from_token_info(info)
            check_token_list(tokens, self._inputs[index], self._model.vocab_size, f"items[{at}]")
            self._tokens.append(tokens)

    def result(self) -> list[TokenList]:
        """Return the tokens after all answers."""
        return self._tokens


def dry_run(name: str, text: Input, spec: AttentionSpec, reading: Reading) -> pb.EncodeRequest:
    """Return a request for the size of the attention of one input."""
    outputs = pb.Outputs(attention=attention_output(spec))
    return encode_request(name, [to_input(text, "text")], outputs, reading, dry_run=True)


def data_bytes(response: pb.EncodeResponse, name: str) -> int:
    """Return the size that a dry run reports.

    Raises BadAnswer if the answer is of another model, or not of one input.
    """
    check_name(response.model.name, name)
    check_items(response, 1)
    return response.data_bytes


def occlusion_request(
    name: str,
    text: Input,
    tokens: TokensLike | None,
    reading: Reading,
    target: str | ArrayLike | None = None,
) -> pb.OccludeRequest:
    """Return a request for occlusion: how far the vector moves as each token is hidden.

    `tokens` None: all but special tokens. `target` None: none.

    Raises:
        InvalidInput: an argument cannot be sent.
    """
    request = pb.OccludeRequest(model=name, input=to_input(text, "text"))
    set_reading(request, reading)
    if tokens is not None:
        request.tokens.CopyFrom(
            selector_of(checked_choice("tokens", tokens_like("tokens", tokens)))
            or pb.TokenSelector(named=pb.NAMED_TOKENS_ALL)
        )
    found = None if target is None else checked_target(target)
    if isinstance(found, str):
        request.target_text = found
    elif found is not None:
        request.target_vector.values.extend(found.tolist())
    return request


def occlusion(
    response: pb.OccludeResponse, name: str, text: Input, *, has_target: bool = False
) -> Occlusion:
    """Decode a response. Raises BadAnswer if it contradicts itself or the request."""
    check_name(response.model.name, name)
    tokens, places = from_token_info(response.item.tokens), tuple(response.tokens)
    check_token_list(tokens, text, 0, "item.tokens")
    check_tokens("tokens", places, len(tokens), None)
    told, promised = response.moved, pb.DATA_TYPE_FLOAT32
    require(
        list(told.shape) == [len(places)],
        f"distances of the shape {told.shape} for {len(places)} tokens",
    )
    require(
        told.dtype == promised,
        f"moved has the element type {told.dtype}, and {promised} was promised",
    )
    moved = from_bytes(DTYPES[promised], told.data, len(places))
    check_numbers("moved", moved, "finite", response.model.precision)
    require(moved.min() >= 0, f"moved has the distance {moved.min():.4g}, and none is below 0")
    found = Occlusion(moved, places, tokens, from_model_ref(response.model))
    told_target = response.HasField("similarity"), response.HasField("fall")
    if told_target != (has_target, has_target):
        raise malformed(f"similarity and fall, present: {told_target}, of a target: {has_target}")
    if not has_target:
        return found
    require(math.isfinite(response.similarity), f"similarity is {response.similarity}")
    require(
        list(response.fall.shape) == [len(places)] and response.fall.dtype == promised,
        f"fall has the shape {response.fall.shape} and the type {response.fall.dtype}",
    )
    fall = from_bytes(DTYPES[promised], response.fall.data, len(places))
    check_numbers("fall", fall, "finite", response.model.precision)
    return dataclasses.replace(found, fall=fall, similarity=response.similarity)

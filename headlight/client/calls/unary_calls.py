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
from headlight.outputs.answer_places import check_tokens
from headlight.outputs.contract import malformed, require, selector_of
from headlight.outputs.layout import TYPES
from headlight.outputs.output import part_name
from headlight.outputs.registry import OUTPUTS
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
from headlight.wire.answer_checks import (
    Expected,
    check_model,
    check_token_list,
    finite_numbers,
)
from headlight.wire.client_codec import (
    encode_request,
    from_model_ref,
    from_token_info,
    set_reading,
    to_input,
)
from headlight.wire.reassembly import check_items, whole_answer

POOLED, ATTENTION = OUTPUTS["pooled"], OUTPUTS["attention"]


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
        spec = POOLED.checked(spec, len(inputs))
        base = encode_request(name, (), pb.Outputs(pooled=POOLED.message_of(spec)), reading)
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
            size=lambda _: item_bytes,
            head_mask=head_mask,
        )
        self._expected = Expected(model, name, {"pooled": spec}, reading)
        self._vectors: dict[VectorType, NDArray[Any]] = {
            dtype: np.empty((len(inputs), extent), TYPES[dtype])
            for dtype, (extent, _) in sizes.items()
        }
        self._counts = np.zeros((3, len(inputs)), np.int64)

    def receive(self, part: range, response: pb.EncodeResponse) -> None:
        """Take the answer to one request. Raises BadAnswer if it breaks the contract."""
        place = slice(part.start, part.stop)
        expect = functools.partial(self._expected.check, inputs=self._inputs[place])
        answer = whole_answer(response, expect)
        self._expected.check_numbers(answer)
        self.check_origin(response.model)
        for at, vectors in enumerate(self._vectors.values()):
            vectors[place] = answer.part(part_name("pooled", at), 0)
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
            model,
            base,
            inputs,
            prompting,
            most,
            size=lambda tokens: ITEM_BYTES + TOKEN_BYTES * tokens,
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
    message = ATTENTION.message_of(ATTENTION.checked(spec, 1))
    outputs = pb.Outputs(attention=message)
    return encode_request(name, [to_input(text, "text")], outputs, reading, dry_run=True)


def data_bytes(response: pb.EncodeResponse) -> int:
    """Return the size that a dry run reports. Raises BadAnswer if it is not of one input."""
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
    aim = None if target is None else checked_target(target)
    if isinstance(aim, str):
        request.target_text = aim
    elif aim is not None:
        request.target_vector.values.extend(aim.tolist())
    return request


def occlusion(response: pb.OccludeResponse, text: Input, *, has_target: bool = False) -> Occlusion:
    """Decode a response. Raises BadAnswer if it contradicts itself or the request."""
    tokens, places = from_token_info(response.item.tokens), tuple(response.tokens)
    check_token_list(tokens, text, 0, "item.tokens")
    check_tokens("tokens", places, len(tokens), None)
    moved = finite_numbers("moved", response.moved, (len(places),))
    require(moved.min() >= 0, f"moved has the distance {moved.min():.4g}, and none is below 0")
    moves = Occlusion(moved, places, tokens, from_model_ref(response.model))
    present = response.HasField("similarity"), response.HasField("fall")
    if present != (has_target, has_target):
        raise malformed(f"similarity and fall, present: {present}, of a target: {has_target}")
    if not has_target:
        return moves
    require(math.isfinite(response.similarity), f"similarity is {response.similarity}")
    fall = finite_numbers("fall", response.fall, (len(places),))
    return dataclasses.replace(moves, fall=fall, similarity=response.similarity)

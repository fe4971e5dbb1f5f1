"""What the client methods of one unary call ask, and what they make of the answer."""

from __future__ import annotations

from headlight.pb import headlight_pb2 as pb
from headlight.results import Occlusion
from headlight.spec import AttentionSpec, TokensLike, tokens_like
from headlight.wire.answer_checks import check_name, check_token_list
from headlight.wire.answer_layouts import check_tokens
from headlight.wire.answer_numbers import check_numbers
from headlight.wire.attention_codec import attention_output, selector_of
from headlight.wire.client_codec import (
    Input,
    Reading,
    dtype_of,
    encode_request,
    from_bytes,
    from_model_ref,
    from_token_info,
    malformed,
    set_reading,
    to_input,
)
from headlight.wire.reassembly import check_items


def dry_run(name: str, text: Input, spec: AttentionSpec, reading: Reading) -> pb.EncodeRequest:
    """The request that asks how large the attention of one input would be."""
    outputs = pb.Outputs(attention=attention_output(spec))
    return encode_request(name, [to_input(text, "text")], outputs, reading, dry_run=True)


def occlusion_request(name: str, text: Input, tokens: TokensLike | None, reading: Reading) -> pb.OccludeRequest:
    """The request that asks how far a vector moves when tokens are hidden; None: those that are not special.

    Raises:
        InvalidInput: an argument is none that can be sent.
    """
    request = pb.OccludeRequest(model=name, input=to_input(text, "text"))
    set_reading(request, reading)
    if tokens is not None:
        request.tokens.CopyFrom(
            selector_of("tokens", tokens_like("tokens", tokens)) or pb.TokenSelector(named=pb.NAMED_TOKENS_ALL)
        )
    return request


def data_bytes(response: pb.EncodeResponse, name: str) -> int:
    """The size that a dry run tells. Raises BadAnswer where it is another model's, or not of one input."""
    check_name(response.model.name, name)
    check_items(response, 1)
    return response.data_bytes


def occlusion(response: pb.OccludeResponse, name: str, text: Input) -> Occlusion:
    """What a response says. Raises BadAnswer where it does not hold together, or not with what was asked."""
    check_name(response.model.name, name)
    tokens, places = from_token_info(response.item.tokens), tuple(response.tokens)
    check_token_list(tokens, text, 0, "item.tokens")
    check_tokens("tokens", places, len(tokens), None)
    if list(response.moved.shape) != [len(places)]:
        raise malformed(f"distances of the shape {list(response.moved.shape)} for {len(places)} tokens")
    if response.moved.dtype != pb.DATA_TYPE_FLOAT32:
        raise malformed(f"moved has the element type {response.moved.dtype}, and {pb.DATA_TYPE_FLOAT32} was promised")
    moved = from_bytes(dtype_of(response.moved.dtype), response.moved.data, len(places))
    check_numbers("moved", moved, "finite", response.model.precision)
    if moved.min() < 0:
        raise malformed(f"moved has the distance {moved.min():.4g}, and none is below 0")
    return Occlusion(moved, places, tokens, from_model_ref(response.model))

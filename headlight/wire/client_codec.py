"""Codec of requests and answers for both clients.

Frames of a stream: `headlight.wire.reassembly`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, TypedDict, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headlight.description import Limits, ModelDescription, Parity, Quality
from headlight.errors import BadAnswer, InvalidInput
from headlight.pb import headlight_pb2 as pb
from headlight.results import ModelRef, TokenList
from headlight.spec import Priority, SpecialTokens, Truncate
from headlight.wire.attention_codec import choice_number
from headlight.wire.printable import escaped, shortened
from headlight.wire.vector_codec import (
    PRIORITIES,
    SPECIAL_TOKENS,
    VECTOR_NAMES,
    PromptChoice,
    set_prompt,
)

# One input: a text, a pair of texts seen together, or token ids, special tokens included.
Input = str | tuple[str, str] | Sequence[int] | NDArray[np.integer]


class Prompting(TypedDict, total=False):
    """Prompt before each text, and reading of its special tokens.

    Keys:
        prompt: any text; empty: no prompt, not even the model's default.
        prompt_name: one of the model's prompts, instead. Neither: its default, if it has one.
        special_tokens: for special tokens spelled out in a text or prompt, as "[SEP]". "parse"
            makes special tokens of them, "text" plain characters. None: as the service does
            (`ModelDescription.special_tokens`).
    """

    prompt: str | None
    prompt_name: str | None
    special_tokens: SpecialTokens | None


class Reading(Prompting, total=False):
    """Reading of each text, and its priority: keywords of every client method that runs the model.

    Keys:
        truncate: side of a too-long text to cut off, "end" or "start", or "refuse"; None: as the
            service does (`ModelDescription.truncation`). A prompt is never cut.
        priority: "interactive", or "bulk" for requests that may wait for all others; None:
            "interactive".
    """

    truncate: Truncate | None
    priority: Priority | None


DTYPES: dict[int, np.dtype[Any]] = {
    pb.DATA_TYPE_FLOAT32: np.dtype("<f4"),
    pb.DATA_TYPE_FLOAT16: np.dtype("<f2"),
    pb.DATA_TYPE_UINT8: np.dtype("u1"),
    pb.DATA_TYPE_UINT16: np.dtype("<u2"),
    pb.DATA_TYPE_INT8: np.dtype("i1"),
    pb.DATA_TYPE_BINARY: np.dtype("i1"),
    pb.DATA_TYPE_UBINARY: np.dtype("u1"),
}
TRUNCATIONS: dict[Truncate, pb.Truncation] = {
    "refuse": pb.TRUNCATION_REFUSE,
    "end": pb.TRUNCATION_CUT_END,
    "start": pb.TRUNCATION_CUT_START,
}
TRUNCATION_NAMES: dict[int, Truncate] = {number: name for name, number in TRUNCATIONS.items()}

REMEDY = "is the server the right one, and of a compatible version?"
LONGEST_PROBLEM = 500  # characters: shapes and axes in it may be as long as the answer


def malformed(problem: str) -> BadAnswer:
    """Return the error for a broken contract: a bug of the server, or not a Headlight server."""
    return BadAnswer(
        f"the server's answer is malformed: {shortened(escaped(problem), LONGEST_PROBLEM)}; "
        f"{REMEDY}"
    )


def require(holds: object, problem: str) -> None:
    """Raise BadAnswer unless a condition holds.

    Every call formats the problem: where many small answers are checked, raise `malformed` instead.
    """
    if not holds:
        raise malformed(problem)


def as_list(texts: Iterable[Input] | str) -> list[Input]:
    """Return the inputs of one call; a lone text counts as a list of one."""
    return [texts] if isinstance(texts, str) else list(texts)


def to_head_mask(model: ModelDescription, mask: ArrayLike | None) -> pb.HeadMask | None:
    """Encode a head mask: factors that remove or weaken heads; None: no mask.

    Raises:
        InvalidInput: the mask is not [layers, heads] numbers.
    """
    if mask is None:
        return None
    try:
        given, values = np.asarray(mask), np.asarray(mask, dtype=np.float32)
        # NumPy parses strings, and converts None to NaN
        if given.dtype.kind in "US" or None in given.ravel().tolist():
            raise TypeError
    except (TypeError, ValueError):
        raise InvalidInput("head_mask", "must hold numbers alone") from None
    if values.shape != (model.layers, model.heads):
        raise InvalidInput(
            "head_mask",
            (
                f"has the shape {values.shape}; this model has {model.layers} layers of "
                f"{model.heads} heads"
            ),
        )
    return pb.HeadMask(values=values.ravel())


def to_input(item: Input, field: str, head_mask: pb.HeadMask | None = None) -> pb.Input:
    """Encode one input.

    Args:
        item: a text, a pair of texts, or a one-dimensional sequence of integers.
        field: its path in the request, for the error.
        head_mask: mask for this input; None: none.

    Raises:
        InvalidInput: it is none of these, or UTF-8 or int64 cannot express it.
    """
    try:
        if isinstance(item, str):
            return pb.Input(text=item, head_mask=head_mask)
        if (
            isinstance(item, tuple)
            and len(item) == 2
            and isinstance(item[0], str)
            and isinstance(item[1], str)
        ):
            return pb.Input(pair=pb.TextPair(first=item[0], second=item[1]), head_mask=head_mask)
        ids = np.asarray(item)
        if ids.ndim == 1 and ids.dtype.kind in "iu":
            return pb.Input(ids=pb.TokenIds(ids=ids.tolist()), head_mask=head_mask)
    except UnicodeEncodeError:
        raise InvalidInput(
            field, "holds a lone surrogate, which UTF-8 cannot express; decode the text properly"
        ) from None
    except (TypeError, ValueError):  # a ragged list; an id beyond int64
        pass
    raise InvalidInput(
        field,
        "must be a text, a pair of texts (a tuple), or a sequence of integer ids (at least one)",
    )


def set_reading(
    request: pb.EncodeRequest | pb.TokenizeRequest | pb.OccludeRequest, reading: Prompting
) -> None:
    """Set the reading of texts and the priority in a request; see `Reading`.

    Raises:
        InvalidInput: a value cannot be sent.
        TypeError: a keyword is not a key of `Reading`.
    """
    asked, known = (
        cast("Reading", reading),
        ("truncate", "prompt", "prompt_name", "special_tokens", "priority"),
    )
    for name in asked.keys() - known:
        raise TypeError(
            f"unexpected keyword argument {name!r}: there are {', '.join(known)}; what holds for "
            "all calls, as a timeout, is given to the client itself: Client(target, "
            "timeout=seconds)"
        )
    truncate, priority = asked.get("truncate"), asked.get("priority")
    if not isinstance(request, pb.TokenizeRequest):
        request.truncation = choice_number(
            "truncate", TRUNCATIONS, truncate, pb.TRUNCATION_UNSPECIFIED
        )
        request.priority = choice_number("priority", PRIORITIES, priority, pb.PRIORITY_UNSPECIFIED)
    elif said := "truncate" if truncate is not None else "priority" if priority is not None else "":
        raise InvalidInput(said, "has no effect on tokenising; leave it out")
    set_prompt(request, PromptChoice(asked.get("prompt_name"), asked.get("prompt")))
    request.special_tokens = choice_number(
        "special_tokens", SPECIAL_TOKENS, asked.get("special_tokens"), pb.SPECIAL_TOKENS_UNSPECIFIED
    )


def encode_request(
    name: str,
    inputs: Iterable[pb.Input],
    outputs: pb.Outputs,
    reading: Reading,
    *,
    dry_run: bool = False,
) -> pb.EncodeRequest:
    """Return a request for outputs of some inputs. Raises InvalidInput as `set_reading` does."""
    request = pb.EncodeRequest(model=name, inputs=inputs, outputs=outputs, dry_run=dry_run)
    set_reading(request, reading)
    return request


def from_model_ref(ref: pb.ModelRef) -> ModelRef:
    """Decode the weights, provider and precision of an answer."""
    return ModelRef(ref.name, ref.version, ref.bundle_sha256, ref.provider, ref.precision)


def from_token_info(info: pb.TokenInfo) -> TokenList:
    """Decode the tokens of one input. Raises BadAnswer if the parallel lists differ in length."""
    count = len(info.ids)
    tokens = TokenList(
        ids=tuple(info.ids),
        pieces=tuple(info.pieces) or ("",) * count,
        starts=tuple(info.starts),
        ends=tuple(info.ends),
        special=tuple(info.special),
        segments=tuple(info.segments),
        prompt=tuple(info.prompt),
    )
    lengths = {len(getattr(tokens, field.name)) for field in dataclasses.fields(TokenList)}
    require(lengths == {count}, f"the parallel lists of {count} tokens differ in length")
    return tokens


def dtype_of(number: pb.DataType) -> np.dtype[Any]:
    """Return the NumPy type of an element type. Raises BadAnswer for an unknown one."""
    require(
        number in DTYPES,
        f"element type {number} is not known to this client; a newer one may know it",
    )
    return DTYPES[number]


def native(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return the numbers in this machine's byte order, copied only if needed."""
    return numbers.astype(numbers.dtype.newbyteorder("="), copy=False)


def from_bytes(dtype: np.dtype[Any], data: bytes, elements: int) -> NDArray[Any]:
    """Decode numbers into a flat, writable array.

    Raises:
        BadAnswer: the data has another size than that of so many elements.
    """
    size = dtype.itemsize * elements
    if len(data) != size:
        raise malformed(f"{len(data)} bytes of data where {size} were announced")
    return np.frombuffer(data, dtype).astype(dtype.newbyteorder("="))


def from_model(response: pb.GetModelResponse) -> ModelDescription:
    """Decode the description of a model and its service."""
    ref, info, limits = response.model, response.info, response.limits
    return ModelDescription(
        name=ref.name,
        version=ref.version,
        bundle_sha256=ref.bundle_sha256,
        provider=ref.provider,
        precision=ref.precision,
        positions=info.positions,
        layers=info.layers,
        heads=info.heads,
        dim=info.dim,
        vocab_size=info.vocab_size,
        trained_length=info.trained_length,
        max_length=info.max_length,
        pooling=info.pooling,
        normalized=info.normalized,
        accepts=tuple(info.accepts),
        outputs=tuple(info.outputs),
        limits=Limits(
            max_items=limits.max_items,
            max_request_bytes=limits.max_request_bytes,
            max_unary_response_bytes=limits.max_unary_response_bytes,
            max_stream_output_bytes=limits.max_stream_output_bytes,
            max_stream_in_flight=limits.max_stream_in_flight,
            max_request_tokens=limits.max_request_tokens,
        ),
        prompts={prompt.name: prompt.text for prompt in info.prompts},
        default_prompt=info.default_prompt or None,
        include_prompt=info.include_prompt,
        pooled_dim=info.pooled_dim,
        trained_dimensions=tuple(info.trained_dimensions),
        int8_dimensions=tuple(info.int8_dimensions),
        pooled_types=tuple(
            VECTOR_NAMES[number] for number in info.pooled_dtypes if number in VECTOR_NAMES
        ),
        similarity=info.similarity or None,
        special_tokens="text" if info.special_tokens == pb.SPECIAL_TOKENS_TEXT else "parse",
        truncation=TRUNCATION_NAMES.get(info.truncation, "refuse"),
        variants=tuple((variant.provider, variant.precision) for variant in response.variants),
        parity=tuple(
            Parity(row.output, row.provider, row.precision, row.max_error, row.tolerance)
            for row in response.parity
        ),
        quality=tuple(
            Quality(
                **{field.name: getattr(row, field.name) for field in dataclasses.fields(Quality)}
            )
            for row in response.quality
        ),
    )

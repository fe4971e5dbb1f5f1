"""Decoding of protobuf messages to the core's requests.

Lists that no model could take are refused by their length: a message holds millions of entries,
each of which becomes an object here.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np

from headlight.errors import InvalidInput, Reason, renamed
from headlight.outputs.contract import has_unknown, known, token_choice
from headlight.outputs.registry import OUTPUTS
from headlight.pb import headlight_pb2 as pb
from headlight.runtime.tokenization.input_checks import Truncation, not_taken, too_many_tokens
from headlight.runtime.values import Floats
from headlight.spec import INPUT_ROLES, InputRole
from headlight.wire.reading_codec import (
    PromptChoice,
    priority_of,
    prompt_choice,
    special_tokens_of,
)
from headlight_service.core.models import ServedModel
from headlight_service.core.requests.request import (
    Input,
    OcclusionRequest,
    OutputSpec,
    Pair,
    Request,
    TokenIds,
)
from headlight_service.core.tasks.occlude import NAMES

NO_PROMPT = PromptChoice()
OCCLUSION = OutputSpec(token_info=True)
# Most requests ask for the outputs of earlier requests. So many are kept, of at most so many bytes
# each.
REMEMBERED, REMEMBERED_BYTES = 256, 256


def decode_outputs(outputs: pb.Outputs, model: ServedModel) -> OutputSpec:
    """Return the requested outputs, decoded once for each spelling. Raises InvalidInput."""
    key, remembered = outputs.SerializeToString(), model.output_specs
    spec = remembered.get(key)
    if spec is None:
        spec = _outputs(outputs, model)
        if len(key) <= REMEMBERED_BYTES:
            if len(remembered) >= REMEMBERED:
                remembered.clear()
            remembered[key] = spec
    return spec


def decode_encode(
    message: pb.EncodeRequest, model: ServedModel, deadline: float, client: str
) -> Request:
    """Return the request of a message to Encode.

    Args:
        message: the message as received.
        model: the model that it names.
        deadline: deadline on time.monotonic; infinity for none.
        client: see `Request`.

    Raises:
        InvalidInput: naming the field and its accepted values.
    """
    truncation = decode_truncation(message.truncation)
    priority = priority_of(message.priority) if message.priority else "interactive"
    inputs = decode_inputs(message.inputs, model, model.most_tokens)
    prompt = prompt_choice(message) if message.WhichOneof("prompt") else NO_PROMPT
    special, outputs = message.special_tokens, message.outputs
    if outputs.HasField("spans") and outputs.spans.HasField("given"):
        lists = len(outputs.spans.given.inputs)
        if lists != len(inputs):
            raise InvalidInput(
                "outputs.spans.given.inputs",
                Reason.ENTRIES_FOR_INPUTS,
                lists=lists,
                inputs=len(inputs),
            )
    return Request(
        inputs,
        decode_outputs(message.outputs, model),
        model.key,
        message.ByteSize(),
        deadline,
        priority,
        client,
        prompt.name,
        prompt.text,
        truncation,
        special_tokens_of(special, model.special_tokens) if special else None,
        head_masks(message.inputs, model),
        message.dry_run,
        empty_texts=known("empty_texts", "EmptyTexts", message.empty_texts)
        if message.empty_texts
        else None,
        role=role_of(message.role),
    )


def decode_tokenize(message: pb.TokenizeRequest, model: ServedModel, client: str) -> Request:
    """Return the request of a message to Tokenize. Raises InvalidInput as `decode_encode` does."""
    prompt = prompt_choice(message)
    return Request(
        decode_inputs(message.inputs, model, model.max_tokenized),
        model=model.key,
        size_bytes=message.ByteSize(),
        client=client,
        prompt_name=prompt.name,
        prompt_text=prompt.text,
        special_tokens=special_tokens_of(message.special_tokens, model.special_tokens),
        role=role_of(message.role),
    )


def role_of(number: int) -> InputRole | None:
    """Return the role of inputs; None: not set. Raises InvalidInput: it is unknown."""
    return known("role", "InputRole", number, INPUT_ROLES) if number else None


def decode_occlude(
    message: pb.OccludeRequest, model: ServedModel, deadline: float, client: str
) -> OcclusionRequest:
    """Return the request of a message to Occlude. Raises InvalidInput as `decode_encode` does."""
    check_count("tokens", len(message.tokens.indices.indices), model.max_length)
    with renamed(NAMES):
        inputs = decode_inputs([message.input], model, model.limits.max_request_tokens)
        masks = head_masks([message.input], model)
    if has_unknown(message):  # it copies: only for short messages
        raise InvalidInput("tokens", Reason.NEWER)
    prompt, target = prompt_choice(message), decode_target(message, model)
    if isinstance(target, str):
        if "text" not in model.accepts:
            raise not_taken("target_text", model.accepts)
        inputs.append(target)
        if masks is not None:  # items of one request run on one graph
            masks.append(np.ones_like(masks[0]))
    return OcclusionRequest(
        inputs,
        OCCLUSION,
        model.key,
        message.ByteSize(),
        deadline,
        priority_of(message.priority),
        client,
        prompt.name,
        prompt.text,
        decode_truncation(message.truncation),
        special_tokens_of(message.special_tokens, model.special_tokens),
        masks,
        hidden=token_choice("tokens", message.tokens) if message.HasField("tokens") else None,
        target=None if isinstance(target, str) else target,
    )


def decode_target(message: pb.OccludeRequest, model: ServedModel) -> str | Floats | None:
    """Return the target of an occlusion: a text, or a vector float32 [pooled_dim]; None: none.

    Raises:
        InvalidInput: the vector has another width, or is not finite.
    """
    kind = message.WhichOneof("target")
    if kind is None:
        return None
    if kind == "target_text":
        return message.target_text
    values, width = (
        message.target_vector.values,
        model.runtime.bundle.manifest.architecture.pooled_dim,
    )
    if len(values) != width:
        raise InvalidInput("target_vector", Reason.TARGET_NUMBERS, count=len(values), width=width)
    vector = np.array(values, np.float32)
    if not np.isfinite(vector).all():
        raise InvalidInput("target_vector", Reason.NOT_FINITE)
    return vector


def decode_inputs(inputs: Sequence[pb.Input], model: ServedModel, max_tokens: int) -> list[Input]:
    """Return texts, pairs and ids. Raises InvalidInput: a list is longer than the model takes."""
    model.check_items("inputs", len(inputs))
    decoded, ids = list[Input](), 0
    for place, value in enumerate(inputs):
        kind = value.WhichOneof("content")
        if kind == "text":  # the usual case
            decoded.append(value.text)
        elif kind == "pair":
            decoded.append(Pair(value.pair.first, value.pair.second))
        elif kind == "ids" and "ids" in model.accepts:
            one = _ids(f"inputs[{place}].ids", value.ids, model.max_length)
            ids += len(one.ids)
            if ids > max_tokens:
                raise too_many_tokens(max_tokens)
            decoded.append(one)
        else:
            if kind is None:
                names = " or ".join(model.accepts)
                raise InvalidInput(f"inputs[{place}]", Reason.NO_INPUT, names=names)
            raise not_taken(f"inputs[{place}].{kind}", model.accepts)
    return decoded


def check_count(field: str, count: int, most: int) -> None:
    """Raise InvalidInput if a list has more entries than there are values."""
    if count > most:
        raise InvalidInput(field, Reason.MORE_THAN_THE_MODEL, count=count, most=most)


def _ids(field: str, value: pb.TokenIds, max_length: int) -> TokenIds:
    ids, types = value.ids, value.segments
    count, segment_count = len(ids), len(types)
    if not 1 <= count <= max_length:
        raise InvalidInput(field, Reason.IDS, count=count, most=max_length)
    if segment_count not in (0, count):
        raise InvalidInput(f"{field}.segments", Reason.SEGMENTS, segments=segment_count, ids=count)
    return TokenIds(array("q", ids[:]), array("q", types[:] if segment_count else ()))


def _outputs(outputs: pb.Outputs, model: ServedModel) -> OutputSpec:
    architecture, limits = model.runtime.bundle.manifest.architecture, model.limits
    for name, output in OUTPUTS.items():
        message = getattr(outputs, name)
        lists = output.entries(message, architecture, model.max_length, limits)
        for field, count, most in lists:
            check_count(f"outputs.{name}.{field}", count, most)
    if has_unknown(outputs):
        raise InvalidInput("outputs", Reason.NEWER)
    requested = {field.name for field, _ in outputs.ListFields()} or {"pooled"}
    specs = {
        name: output.spec_of(getattr(outputs, name)) if name in requested else None
        for name, output in OUTPUTS.items()
    }
    return OutputSpec(**specs, token_info="token_info" in requested)


def head_masks(inputs: Sequence[pb.Input], model: ServedModel) -> list[Floats | None] | None:
    """Return the head mask of each input, float32 [L, H]; None: no input has one."""
    if True not in [value.HasField("head_mask") for value in inputs]:
        return None
    architecture = model.runtime.bundle.manifest.architecture
    layers, heads = architecture.layers, architecture.heads
    whole, masks = np.ones((layers, heads), dtype=np.float32), list[Floats | None]()
    for at, value in enumerate(inputs):
        if not value.HasField("head_mask"):
            masks.append(whole)  # items of one request run on one graph, and a mask needs `attend`
            continue
        field = f"inputs[{at}].head_mask"
        model.check_gives("attention", field)
        if len(value.head_mask.values) != layers * heads:
            given = len(value.head_mask.values)
            raise InvalidInput(
                field, Reason.HEAD_MASK_VALUES, count=given, layers=layers, heads=heads
            )
        mask = np.array(value.head_mask.values, dtype=np.float32).reshape(layers, heads)
        # Beyond that range, numbers could overflow, also those of other batch members.
        if not ((mask >= 0) & (mask <= 1)).all():
            raise InvalidInput(field, Reason.HEAD_MASK_RANGE)
        masks.append(mask)
    return masks


def decode_truncation(number: int) -> Truncation | None:
    """Return the treatment of long texts; None: not set. Raises InvalidInput."""
    return known("truncation", "Truncation", number) if number else None

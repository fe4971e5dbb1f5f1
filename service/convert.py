"""From protobuf to values: what a request asks for, checked as far as that goes without tokenising it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from google.protobuf.unknown_fields import UnknownFieldSet

from headlight.errors import InvalidInput
from headlight.pb import headlight_pb2 as pb
from headlight.runtime.tokenizer import Truncation
from headlight.runtime.values import Selection

TRUNCATIONS: Mapping[int, Truncation] = {
    pb.TRUNCATION_UNSPECIFIED: "refuse",
    pb.TRUNCATION_REFUSE: "refuse",
    pb.TRUNCATION_CUT_END: "cut_end",
    pb.TRUNCATION_CUT_START: "cut_start",
}


class Pair(NamedTuple):
    """Two texts that the model sees as one sequence."""

    first: str
    second: str


class TokenIds(NamedTuple):
    """Token ids, and a segment of each or none at all."""

    ids: tuple[int, ...]
    segments: tuple[int, ...] = ()


EncodeInput = str | Pair | TokenIds


@dataclasses.dataclass(frozen=True, slots=True)
class Interface:
    """What a served model can be asked for."""

    layers: int
    accepts: tuple[str, ...]  # of "text", "pair", "ids"
    attend: bool  # whether attention and hidden states can be returned
    max_items: int
    max_characters: int  # of one text


@dataclasses.dataclass(frozen=True, slots=True)
class TokenizeJob:
    """Inputs to tokenise: texts and pairs of texts, or ids to check."""

    inputs: list[EncodeInput]
    with_info: bool
    truncation: Truncation = "refuse"
    limit: bool = True  # False: any number of tokens


@dataclasses.dataclass(frozen=True, slots=True)
class EncodeJob:
    """A request as plain values."""

    tokenize: TokenizeJob
    selection: Selection


def encode_job(request: pb.EncodeRequest, interface: Interface) -> EncodeJob:
    """The job that a request asks for.

    Raises:
        InvalidInput: naming the field and what it may hold.
    """
    truncation = TRUNCATIONS.get(request.truncation)
    if truncation is None:
        raise InvalidInput("truncation", f"{request.truncation} is none that this server knows; see enum Truncation")
    outputs = request.outputs
    inputs = _inputs(request.inputs, interface)
    job = TokenizeJob(inputs, with_info=outputs.HasField("token_info"), truncation=truncation)
    return EncodeJob(job, selection(outputs, interface))


def tokenize_job(request: pb.TokenizeRequest, interface: Interface) -> TokenizeJob:
    """The job that a request asks for.

    Raises:
        InvalidInput: naming the field and what it may hold.
    """
    return TokenizeJob(_inputs(request.inputs, interface), with_info=True, limit=False)


def selection(outputs: pb.Outputs, interface: Interface) -> Selection:
    """The outputs wanted, layers resolved; pooled where nothing is named.

    Raises:
        InvalidInput: naming the field and the valid range.
    """
    present = outputs.ListFields()
    if any(len(UnknownFieldSet(message)) for message in (outputs, *(value for _, value in present))):
        raise InvalidInput("outputs", "asks for something that this server does not know; it is older than the client")
    wanted = {field.name for field, _ in present}
    if not wanted:
        return Selection()
    if not interface.attend:
        for name in ("attention", "hidden"):
            if name in wanted:
                raise InvalidInput(
                    f"outputs.{name}", "this server was started with --attention off; GetModel lists the outputs"
                )
    attention: tuple[int, ...] = ()
    hidden: tuple[int, ...] = ()
    if "attention" in wanted:
        attention = resolve_layers("outputs.attention.layers", outputs.attention.layers, interface.layers)
    if "hidden" in wanted:
        hidden = resolve_layers("outputs.hidden.layers", outputs.hidden.layers, interface.layers + 1)
    return Selection("pooled" in wanted, "tokens" in wanted, attention, hidden)


def resolve_layers(field: str, layers: Sequence[int], count: int) -> tuple[int, ...]:
    """Absolute layers in the order wanted; all of them where none is named.

    Args:
        field: for errors.
        layers: each in -count .. count-1, negative from the end.
        count: how many there are.

    Raises:
        InvalidInput: one is out of range, or named twice.
    """
    if not layers:
        return tuple(range(count))
    for place, layer in enumerate(layers):
        if not -count <= layer < count:
            raise InvalidInput(f"{field}[{place}]", f"is {layer}; valid are {-count} .. {count - 1}")
    absolute = tuple(layer % count for layer in layers)
    if len(set(absolute)) != len(absolute):
        raise InvalidInput(field, f"names a layer twice (negative ones count from the end); name each of {count} once")
    return absolute


def _inputs(inputs: Sequence[pb.Input], interface: Interface) -> list[EncodeInput]:
    if not 1 <= len(inputs) <= interface.max_items:
        raise InvalidInput("inputs", f"has {len(inputs)} entries; send 1 to {interface.max_items}")
    return [_input(place, value, interface) for place, value in enumerate(inputs)]


def _input(place: int, value: pb.Input, interface: Interface) -> EncodeInput:
    kind = value.WhichOneof("content")
    accepted = " or ".join(interface.accepts)
    if kind is None:
        raise InvalidInput(f"inputs[{place}]", f"is empty; set {accepted}")
    if kind not in interface.accepts:
        raise InvalidInput(f"inputs[{place}].{kind}", f"this model takes {accepted}")
    if kind == "ids":
        return TokenIds(tuple(value.ids.ids), tuple(value.ids.segments))
    texts = Pair(value.pair.first, value.pair.second) if kind == "pair" else (value.text,)
    # Tokenising takes some 350 bytes and 2 µs a character: what cannot fit is refused unread.
    characters = sum(map(len, texts))
    if characters > interface.max_characters:
        problem = f"has {characters} characters; at most {interface.max_characters} are read, shorten it"
        raise InvalidInput(f"inputs[{place}].{kind}", problem)
    return texts if isinstance(texts, Pair) else value.text

"""From protobuf to values: what a request asks for, checked as far as that goes without tokenising it."""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from headlight.errors import InvalidInput
from headlight.pb import headlight_pb2 as pb
from headlight.runtime.choice import resolve_attention, resolve_hidden
from headlight.runtime.items import Selection
from headlight.runtime.manifest import Architecture
from headlight.runtime.tokenizer import Truncation
from headlight.runtime.values import Floats
from headlight.wire import REDUCTIONS, attention_spec, has_unknown, hidden_spec

TRUNCATIONS: Mapping[int, Truncation] = {
    pb.TRUNCATION_UNSPECIFIED: "refuse",
    pb.TRUNCATION_REFUSE: "refuse",
    pb.TRUNCATION_CUT_END: "cut_end",
    pb.TRUNCATION_CUT_START: "cut_start",
}


ATTENTION_OFF = "this server was started with --attention off; GetModel lists the outputs"


class Pair(NamedTuple):
    """Two texts that the model sees as one sequence."""

    first: str
    second: str


class TokenIds(NamedTuple):
    """Token ids, and a segment of each or none at all: 8 bytes each, where a tuple takes 40."""

    ids: array[int]
    segments: array[int]


EncodeInput = str | Pair | TokenIds


@dataclasses.dataclass(frozen=True, slots=True)
class Interface:
    """What a served model can be asked for."""

    architecture: Architecture
    pooling: str
    accepts: tuple[str, ...]  # of "text", "pair", "ids"
    attend: bool  # whether attention and hidden states can be returned
    max_items: int
    max_characters: int  # of one text
    max_length: int  # tokens of one input
    max_tokens: int  # of one request to encode
    max_tokenized: int  # tokens of one request to tokenise


@dataclasses.dataclass(frozen=True, slots=True)
class TokenizeJob:
    """Inputs to tokenise: texts and pairs of texts, or ids to check."""

    inputs: list[EncodeInput]
    with_info: bool
    max_tokens: int  # of all inputs together
    truncation: Truncation = "refuse"
    limit: bool = True  # False: any number of tokens


@dataclasses.dataclass(frozen=True, slots=True)
class EncodeJob:
    """A request as plain values."""

    tokenize: TokenizeJob
    selection: Selection
    head_masks: list[Floats | None]  # of each input


def encode_job(request: pb.EncodeRequest, interface: Interface) -> EncodeJob:
    """The job that a request asks for.

    Raises:
        InvalidInput: naming the field and what it may hold.
    """
    truncation = TRUNCATIONS.get(request.truncation)
    if truncation is None:
        raise InvalidInput("truncation", f"{request.truncation} is none that this server knows; see enum Truncation")
    outputs = request.outputs
    most = interface.max_tokens
    inputs = _inputs(request.inputs, interface, most)
    wanted = selection(outputs, interface)
    job = TokenizeJob(inputs, outputs.HasField("token_info") or wanted.needs_tokens, most, truncation)
    return EncodeJob(job, wanted, head_masks(request.inputs, interface))


def tokenize_job(request: pb.TokenizeRequest, interface: Interface) -> TokenizeJob:
    """The job that a request asks for.

    Raises:
        InvalidInput: naming the field and what it may hold.
    """
    most = interface.max_tokenized
    return TokenizeJob(_inputs(request.inputs, interface, most), with_info=True, max_tokens=most, limit=False)


def check_tokens(tokens: int, most: int) -> None:
    """Raises InvalidInput where the inputs of a request have more than so many tokens."""
    if tokens > most:
        raise InvalidInput("inputs", f"have more than {most} tokens together; split the request")


def selection(outputs: pb.Outputs, interface: Interface) -> Selection:
    """The outputs wanted, resolved; pooled where nothing is named.

    Raises:
        InvalidInput: naming the field and the valid range.
    """
    _check_counts(outputs, interface)
    if has_unknown(outputs):
        raise InvalidInput("outputs", "asks for something that this server does not know; it is older than the client")
    wanted = {field.name for field, _ in outputs.ListFields()}
    if not wanted:
        return Selection()
    if not interface.attend:
        for name in ("attention", "hidden"):
            if name in wanted:
                raise InvalidInput(f"outputs.{name}", ATTENTION_OFF)
    architecture, pooling = interface.architecture, interface.pooling
    attention = hidden = None
    if "attention" in wanted:
        attention = resolve_attention(attention_spec(outputs.attention), architecture, pooling)
    if "hidden" in wanted:
        hidden = resolve_hidden(hidden_spec(outputs.hidden), architecture, pooling)
    return Selection("pooled" in wanted, "tokens" in wanted, attention, hidden)


def _check_counts(outputs: pb.Outputs, interface: Interface) -> None:
    """Refuse lists longer than anything that they could name, by their length alone: a message holds millions of entries."""
    layers, heads, tokens = interface.architecture.layers, interface.architecture.heads, interface.max_length
    asked, states = outputs.attention, outputs.hidden
    counts = {
        "attention.layers": (len(asked.layers) + len(asked.layer_runs), layers),
        "attention.heads": (len(asked.heads) + len(asked.head_runs), heads),
        "attention.pairs": (len(asked.pairs), layers * heads),
        "attention.reduce": (len(asked.reduce), len(REDUCTIONS)),
        "attention.spans": (len(asked.spans), tokens),
        "attention.queries": (len(asked.queries.indices.indices), tokens),
        "attention.keys": (len(asked.keys.indices.indices), tokens),
        "hidden.layers": (len(states.layers) + len(states.layer_runs), layers + 1),
        "hidden.tokens": (len(states.tokens.indices.indices), tokens),
    }
    for name, (count, most) in counts.items():
        if count > most:
            raise InvalidInput(
                f"outputs.{name}", f"has {count} entries, of which there are at most {most}; name each once"
            )


def head_masks(inputs: Sequence[pb.Input], interface: Interface) -> list[Floats | None]:
    """Of each input, float32 [L, H]; None: all heads are whole.

    Raises:
        InvalidInput: naming the input, and what its mask must hold.
    """
    masks = list[Floats | None]()
    layers, heads = interface.architecture.layers, interface.architecture.heads
    for at, value in enumerate(inputs):
        if not value.HasField("head_mask"):
            masks.append(None)
            continue
        field = f"inputs[{at}].head_mask"
        if not interface.attend:
            raise InvalidInput(field, ATTENTION_OFF)
        if len(value.head_mask.values) != layers * heads:
            have = f"has {len(value.head_mask.values)} values"
            raise InvalidInput(field, f"{have}; send {layers} x {heads}, heads within layers")
        mask = np.array(value.head_mask.values, dtype=np.float32).reshape(layers, heads)
        if not ((mask >= 0) & (mask <= 1)).all():  # beyond, numbers could overflow, and with them those of a batch-mate
            raise InvalidInput(field, "holds something that is not from 0 to 1; 1 keeps a head, 0 removes it")
        masks.append(mask)
    if any(mask is not None for mask in masks):  # items of one request run on one graph, and a mask needs `attend`
        return [np.ones((layers, heads), dtype=np.float32) if mask is None else mask for mask in masks]
    return masks


def _inputs(inputs: Sequence[pb.Input], interface: Interface, max_tokens: int) -> list[EncodeInput]:
    if not 1 <= len(inputs) <= interface.max_items:
        raise InvalidInput("inputs", f"has {len(inputs)} entries; send 1 to {interface.max_items}")
    converted, ids = list[EncodeInput](), 0
    for place, value in enumerate(inputs):
        converted.append(_input(place, value, interface))
        ids += len(value.ids.ids)
        check_tokens(ids, max_tokens)
    return converted


def _input(place: int, value: pb.Input, interface: Interface) -> EncodeInput:
    kind = value.WhichOneof("content")
    accepted = " or ".join(interface.accepts)
    if kind is None:
        raise InvalidInput(f"inputs[{place}]", f"is empty; set {accepted}")
    if kind not in interface.accepts:
        raise InvalidInput(f"inputs[{place}].{kind}", f"this model takes {accepted}")
    if kind == "ids":
        return _ids(f"inputs[{place}].ids", value.ids, interface.max_length)
    texts = Pair(value.pair.first, value.pair.second) if kind == "pair" else (value.text,)
    # Tokenising takes some 350 bytes and 2 µs a character: what cannot fit is refused unread.
    characters = sum(map(len, texts))
    if characters > interface.max_characters:
        problem = f"has {characters} characters; at most {interface.max_characters} are read, shorten it"
        raise InvalidInput(f"inputs[{place}].{kind}", problem)
    return texts if isinstance(texts, Pair) else value.text


def _ids(field: str, value: pb.TokenIds, max_length: int) -> TokenIds:
    # By their number alone: a message holds millions where the model takes thousands, and each becomes an object here.
    count, segments = len(value.ids), len(value.segments)
    if not 1 <= count <= max_length:
        raise InvalidInput(field, f"has {count} ids; send 1 to {max_length}")
    if segments not in (0, count):
        raise InvalidInput(f"{field}.segments", f"has {segments} entries for {count} ids; send one of each, or none")
    return TokenIds(array("q", value.ids), array("q", value.segments))

"""From protobuf to values: what a request asks for, checked as far as that goes without tokenising it."""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headlight.errors import InvalidInput
from headlight.pb import headlight_pb2 as pb
from headlight.runtime.bundle.prompts import Prompt
from headlight.runtime.encode_items import Selection
from headlight.runtime.tokenization.input_checks import Truncation
from headlight.runtime.values import Floats
from headlight.spec import SpecialTokens
from headlight.wire.priority import Priority, priority_of
from headlight.wire.vector_codec import prompt_wish, special_tokens_of
from headlight_service.core.model_interface import Interface
from headlight_service.core.requested_outputs import head_masks, selection

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
    """Token ids, and a segment of each or none at all: 8 bytes each, where a tuple takes 40."""

    ids: array[int]
    segments: array[int]


EncodeInput = str | Pair | TokenIds


@dataclasses.dataclass(frozen=True, slots=True)
class TokenizeJob:
    """Inputs to tokenise: texts and pairs of texts, or ids to check."""

    inputs: list[EncodeInput]
    with_info: bool
    max_tokens: int  # of all inputs together
    truncation: Truncation = "refuse"
    limit: bool = True  # False: any number of tokens
    prompt: str = ""  # put before each single text
    special_tokens: SpecialTokens = "parse"


@dataclasses.dataclass(frozen=True, slots=True)
class EncodeJob:
    """A request as plain values."""

    tokenize: TokenizeJob
    selection: Selection
    head_masks: list[Floats | None]  # of each input
    priority: Priority


def encode_job(request: pb.EncodeRequest, interface: Interface) -> EncodeJob:
    """The job that a request asks for.

    Raises:
        InvalidInput: naming the field and what it may hold.
    """
    truncation = TRUNCATIONS.get(request.truncation)
    if truncation is None:
        raise InvalidInput("truncation", f"{request.truncation} is none that this server knows; see enum Truncation")
    priority, outputs = priority_of(request.priority), request.outputs
    most, prompt = interface.max_tokens, interface.prompts.choose(*prompt_wish(request))
    inputs = _inputs(request.inputs, interface, most, prompt)
    wanted = selection(outputs, interface)
    with_info = outputs.HasField("token_info") or wanted.needs_tokens
    special = special_tokens_of(request.special_tokens, interface.special_tokens)
    job = TokenizeJob(inputs, with_info, most, truncation, prompt=prompt.text, special_tokens=special)
    return EncodeJob(job, wanted, head_masks(request.inputs, interface), priority)


def tokenize_job(request: pb.TokenizeRequest, interface: Interface) -> TokenizeJob:
    """The job that a request asks for.

    Raises:
        InvalidInput: naming the field and what it may hold.
    """
    most, prompt = interface.max_tokenized, interface.prompts.choose(*prompt_wish(request))
    inputs = _inputs(request.inputs, interface, most, prompt)
    special = special_tokens_of(request.special_tokens, interface.special_tokens)
    return TokenizeJob(inputs, with_info=True, max_tokens=most, limit=False, prompt=prompt.text, special_tokens=special)


def check_tokens(tokens: int, most: int) -> None:
    """Raises InvalidInput where the inputs of a request have more than so many tokens."""
    if tokens > most:
        raise InvalidInput("inputs", f"have more than {most} tokens together; split the request")


def _inputs(inputs: Sequence[pb.Input], interface: Interface, max_tokens: int, prompt: Prompt) -> list[EncodeInput]:
    if not 1 <= len(inputs) <= interface.max_items:
        raise InvalidInput("inputs", f"has {len(inputs)} entries; send 1 to {interface.max_items}")
    converted, ids = list[EncodeInput](), 0
    room = interface.max_characters - len(prompt.text) if "text" in interface.accepts else -1
    for place, value in enumerate(inputs):
        kind = value.WhichOneof("content")
        if kind == "text" and len(text := value.text) <= room:  # mostly
            converted.append(text)
            continue
        one = _input(place, kind, value, interface, prompt)
        converted.append(one)
        if isinstance(one, TokenIds):
            ids += len(one.ids)
            check_tokens(ids, max_tokens)
    return converted


def _input(place: int, kind: str | None, value: pb.Input, interface: Interface, prompt: Prompt) -> EncodeInput:
    if kind is None or kind not in interface.accepts:
        accepted = " or ".join(interface.accepts)
        if kind is None:
            raise InvalidInput(f"inputs[{place}]", f"is empty; set {accepted}")
        raise InvalidInput(f"inputs[{place}].{kind}", f"this model takes {accepted}")
    if kind != "text":
        _check_prompt(f"inputs[{place}].{kind}", prompt, kind)
    if kind == "ids":
        return _ids(f"inputs[{place}].ids", value.ids, interface.max_length)
    texts = Pair(value.pair.first, value.pair.second) if kind == "pair" else (value.text,)
    # Tokenising takes some 350 bytes and 2 µs a character: what cannot fit is refused unread.
    characters = sum(map(len, texts)) + (len(prompt.text) if kind == "text" else 0)
    if characters > interface.max_characters:
        own = f", {len(prompt.text)} of them its prompt" if kind == "text" and prompt.text else ""
        remedy = "shorten it, or split it into several texts"
        problem = f"has {characters} characters{own}; at most {interface.max_characters} are read; {remedy}"
        raise InvalidInput(f"inputs[{place}].{kind}", problem)
    return texts if isinstance(texts, Pair) else value.text


def _check_prompt(field: str, prompt: Prompt, kind: str) -> None:
    try:
        prompt.check_kind("pairs" if kind == "pair" else kind)
    except InvalidInput as error:
        raise InvalidInput(field, error.problem) from None


def _ids(field: str, value: pb.TokenIds, max_length: int) -> TokenIds:
    # By their number alone: a message holds millions where the model takes thousands, and each becomes an object here.
    ids, types = value.ids, value.segments
    count, segments = len(ids), len(types)
    if not 1 <= count <= max_length:
        raise InvalidInput(field, f"has {count} ids; send 1 to {max_length}")
    if segments not in (0, count):
        raise InvalidInput(f"{field}.segments", f"has {segments} entries for {count} ids; send one of each, or none")
    return TokenIds(array("q", ids[:]), array("q", types[:] if segments else ()))

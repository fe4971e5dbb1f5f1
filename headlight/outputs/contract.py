"""Parts of the contract that outputs share: enumerations, indices, tokens, and refusals of answers.

Protobuf is imported with the first message, because a runtime in this process needs none.
"""

from __future__ import annotations

import functools
from collections.abc import Container, Mapping, MutableSequence, Sequence
from typing import TYPE_CHECKING, Any

from headlight.errors import BadAnswer, InvalidInput, Reason
from headlight.printable import escaped, shortened
from headlight.spec import Indices, NamedChoice, Run, Span, TokenChoice

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from headlight.pb import headlight_pb2 as pb

REMEDY = "is the server the right one, and of a compatible version?"
LONGEST_PROBLEM = 500  # characters: shapes and axes in it may be as long as the answer


@functools.cache
def messages() -> Any:
    """Return the module of the contract's messages."""
    from headlight.pb import headlight_pb2  # noqa: PLC0415 -- see above

    return headlight_pb2


@functools.cache
def numbers_of(enum: str) -> Mapping[str, Any]:
    """Return the numbers of an enumeration by name: DATA_TYPE_FLOAT32 of DataType is "float32"."""
    kind = getattr(messages(), enum)
    prefix = "".join(f"_{each}" if each.isupper() else each.upper() for each in enum)[1:]
    return {name[len(prefix) + 1 :].lower(): number for name, number in kind.items() if number}


@functools.cache
def _names(enum: str) -> Mapping[int, str]:
    return {number: name for name, number in numbers_of(enum).items()}


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


def known(
    field: str,
    enum: str,
    number: int,
    names: Container[str] | None = None,
    unspecified: str | None = None,
) -> Any:
    """Return the name of an enumeration's number, in lower case; `unspecified` for 0.

    `names`: those that the field may have; None: all.

    Raises:
        InvalidInput: this side does not know the number, or the field cannot have it.
    """
    name = unspecified if number == 0 else _names(enum).get(number)
    if name is None or not (names is None or number == 0 or name in names):
        raise InvalidInput(field, Reason.NOT_KNOWN, number=number)
    return name


def has_unknown(message: Message) -> bool:
    """Return whether a message, or one in it, has fields unknown to this side's contract."""
    # UnknownFieldSet would make an object of each field, and a message holds millions. Both sizes
    # are of the decoded message, not of its bytes on the wire.
    known_alone = type(message)()
    known_alone.CopyFrom(message)
    known_alone.DiscardUnknownFields()
    return known_alone.ByteSize() != message.ByteSize()


def indices_in(singles: Sequence[int], runs: Sequence[pb.IndexRun]) -> Indices:
    """Decode layers or heads from their two lists."""
    return (*singles, *(Run(run.begin, run.end if run.HasField("end") else None) for run in runs))


def set_indices(
    singles: MutableSequence[int], runs: MutableSequence[pb.IndexRun], indices: Indices
) -> None:
    """Add layers or heads to their two lists in a message."""
    singles.extend(index for index in indices if not isinstance(index, Run))
    runs.extend(
        messages().IndexRun(begin=index.begin, end=index.end)
        for index in indices
        if isinstance(index, Run)
    )


def token_choice(field: str, selector: pb.TokenSelector) -> TokenChoice:
    """Decode a selector of tokens. Raises InvalidInput if it is empty, or its name is unknown."""
    kind = selector.WhichOneof("tokens")
    if kind == "named":
        name: NamedChoice = known(field, "NamedTokens", selector.named, unspecified="all")
        return name
    if kind == "indices":
        return tuple(selector.indices.indices)
    if kind == "span":
        return span_in(selector.span)
    raise InvalidInput(field, Reason.NO_TOKENS_CHOSEN)


def selector_of(choice: TokenChoice) -> pb.TokenSelector | None:
    """Encode a checked choice of tokens; None: all tokens."""
    if choice == "all":
        return None
    selector: pb.TokenSelector = messages().TokenSelector()
    if isinstance(choice, str):
        selector.named = numbers_of("NamedTokens")[choice]
    elif isinstance(choice, Span):
        selector.span.CopyFrom(span_message(choice))
    else:
        selector.indices.CopyFrom(messages().TokenIndices(indices=choice))
    return selector


def span_in(span: pb.TextSpan) -> Span:
    """Decode a span."""
    return Span(span.start, span.end, span.text)


def span_message(span: Span) -> pb.TextSpan:
    """Encode a span."""
    message: pb.TextSpan = messages().TextSpan(**span._asdict())
    return message

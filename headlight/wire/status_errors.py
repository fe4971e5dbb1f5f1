"""Conversion of gRPC statuses to errors: the reverse of the service's table.

Two kinds of status arrive: of a whole call (an RpcError, sync or asyncio) and of one request of a
stream (a Status message). Both carry a code and a message, and become the same exceptions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeVar, cast

import grpc
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from headlight.errors import (
    DeadlineExceeded,
    EngineError,
    HeadlightError,
    InvalidInput,
    NotFound,
    Overloaded,
    Reason,
    Unauthenticated,
    Unavailable,
)
from headlight.outputs.contract import malformed
from headlight.pb import headlight_pb2 as pb
from headlight.printable import escaped, shortened
from headlight.refusals import Refusal, at_place, from_metadata, path_of, place_of

MessageT = TypeVar("MessageT")
PUSHBACK_KEY = "grpc-retry-pushback-ms"  # gRPC A6: milliseconds until a retry; negative: no retry

# Other statuses have no class. They become the root class, with the status name in front
# (UNIMPLEMENTED: not a Headlight server; PERMISSION_DENIED: a proxy's answer).
ERROR_CLASSES: dict[grpc.StatusCode, type[HeadlightError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidInput,
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Overloaded,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    # by the server: cancelling on this side is an exception of its own
    grpc.StatusCode.CANCELLED: Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.INTERNAL: EngineError,
    grpc.StatusCode.DATA_LOSS: EngineError,
    grpc.StatusCode.UNKNOWN: EngineError,
}

# gRPC's message for its own use of RESOURCE_EXHAUSTED, for which a retry cannot help.
TOO_LARGE = "message larger than max"
ANSWER_TOO_LARGE = "CLIENT: Received message larger than max"  # refused by this side
NOT_OF_THE_CONTRACT = "its bytes are no message of the contract"
UNREADABLE = "Exception deserializing response!"
LONGEST_DELAY_SECONDS = 86_400.0  # a day; no caller could follow longer advice
MOST_DIGITS = 18  # of a delay in milliseconds
BY_NUMBER = {cast("tuple[int, str]", code.value)[0]: code for code in grpc.StatusCode}
# A google.rpc.Status, which Headlight's service sends with each error, and gRPC with none.
DETAILS_KEY = "grpc-status-details-bin"


class Detail(NamedTuple):
    """What a service says for machines; empty where it says nothing.

    Attributes:
        field: at fault.
        metadata: of the refusal, as `headlight.refusals.to_metadata` writes it.
    """

    field: str = ""
    metadata: Mapping[str, str] = MappingProxyType({})


def error_of_call(
    error: grpc.RpcError, first_input: int = 0, large: bool = False
) -> HeadlightError:
    """Return the error of a failed call.

    Args:
        error: the error that the stub raised.
        first_input: index, in the caller's list, of the first input of this call; added to the
            index in a field.
        large: whether an answer to this call may be larger than a message.
    """
    call = cast("grpc.Call", error)  # failed calls offer the same, sync and asyncio
    code, message = call.code(), call.details() or ""
    if UNREADABLE in message:
        return malformed(NOT_OF_THE_CONTRACT)
    if ANSWER_TOO_LARGE in message and not large:
        return malformed(f"it is larger than any answer to this request ({message})")
    trailing = call.trailing_metadata()
    retry_after = retry_after_seconds(trailing)
    return make_error(code, message, retry_after, first_input, detail_of(trailing))


def readable(message: MessageT | None) -> MessageT:
    """Return a message that arrived.

    Raises BadAnswer for None: grpc.aio could not read its bytes.
    """
    if message is None:
        raise malformed(NOT_OF_THE_CONTRACT)
    return message


def error_of_status(status: pb.Status, first_input: int = 0) -> HeadlightError:
    """Return the error of one request of a stream. `first_input` as in `error_of_call`."""
    if status.code == 0:
        return malformed("error.code is 0, which is no error")
    retry_after = (
        min(status.retry_after_ms / 1000, LONGEST_DELAY_SECONDS)
        if status.HasField("retry_after_ms")
        else None
    )
    return make_error(
        BY_NUMBER.get(status.code, grpc.StatusCode.UNKNOWN),
        status.message,
        retry_after,
        first_input,
        Detail(status.field, status.metadata),
    )


def make_error(
    code: grpc.StatusCode,
    message: str,
    retry_after: float | None,
    first_input: int,
    detail: Detail,
) -> HeadlightError:
    """Return the error of a status.

    Its refusal is that of the service. A service without reasons has its message passed on, on one
    line and without control characters.
    """
    message, error_class = shortened(escaped(message)), ERROR_CLASSES.get(code, HeadlightError)
    if error_class is Overloaded and retry_after is None and TOO_LARGE in message:
        return InvalidInput("", Reason.TOO_LARGE_FOR_GRPC, message=message)
    field = shortened(escaped(detail.field))
    metadata = {name: shortened(escaped(each)) for name, each in detail.metadata.items()}
    refusal = from_metadata(error_class.code, path_of(metadata.get("field", field)), metadata)
    if refusal is None:
        nothing = "refused without a reason" if error_class is InvalidInput else code.name
        problem = message.removeprefix(f"{field}: ") or nothing
        if error_class is HeadlightError and message:
            problem = f"{code.name}: {message}"
        refusal = Refusal(error_class.code, path_of(field), Reason.AS_IS, {"problem": problem})
    path, reason, args = moved_by(refusal, first_input)[1:]
    if error_class is InvalidInput:
        return InvalidInput(path, reason, **args)
    if error_class is Overloaded:
        return Overloaded(reason, retry_after, path, **args)
    return error_class(reason, path, **args)


def moved_by(refusal: Refusal, first_input: int) -> Refusal:
    """Return a refusal with `first_input` added to the place of the input that it names.

    Callers do not see the split into calls.
    """
    path, args = refusal.path, refusal.args
    if (place := place_of(path)) is not None:
        path = at_place(path, place + first_input)
    if "input" in args:
        args = {**args, "input": int(str(args["input"])) + first_input}
    return refusal._replace(path=path, args=args)


def detail_of(trailing: Iterable[tuple[str, str | bytes]] | None) -> Detail:
    """Return what a call's trailing metadata say for machines.

    google.rpc's messages are not among the client's dependencies, so their fields are read by
    number.
    """
    details = next((value for key, value in trailing or () if key == DETAILS_KEY), b"")
    field, metadata = "", dict[str, str]()
    try:
        for each in _fields(details if isinstance(details, bytes) else b"").get(3, ()):
            [kind], [value] = (_fields(each)[number] for number in (1, 2))
            parts = _fields(value)
            if kind.endswith(b"google.rpc.BadRequest"):
                field = _fields(parts[1][0])[1][0].decode()
            elif kind.endswith(b"google.rpc.ErrorInfo"):
                for entry in map(_fields, parts.get(3, ())):
                    metadata[entry[1][0].decode()] = entry[2][0].decode() if 2 in entry else ""
    except (DecodeError, UnicodeDecodeError, LookupError, ValueError):
        return Detail()  # of another program
    return Detail(field, metadata)


def _fields(data: bytes) -> dict[int, list[bytes]]:
    """Return the texts and messages of a message, by the number of their field."""
    values = dict[int, list[bytes]]()
    for each in UnknownFieldSet(Empty.FromString(data)):  # type: ignore[attr-defined]
        if isinstance(each.data, bytes):
            values.setdefault(each.field_number, []).append(each.data)
    return values


def retry_after_seconds(metadata: Iterable[tuple[str, str | bytes]] | None) -> float | None:
    """Return the server's retry delay; None if it named none, or advised against a retry."""
    value = next((value for key, value in metadata or () if key == PUSHBACK_KEY), "")
    text = value.decode("ascii", "replace") if isinstance(value, bytes) else value
    if not (text.isascii() and text.isdecimal()):
        return None
    # Python makes no integer of more than 4,300 digits, and no float of more than 309.
    return (
        min(int(text) / 1000, LONGEST_DELAY_SECONDS)
        if len(text) <= MOST_DIGITS
        else LONGEST_DELAY_SECONDS
    )

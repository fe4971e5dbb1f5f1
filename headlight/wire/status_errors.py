"""Conversion of gRPC statuses to errors: the reverse of the service's table.

Two kinds of status arrive: of a whole call (an RpcError, sync or asyncio) and of one request of a
stream (a Status message). Both carry a code and a message, and become the same exceptions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeVar, cast

import grpc

from headlight.errors import (
    DeadlineExceeded,
    EngineError,
    HeadlightError,
    InvalidInput,
    NotFound,
    Overloaded,
    Unauthenticated,
    Unavailable,
)
from headlight.interface.arguments import in_arguments
from headlight.outputs.contract import malformed
from headlight.pb import headlight_pb2 as pb
from headlight.printable import escaped, shortened

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

# The service's message for a queue that may outlast the caller's deadline.
TOO_LATE = "the deadline is in"
# gRPC's message for its own use of RESOURCE_EXHAUSTED, for which a retry cannot help.
TOO_LARGE = "message larger than max"
ANSWER_TOO_LARGE = "CLIENT: Received message larger than max"  # refused by this side
NOT_OF_THE_CONTRACT = "its bytes are no message of the contract"
UNREADABLE = "Exception deserializing response!"
LONGEST_DELAY_SECONDS = 86_400.0  # a day; no caller could follow longer advice
MOST_DIGITS = 18  # of a delay in milliseconds
BY_NUMBER = {cast("tuple[int, str]", code.value)[0]: code for code in grpc.StatusCode}
FIELD = re.compile(
    r"(?P<field>[a-z_]+(?:\[\d+\])?(?:\.[a-z_]+(?:\[\d+\])?)*): (?P<problem>.+)", re.DOTALL
)
INPUT_INDEX = re.compile(
    r"(?:(?<=^inputs\[)|(?<=^passages\[)|(?<=^evidence\[\d\]\.spans\[)"
    r"|(?<=^outputs\.spans\.given\.inputs\[))\d+(?=\])"
)


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
    return make_error(code, message, retry_after_seconds(call.trailing_metadata()), first_input)


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
    )


def make_error(
    code: grpc.StatusCode, message: str, retry_after: float | None, first_input: int
) -> HeadlightError:
    """Return the error of a status. Its message is on one line, without control characters."""
    message, error_class = shortened(escaped(message)), ERROR_CLASSES.get(code)
    if error_class is InvalidInput:
        return invalid_input(message, first_input)
    if error_class is Overloaded and retry_after is None and TOO_LARGE in message:
        return InvalidInput("", f"{message}; send or ask for less at once")
    if error_class is Overloaded:
        return Overloaded(message or code.name, retry_after)
    if error_class is None:
        return HeadlightError(f"{code.name}: {message}" if message else code.name)
    return error_class(message or code.name)


def invalid_input(message: str, first_input: int) -> InvalidInput:
    """Split "inputs[3].text: is empty" into field and problem, and add `first_input` to 3.

    Callers see neither the split into calls nor `prompt_text`.
    """
    match = FIELD.fullmatch(message)
    if match is None:
        return InvalidInput("", message or "refused without a reason")
    field = INPUT_INDEX.sub(lambda index: str(int(index[0]) + first_input), match["field"])
    return in_arguments(field, match["problem"])


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

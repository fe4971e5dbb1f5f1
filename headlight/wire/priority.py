"""How soon an answer is wanted: between names and the numbers of the contract. Client and service use the same."""

from __future__ import annotations

from headlight.errors import InvalidInput
from headlight.pb import headlight_pb2 as pb
from headlight.spec import Priority
from headlight.wire.attention_codec import choice_number

NUMBERS: dict[str | None, pb.Priority] = {
    None: pb.PRIORITY_UNSPECIFIED,
    "interactive": pb.PRIORITY_INTERACTIVE,
    "bulk": pb.PRIORITY_BULK,
}
_NAMES: dict[int, Priority] = {
    pb.PRIORITY_UNSPECIFIED: "interactive",
    pb.PRIORITY_INTERACTIVE: "interactive",
    pb.PRIORITY_BULK: "bulk",
}


def to_priority(name: Priority | None) -> pb.Priority:
    """The contract's number for a name; None: whatever the server does. Raises InvalidInput for any other value."""
    return choice_number("priority", NUMBERS, name)


def priority_of(number: int) -> Priority:
    """The name for a number that came. Raises InvalidInput for one that this side does not know."""
    if number not in _NAMES:
        raise InvalidInput("priority", f"{number} is none that this server knows; see enum Priority, or leave it out")
    return _NAMES[number]

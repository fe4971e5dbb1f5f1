"""Limits on the JSON of a body, checked before it becomes objects.

4 MiB of `[1],` are a million lists of 330 bytes each. Bodies are therefore measured as bytes first.
The limits admit `--max-items` inputs with all their options, and `--max-request-tokens` ids. Longer
lists of ids need gRPC, which has them as numbers.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import orjson

from headlight.description import Limits
from headlight.errors import InvalidInput, Reason

NESTING = 32  # levels; the deepest request has 8
# Lists and objects of one input (itself, its ids, its segments, its mask), and at least of other
# lists, as of spans.
LISTS_PER_ITEM, LEAST_LISTS = 4, 40_000
VALUES_PER_ITEM, VALUES_PER_TOKEN = 64, 16
BLOCK_BYTES = 1 << 17
QUOTE, COMMA = ord('"'), ord(",")
LONE_SURROGATE = re.compile(rb"\xed[\xa0-\xbf]")  # as some programs write it in UTF-8
LEVELS = np.zeros(256, np.int8)  # change of the nesting level
LEVELS[[*b"[{"]], LEVELS[[*b"]}"]] = 1, -1


class JsonSize(NamedTuple):
    """What a body has, or may have.

    Attributes:
        values: numbers, strings, literals, lists and objects.
        lists: lists and objects.
        nesting: levels of lists and objects.
    """

    values: int
    lists: int
    nesting: int


def limits_of(limits: Limits) -> JsonSize:
    """Return the limits of bodies for these limits of models."""
    return JsonSize(
        VALUES_PER_ITEM * limits.max_items + VALUES_PER_TOKEN * limits.max_request_tokens,
        max(LISTS_PER_ITEM * limits.max_items, LEAST_LISTS),
        NESTING,
    )


def measure(body: bytes) -> JsonSize:
    """Return what a body has, without parsing it; of broken JSON, at least what is valid."""
    if b"\\" in body:  # only strings have it
        body = body.replace(b"\\\\", b"  ").replace(b'\\"', b"  ")
    data = np.frombuffer(body, np.uint8)
    values, lists, level, nesting, inside = 1, 0, 0, 0, 0
    for begin in range(0, len(data), BLOCK_BYTES):
        block = data[begin : begin + BLOCK_BYTES]
        within = np.bitwise_xor.accumulate((block == QUOTE).view(np.uint8))
        outside = block[within == inside]
        inside ^= int(within[-1])
        steps = LEVELS[outside]
        levels = np.cumsum(steps, dtype=np.int32)
        if len(levels):
            nesting = max(nesting, level + int(levels.max()))
            level += int(levels[-1])
        lists += int(np.count_nonzero(steps == 1))
        values += int(np.count_nonzero(outside == COMMA))
    return JsonSize(values + lists, lists, nesting)


def parse(body: bytes, limits: JsonSize) -> Any:
    """Return the value of a body.

    Raises:
        InvalidInput: it has more than the limits allow, or is not JSON.
    """
    if len(body) > limits.lists:  # a shorter one cannot have so many
        size = measure(body)
        if size.nesting > limits.nesting:
            raise InvalidInput("", Reason.BODY_NESTING, levels=size.nesting, most=limits.nesting)
        for number, most, reason in (
            (size.lists, limits.lists, Reason.BODY_LISTS),
            (size.values, limits.values, Reason.BODY_VALUES),
        ):
            if number > most:
                raise InvalidInput("", reason, count=number, most=most)
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise _syntax_problem(body, error) from None


def _syntax_problem(body: bytes, error: orjson.JSONDecodeError) -> InvalidInput:
    """Return what is wrong with a body that orjson does not parse, and where."""
    where, surrogate = f"line {error.lineno}, column {error.colno}", "surrogate in" in error.msg
    try:
        body.decode()
    except UnicodeDecodeError as invalid:
        where = f"byte {invalid.start}"
        surrogate = LONE_SURROGATE.match(body, invalid.start) is not None
        if not surrogate:
            return InvalidInput("", Reason.BODY_NOT_UTF8, where=where)
    reason = Reason.BODY_SURROGATE if surrogate else Reason.BODY_NO_JSON
    return InvalidInput("", reason, where=where)

"""Whether two answers say the same: all words and whole numbers; measured numbers nearly."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

# Durations, delays, names of one request, and digests of weights that each machine exports.
VOLATILE = {
    *("timings", "request_id", "retry_after_ms", "retry_delay", "error_id"),
    *("bundle_sha256", "sha256", "model_sha"),
}
NANOSECONDS = re.compile(r"\w+_ns")
NUMBERS = {
    "DATA_TYPE_FLOAT32": ("<f4", 1e-4),
    "DATA_TYPE_FLOAT16": ("<f2", 2e-2),
    "DATA_TYPE_UINT8": ("u1", 1.0),
    "DATA_TYPE_INT8": ("i1", 1.0),
    "DATA_TYPE_UINT16": ("<u2", 0.0),
}
BITS = ("DATA_TYPE_BINARY", "DATA_TYPE_UBINARY")
FLIPPED = 4  # signs of a vector: numbers next to 0 may fall on either side
NEAR = 1e-4
DECIMAL = re.compile(r"(-?\d+\.\d+(?:e-?\d+)?)")
SHED = ("RESOURCE_EXHAUSTED", 429)


def differences(then: Any, now: Any) -> list[str]:
    """Return what differs, a line for each, by its place in the answer."""
    if isinstance(then, dict) and (then.get("code") in SHED or then.get("status") in SHED):
        then, now = _without_digits(then), _without_digits(now)
    return [*_differences(then, now, "answer", {})]


def _differences(then: Any, now: Any, place: str, beside: dict[str, Any]) -> Iterator[str]:
    if isinstance(then, dict) and isinstance(now, dict):
        yield from _of_objects(then, now, place)
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for at, (one, other) in enumerate(zip(then, now, strict=True)):
            yield from _differences(one, other, f"{place}[{at}]", beside)
    elif not _same(then, now, beside):
        yield f"{place}: {_short(then)} was recorded, and is {_short(now)} now"


def _of_objects(then: dict[str, Any], now: dict[str, Any], place: str) -> Iterator[str]:
    for name in sorted(then.keys() | now.keys()):
        if name not in now or name not in then:
            yield f"{place}.{name}: is only {'recorded' if name in then else 'answered now'}"
        elif name not in VOLATILE and not NANOSECONDS.fullmatch(name):
            yield from _differences(then[name], now[name], f"{place}.{name}", then)


def _same(then: Any, now: Any, beside: dict[str, Any]) -> bool:
    if then == now and type(then) is type(now):
        return True
    if isinstance(then, str) and isinstance(now, str):
        return _same_data(then, now, beside) or _same_text(then, now)
    if isinstance(then, float) and isinstance(now, int | float):
        return abs(then - now) <= NEAR
    return False


def _same_data(then: str, now: str, beside: dict[str, Any]) -> bool:
    """Return whether two texts are the bytes of nearly the same numbers, in base64."""
    try:
        one, other = (base64.b64decode(each, validate=True) for each in (then, now))
    except binascii.Error:
        return False
    if len(one) != len(other) or len(one) % 4:
        return False
    dtype = str(beside.get("dtype", "DATA_TYPE_FLOAT32"))
    if dtype in BITS:
        flipped = np.frombuffer(one, "u1") ^ np.frombuffer(other, "u1")
        return int(np.unpackbits(flipped).sum()) <= FLIPPED
    form, near = NUMBERS[dtype]
    numbers, others = (np.frombuffer(each, form).astype("f8") for each in (one, other))
    return np.allclose(numbers, others, rtol=0, atol=near)


def _same_text(then: str, now: str) -> bool:
    """Return whether two texts differ at most in the last digit of their decimal fractions."""
    one, other = DECIMAL.split(then), DECIMAL.split(now)
    if one[::2] != other[::2]:
        return False
    return all(
        abs(float(a) - float(b)) <= max(NEAR, 1.01 * 10.0 ** -len(a.partition(".")[2]))
        for a, b in zip(one[1::2], other[1::2], strict=True)
    )


def _without_digits(said: Any) -> Any:
    if isinstance(said, dict):
        return {name: _without_digits(value) for name, value in said.items()}
    if isinstance(said, list):
        return [_without_digits(each) for each in said]
    return re.sub(r"\d+(\.\d+)?", "#", said) if isinstance(said, str) else said


def _short(value: Any) -> str:
    said = repr(value)
    return said if len(said) <= 300 else said[:300] + "…"

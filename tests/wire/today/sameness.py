"""Comparison of two answers: words and whole numbers exactly, measured numbers nearly."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

# Durations, delays, names of one request, and digests of weights that each machine exports: only
# their form is compared.
HEX, WHOLE = re.compile(r"[0-9a-f]{12,64}"), re.compile(r"\d+")
VOLATILE = {
    **dict.fromkeys(("bundle_sha256", "sha256", "model_sha", "request_id", "id"), HEX),
    **dict.fromkeys(("retry_after_ms", "retry-after", "retry-after-ms"), WHOLE),
    "retry_delay": re.compile(r"[\d.]+s"),
    "wait": re.compile(r"[\d.e+]+"),
}
NANOSECONDS = re.compile(r"\w+_ns")
WAIT = re.compile(r"wait [\d.e+]+ s")
DATA = ("data", "embedding", "raw_output_contents")  # fields of bytes, in base64
# NumPy's type of elements, and how far apart two may be: absolute, and relative.
FORMS = {
    **dict.fromkeys(("FLOAT32", "FP32"), ("<f4", 1e-4, 1e-5)),
    **dict.fromkeys(("FLOAT16", "FP16"), ("<f2", 1e-3, 2e-3)),
    "UINT8": ("u1", 1, 0),
    "INT8": ("i1", 1, 0),
    "UINT16": ("<u2", 0, 0),
    "INT32": ("<i4", 0, 0),
    "INT64": ("<i8", 0, 0),
}
BITS = ("BINARY", "UBINARY")
FLIPPED = 4  # signs of a vector: numbers next to 0 may fall on either side
NEAR = 1e-4
DECIMAL = re.compile(r"(-?\d+\.\d+(?:e[-+]?\d+)?)")


def settled(said: Any, name: str = "") -> Any:
    """Return an answer with the same words for all that differs from one call to the next.

    So a new recording differs only where the answers do. A value without its usual form stays.

    Args:
        said: the answer, or a part of it.
        name: of that part.
    """
    if name == "timings":
        return type(said)()
    if isinstance(said, dict):
        return {
            key: settled(value, name if name in VOLATILE else key) for key, value in said.items()
        }
    if isinstance(said, list):
        return [settled(each, name) for each in said]
    form = WHOLE if NANOSECONDS.fullmatch(name) else VOLATILE.get(name)
    if form and form.fullmatch(str(said)):
        return type(said)(1)
    return WAIT.sub("wait 1 s", said) if isinstance(said, str) else said


def differences(then: Any, now: Any) -> list[str]:
    """Return what differs, a line for each, by its place in the answer."""
    return [*_differences(settled(then), settled(now), "answer", "")]


def _differences(then: Any, now: Any, place: str, dtype: str) -> Iterator[str]:
    if isinstance(then, dict) and isinstance(now, dict):
        yield from _of_objects(then, now, place)
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for at, (one, other) in enumerate(zip(then, now, strict=True)):
            yield from _differences(one, other, f"{place}[{at}]", dtype)
    elif not _same(then, now, dtype):
        yield f"{place}: {_short(then)} was recorded, and is {_short(now)} now"


def _of_objects(then: dict[str, Any], now: dict[str, Any], place: str) -> Iterator[str]:
    for name in sorted(then.keys() | now.keys()):
        if name not in now or name not in then:
            yield f"{place}.{name}: is only {'recorded' if name in then else 'answered now'}"
        elif name == "raw_output_contents":  # of the outputs beside them, in their order
            for at, output in enumerate(then["outputs"]):
                one, other = then[name][at], now[name][at]
                yield from _differences(one, other, f"{place}.{name}[{at}]", output["datatype"])
        else:
            dtype = str(then.get("dtype", "FLOAT32")).removeprefix("DATA_TYPE_")
            yield from _differences(
                then[name], now[name], f"{place}.{name}", dtype if name in DATA else ""
            )


def _same(then: Any, now: Any, dtype: str) -> bool:
    if then == now and type(then) is type(now):
        return True
    if isinstance(then, str) and isinstance(now, str):
        return _same_data(then, now, dtype) if dtype else _same_text(then, now)
    if isinstance(then, float) and isinstance(now, int | float):
        return abs(then - now) <= max(NEAR, 1e-5 * abs(then))
    return False


def _same_data(then: str, now: str, dtype: str) -> bool:
    """Return whether two texts are the bytes of nearly the same numbers, in base64."""
    try:
        one, other = (base64.b64decode(each, validate=True) for each in (then, now))
    except binascii.Error:
        return False
    if len(one) != len(other):
        return False
    if dtype in BITS:
        flipped = np.frombuffer(one, "u1") ^ np.frombuffer(other, "u1")
        return int(np.unpackbits(flipped).sum()) <= FLIPPED
    form, near, share = FORMS[dtype]
    numbers, others = (np.frombuffer(each, form).astype("f8") for each in (one, other))
    return np.allclose(numbers, others, rtol=share, atol=near)


def _same_text(then: str, now: str) -> bool:
    """Return whether two texts differ at most in the last digit of their decimal fractions."""
    one, other = DECIMAL.split(then), DECIMAL.split(now)
    if one[::2] != other[::2]:
        return False
    return all(
        abs(float(a) - float(b)) <= max(NEAR, 1.01 * 10.0 ** -len(a.partition(".")[2]))
        for a, b in zip(one[1::2], other[1::2], strict=True)
    )


def _short(value: Any) -> str:
    said = repr(value)
    return said if len(said) <= 300 else said[:300] + "…"

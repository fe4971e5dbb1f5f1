"""Checks of an answer's numbers: finite, weights in range, vectors of unit length."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headlight.errors import BadAnswer
from headlight.outputs.contract import malformed, require
from headlight.spec import STATISTICS, AttentionSpec

# "finite": any number; "unit": vectors of length 1; "rows": weights whose rows sum to 1;
# "parts": weights whose rows sum to at most 1; "largest": weights whose rows have any sum;
# "positive": sums of weights; "scores": before the softmax, -inf for a masked key; "scales": of
# uint8.
Kind = Literal[
    "finite", "unit", "rows", "parts", "largest", "positive", "scores", "scales", "statistics"
]
ROW_TOLERANCE = 1e-3  # of the sum of a row; float16 rounds each weight by 5e-4 of itself at most
# Added for each key: float16 rounds weights below 6e-5 by up to 2^-25, and the sums are computed in
# float32.
KEY_TOLERANCE = 2.0**-24
# By the precision of the computation: bfloat16 rounds each weight by up to 4e-3 of itself.
ROW_TOLERANCES = {"bf16": 8e-3}
# Of a vector's length; vectors are scaled in float32 and may then become float16.
UNIT_TOLERANCE = 1e-3
INTEGERS = ("i", "u")  # kinds of NumPy types that hold no NaN
BLOCK = 2**16  # numbers converted at a time: they fit into a core's cache
FLOAT_BYTES, HALF_INFINITY = 4, 0x7C00


def kind_of_attention(spec: AttentionSpec) -> Kind:
    """Return the kind of the numbers of a spec."""
    if spec.scores:
        return "scores"
    if "statistics" in spec.reduce:
        return "statistics"
    if spec.reduction("heads") == "head_max" and spec.reduction("layers") != "rollout":
        return "largest" if spec.unit == "token" else "positive"  # a sum of columns may exceed 1
    # A row may lose the weight of unselected keys. If special tokens are dropped, a row without
    # other weight is 0.
    partly = (
        spec.keys != "all" or spec.top_k is not None or spec.unit == "span" or spec.drop_special
    )
    return "parts" if partly else "rows"


def check_numbers(output: str, numbers: NDArray[Any], kind: Kind, precision: str) -> None:
    """Check the numbers of one output of one input.

    Args:
        output: name of the output, for the message.
        numbers: numbers in the axes of the output; the last is a row.
        kind: the kind that they must be.
        precision: precision of the computation.

    Raises:
        BadAnswer: one does not fit the kind.
    """
    # A block, not a decorator: with that, NumPy 1.26 shares one state among threads.
    with np.errstate(all="ignore"):  # the checks look for overflow and NaN
        _check(output, numbers, kind, precision)


def _check(output: str, numbers: NDArray[Any], kind: Kind, precision: str) -> None:
    if numbers.dtype.kind in INTEGERS:
        return
    if kind in ("rows", "parts", "largest"):
        check_weights(output, numbers, kind, ROW_TOLERANCES.get(precision, ROW_TOLERANCE))
        return
    if kind == "statistics":
        known = numbers[..., [name != "special" for name in STATISTICS]]  # NaN for inputs of ids
        good = is_finite(known) and not np.isinf(numbers).any()
    else:
        good = bool((numbers < np.inf).all()) if kind == "scores" else is_finite(numbers)
    if not good:
        raise not_finite(output, numbers)
    if kind == "unit":
        check_unit(output, numbers)
    elif kind in ("scales", "positive"):
        require(numbers.min() >= 0, f"{output} has {numbers.min():.4g}, and none is below 0")
        small = kind == "positive" or numbers.max() <= 1 / 255 + ROW_TOLERANCE
        require(small, f"{output} has a scale of {numbers.max():.4g}, and weights are from 0 to 1")


def check_weights(output: str, numbers: NDArray[Any], kind: Kind, tolerance: float) -> None:
    """Raise BadAnswer unless numbers are from 0 to 1, and rows sum to 1 ("parts": to at most 1)."""
    rows = numbers.reshape(-1, numbers.shape[-1])
    top = numbers.dtype.type(1 + tolerance)
    # As integers, floats from 0 to `top` are the smallest: negative numbers, infinity and NaN are
    # larger.
    bits = np.dtype(f"u{rows.itemsize}")
    if rows.view(bits).max() > top.view(bits):
        if not is_finite(rows):
            raise not_finite(output, numbers)
        least, most = float(rows.min()), float(rows.max())
        if least < 0 or most > top:  # -0 is allowed
            wrong = least if least < 0 else most
            raise malformed(f"{output} has a weight of {wrong:.4g}, and weights are from 0 to 1")
    if kind == "largest":
        return
    sums = np.einsum("ij->i", rows) if rows.itemsize == FLOAT_BYTES else half_sums(rows)
    tolerance += KEY_TOLERANCE * rows.shape[1]
    low, high = float(sums.min()), float(sums.max())
    if high > 1 + tolerance or (kind == "rows" and low < 1 - tolerance):
        wrong, bound = (
            (high if high > 1 + tolerance else low),
            "at most " if kind == "parts" else "",
        )
        raise malformed(
            f"{output} has a row that sums to {wrong:.6g}, not {bound}1 ± {tolerance:.3g}"
        )


def half_sums(rows: NDArray[Any]) -> NDArray[np.float32]:
    """Return the sums of rows of non-negative float16.

    Their bits, shifted and read as float32, are the same numbers divided by 2^112. NumPy's
    conversion takes ten times as long.
    """
    sums = np.empty(len(rows), np.float32)
    step = max(1, BLOCK // rows.shape[1])
    for begin in range(0, len(rows), step):
        bits = rows[begin : begin + step].view(np.uint16).astype(np.uint32)
        bits &= 0x7FFF  # sign of -0.0; weights below 0 are refused before
        bits <<= 13
        sums[begin : begin + step] = np.einsum("ij->i", bits.view(np.float32))
    return sums * np.float32(2.0**112)


def check_unit(output: str, vectors: NDArray[Any]) -> None:
    """Raise BadAnswer unless each vector is finite and has the length 1."""
    rows = vectors.reshape(-1, vectors.shape[-1]).astype(np.float32, copy=False)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    wrong = lengths[np.abs(lengths - 1) > UNIT_TOLERANCE]
    if len(wrong):
        farthest = float(wrong[np.abs(wrong - 1).argmax()])
        raise malformed(
            f"{output} has a vector of length {farthest:.6g}, and unit length was requested"
        )


def is_finite(numbers: NDArray[Any]) -> bool:
    """Return whether no number is NaN or infinite."""
    if numbers.itemsize == FLOAT_BYTES:
        return bool(np.isfinite(numbers).all())
    return bool(
        (np.ascontiguousarray(numbers).view(np.uint16) & 0x7FFF).max(initial=0) < HALF_INFINITY
    )


def not_finite(output: str, numbers: NDArray[Any]) -> BadAnswer:
    """Return the error for NaN or infinity."""
    wrong = numbers[~np.isfinite(numbers)]
    if numbers.dtype == np.float16 and not np.isnan(wrong).any():
        return BadAnswer(
            f"{output} has {len(wrong)} values beyond 65504, the largest of float16; "
            "ask for float32"
        )
    return malformed(
        f"{output} has {len(wrong)} numbers that are NaN or infinite "
        f"({wrong[0] if len(wrong) else 'overflow'})"
    )

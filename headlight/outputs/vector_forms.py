"""Pooled and token vectors in the requested form: cut, scaled to unit length, in fewer bytes.

The engine cuts and scales in float32. Conversion to other types happens when the response is built
(`as_types`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headlight.errors import InvalidInput, Reason
from headlight.spec import (
    VECTOR_BITS,
    PooledSpec,
    TokensSpec,
    VectorType,
    check_dimensions,
    check_name,
)

if TYPE_CHECKING:
    from headlight.runtime.values import Array, Floats

POOLED, TOKENS = "outputs.pooled", "outputs.tokens"
ZEROS = "a vector of zeros has no unit length"
TINIEST = 1e-12  # a shorter vector is not scaled to unit length: PyTorch's bound; zeros stay zeros
BLOCK = 1 << 16  # numbers converted at a time; they fit into a core's cache
NORMAL, SUBNORMAL = np.float32(2**-126), np.float32(2**-149)  # the smallest float32 of each kind
SMALLEST_NORMAL = np.uint32(0x38800000)  # 2^-14 as float32: below, float16 loses digits
# 112 << 23, the distance of the exponents, less half of a last digit, for rounding.
REBIAS = np.uint32(0x37FFF001)
ONE, SIGN, SHIFT, SIGN_SHIFT = np.uint32(1), np.uint32(0x80000000), np.uint32(13), np.uint32(16)


@dataclasses.dataclass(frozen=True, slots=True)
class VectorForm:
    """A resolved form of pooled vectors.

    Attributes:
        width: entries kept, from the first; None: all.
        unit: True to scale to unit length; None: as the model does.
        dtypes: the types of the result, at least one.
        ranges: float32 [2, width], the least and largest value of each dimension, if int8 is among
            `dtypes`.
    """

    width: int | None = None
    unit: bool | None = None
    dtypes: tuple[VectorType, ...] = ("float32",)
    ranges: Floats | None = dataclasses.field(default=None, compare=False, repr=False)


# Whole vectors in the model's own form.
AS_THEY_ARE, ALL_ROWS = VectorForm(), TokensSpec()


@dataclasses.dataclass(frozen=True, slots=True)
class AvailableForms:
    """The forms that a model's pooled vectors can have, and numbers for other vectors.

    Attributes:
        dim: entries of a vector.
        normalize: True if the model's vectors have unit length.
        ranges: ranges of int8, by width: float32 [2, width].
        query_terms: weight of each term in queries, float32 [vocabulary]; None: the model gives it.
    """

    dim: int
    normalize: bool
    ranges: Mapping[int, Floats] = dataclasses.field(default_factory=dict)
    query_terms: Floats | None = dataclasses.field(default=None, compare=False, repr=False)

    @property
    def dtypes(self) -> tuple[VectorType, ...]:
        """The types that are available in some width."""
        kinds: tuple[VectorType, ...] = ("float32", "float16")
        kinds += ("int8",) if self.ranges else ()
        return (*kinds, "binary", "ubinary") if self.dim >= 8 else kinds


def resolve_pooled(spec: PooledSpec, forms: AvailableForms) -> VectorForm:
    """Resolve and check a spec of pooled vectors against a model.

    Raises:
        InvalidInput: naming the field and the remedy.
    """
    if spec == PooledSpec():
        return AS_THEY_ARE
    width = forms.dim if spec.dimensions is None else spec.dimensions
    check_dimensions(width, forms.dim)
    unit = forms.normalize if spec.normalize is None else spec.normalize
    dtypes = spec.dtypes or ("float32",)
    for dtype in dtypes:
        check_name(f"{POOLED}.dtypes", dtype, VECTOR_BITS)
    if len(set(dtypes)) != len(dtypes):
        raise InvalidInput(f"{POOLED}.dtypes", Reason.TWICE_AMONG, names=", ".join(dtypes))
    for dtype in dtypes:
        if VECTOR_BITS[dtype] == 1 and width % 8:
            raise InvalidInput(
                f"{POOLED}.dimensions", Reason.NOT_A_MULTIPLE, width=width, dtype=dtype
            )
    if "int8" not in dtypes:
        return VectorForm(width, unit, dtypes)
    if unit != forms.normalize:
        as_usual = "normalised" if forms.normalize else "not normalised"
        raise InvalidInput(f"{POOLED}.normalize", Reason.INT8_CALIBRATED, form=as_usual)
    if width not in forms.ranges:
        have = f"those of {', '.join(map(str, sorted(forms.ranges)))}" if forms.ranges else "none"
        raise InvalidInput(f"{POOLED}.dtypes", Reason.INT8_RANGES, width=width, have=have)
    return VectorForm(width, unit, dtypes, forms.ranges[width])


def unit_length(vectors: Floats) -> Floats:
    """Scale float32 [..., D] to length 1; zeros stay zeros.

    A row's result does not depend on the others.
    """
    lengths = np.sqrt(np.square(vectors, dtype=np.float64).sum(axis=-1, keepdims=True))
    scaled: Floats = (vectors / np.maximum(lengths, TINIEST)).astype(np.float32)
    return scaled


def shape_pooled(
    whole: Floats, forms: Sequence[VectorForm | None], normalize: bool
) -> list[Floats | None]:
    """Cut and scale a batch's pooled vectors for each item.

    Args:
        whole: float32 [B, pooled_dim].
        forms: the form for each item; None: no vector.
        normalize: True if vectors have unit length unless an item requests otherwise.

    Returns:
        float32 [width] for each item, with memory of its own.
    """
    first = forms[0]
    if first is not None and forms.count(first) == len(forms):  # the usual case
        return [one.copy() for one in _shaped(whole, first, normalize)]
    shaped: list[Floats | None] = [None] * len(forms)
    for vector in {each for each in forms if each is not None}:
        rows = [row for row, each in enumerate(forms) if each == vector]
        for row, one in zip(rows, _shaped(whole[rows], vector, normalize), strict=True):
            shaped[row] = one.copy()
    return shaped


def _shaped(whole: Floats, vector: VectorForm, normalize: bool) -> Floats:
    """Cut and scale vectors float32 [N, pooled_dim]."""
    part: Floats = whole[:, : vector.width]
    return unit_length(part) if (normalize if vector.unit is None else vector.unit) else part


def shape_rows(tokens: Floats, rows: TokensSpec) -> Array:
    """Scale token vectors float32 [m, D] and convert their type, into memory of their own."""
    if rows.dtype == "float16":
        return halve(unit_length(tokens) if rows.normalize else tokens)
    return unit_length(tokens) if rows.normalize else tokens.copy()


def as_types(vectors: Floats, vector: VectorForm) -> dict[VectorType, Array]:
    """Convert vectors float32 [..., width] to each requested type, in that order.

    See DataType in the contract.
    """
    return {dtype: as_type(vectors, dtype, vector.ranges) for dtype in vector.dtypes}


def as_type(vectors: Floats, dtype: VectorType, ranges: Floats | None = None) -> Array:
    """Convert vectors float32 [..., width] to one type.

    Bits become [..., width / 8] bytes, other types [..., width] numbers, as by
    sentence-transformers' quantize_embeddings.

    Args:
        vectors: not NaN.
        dtype: float16 is infinite for numbers beyond its range.
        ranges: float32 [2, width], for int8.
    """
    if dtype == "ubinary":
        return np.packbits(vectors > 0, axis=-1)
    if dtype == "binary":
        # Less 128, as signed bytes.
        return (np.packbits(vectors > 0, axis=-1) ^ np.uint8(128)).view(np.int8)
    if dtype == "int8":
        return _in_steps(vectors, ranges)
    return halve(vectors) if dtype == "float16" else vectors


def _in_steps(vectors: Floats, ranges: Floats | None) -> Array:
    if ranges is None:
        raise RuntimeError("int8 was promised without ranges. This is a bug.")
    least = ranges[0]
    steps = (ranges[1] - least) / np.float32(255)
    steps = np.where(steps == 0, np.float32(1), steps)
    with np.errstate(over="ignore"):  # far beyond a very narrow range: clipped to the last step
        counted: Array = np.clip(np.floor((vectors - least) / steps), 0, 255)
    return (counted - 128).astype(np.int8)


def quantise(rows: Floats) -> tuple[NDArray[np.uint8], Floats]:
    """Convert float32 [..., n], none negative, to uint8 [..., n] and scales float32 [...].

    Each number is within half a scale of its uint8 value. A row's largest entry is 255 scales. It
    is fewer if the entry is below 255 times the smallest normal number. The scale is then rounded
    up to a subnormal: rounded down, the entry would not fit a byte.
    """
    largest = rows.max(axis=-1)
    scales = np.asarray(largest / np.float32(255))
    short = (scales < NORMAL) & (np.minimum(scales, NORMAL) * np.float32(255) < largest)
    scales[short] += SUBNORMAL
    steps = np.where(scales > 0, scales, np.float32(1))[..., None]
    return np.rint(rows / steps).astype(np.uint8), scales


def halve(numbers: Floats) -> NDArray[np.float16]:
    """Convert float32 to float16, rounded to the nearest, ties to even, as `astype` does.

    Numbers beyond its range become infinite. `astype` takes 50 ns for each number below the normal
    float16 range, ten times as long as this. In sharp attention most numbers are so small.
    """
    flat = np.ascontiguousarray(numbers).reshape(-1)
    halves = np.empty(flat.shape, dtype=np.float16)
    for begin in range(0, len(flat), BLOCK):
        halves[begin : begin + BLOCK] = _halve(flat[begin : begin + BLOCK])
    return halves.reshape(numbers.shape)


def _halve(block: Floats) -> NDArray[np.float16]:
    if not np.abs(block).max(initial=0) < 65504:
        with np.errstate(over="ignore"):
            return block.astype(np.float16)
    bits = block.view(np.uint32)
    magnitudes = bits & ~SIGN
    normal = (magnitudes - REBIAS + ((magnitudes >> SHIFT) & ONE)) >> SHIFT
    # Number of subnormal steps, clipped: larger numbers take `normal`, and would overflow 32 bits.
    small = np.rint(np.minimum(np.abs(block), np.float32(1)) * np.float32(2**24)).astype(np.uint32)
    halves = np.where(magnitudes < SMALLEST_NORMAL, small, normal) | ((bits & SIGN) >> SIGN_SHIFT)
    as_float: NDArray[np.float16] = halves.astype(np.uint16).view(np.float16)
    return as_float

"""Decoding of input tensors: texts as BYTES, or padded ids with their mask."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from headlight.errors import InvalidInput, Reason
from headlight.runtime.tokenization.input_checks import not_taken
from headlight.runtime.values import Ids
from headlight_service.core.models import ServedModel
from headlight_service.core.requests.request import Input, Pair, TokenIds
from headlight_service.frontends.oip import inference_messages as oip
from headlight_service.frontends.oip.model_views import IDS, MASK, SEGMENTS
from headlight_service.frontends.oip.request_parameters import ENCODE

LENGTH_BYTES = 4  # before each element of a BYTES tensor, little-endian
ID_TYPES = {"INT64": "<i8", "INT32": "<i4"}
ID_TENSORS = (IDS, MASK, SEGMENTS)
MOST_TENSORS = len(ID_TENSORS)
PLAIN_NAME = re.compile(r"[A-Za-z_][\w.-]{0,63}", re.ASCII)


class _Input(NamedTuple):
    """One tensor of a request.

    Attributes:
        field: names it in errors.
        raw: its elements as bytes; None: they are typed.
    """

    field: str
    tensor: oip.ModelInferRequest.InferInputTensor
    raw: bytes | None


def field_of(name: str, place: int = 0) -> str:
    """Return how errors name an input tensor: by its name, if it is plain."""
    return name if PLAIN_NAME.fullmatch(name) else f"inputs[{place}]"


def decode_inputs(request: oip.ModelInferRequest, model: ServedModel) -> list[Input]:
    """Return the texts or ids of a request.

    Raises:
        InvalidInput: names the tensor and the remedy.
    """
    inputs = _inputs(request)
    names = {each.tensor.name for each in inputs}
    if len(names) != len(inputs):
        raise InvalidInput("inputs", Reason.TENSOR_TWICE)
    if len(inputs) == 1 and inputs[0].tensor.datatype == "BYTES":
        shape, (each, *_) = inputs[0].tensor.shape, inputs
        if "pair" in model.accepts and len(shape) == 2 and shape[1] == 2:
            texts = _texts(each, model, 2)
            return [Pair(*pair) for pair in zip(texts[::2], texts[1::2], strict=True)]
        _check_kind(each.field, "text", model)
        return list(_texts(each, model))
    for each in inputs:
        if each.tensor.name not in ID_TENSORS:
            raise InvalidInput(
                each.field, Reason.NO_SUCH_INPUT, names=", ".join(ID_TENSORS), method=ENCODE
            )
    if IDS not in names:
        raise InvalidInput("inputs", Reason.NO_TENSOR, ids=IDS)
    _check_kind(IDS, "ids", model)
    return _ids({each.tensor.name: each for each in inputs}, model)


def _check_kind(field: str, kind: str, model: ServedModel) -> None:
    if kind not in model.accepts:
        raise not_taken(field, model.accepts)


def _inputs(request: oip.ModelInferRequest) -> list[_Input]:
    tensors, raw = request.inputs, request.raw_input_contents
    if not 1 <= len(tensors) <= MOST_TENSORS:
        raise InvalidInput("inputs", Reason.TENSORS, count=len(tensors), ids=IDS, mask=MASK)
    if raw and len(raw) != len(tensors):
        raise InvalidInput(
            "raw_input_contents", Reason.RAW_ENTRIES, count=len(raw), inputs=len(tensors)
        )
    inputs = list[_Input]()
    for place, tensor in enumerate(tensors):
        field = field_of(tensor.name, place)
        if "shared_memory_region" in tensor.parameters:
            raise InvalidInput(field, Reason.SHARED_MEMORY)
        if raw and tensor.HasField("contents"):
            raise InvalidInput(field, Reason.CONTENTS_TWICE)
        inputs.append(_Input(field, tensor, raw[place] if raw else None))
    return inputs


def _texts(each: _Input, model: ServedModel, width: int = 1) -> Sequence[str]:
    """Return the texts of a tensor, `width` of each row."""
    shape = each.tensor.shape
    if not (len(shape) == 1 or (len(shape) == 2 and shape[1] == width)):
        raise InvalidInput(each.field, Reason.SHAPE_OF_TEXTS, shape=_shown(shape))
    _check_count(each.field, shape[0], model)
    count = shape[0] * width
    if each.raw is None:
        _check_typed(each, "bytes_contents", count)
        elements: Sequence[bytes] = each.tensor.contents.bytes_contents
    else:
        elements = _elements(each.field, each.raw, count)
    texts = list[str]()
    for place, element in enumerate(elements):
        try:
            texts.append(element.decode())
        except UnicodeDecodeError:
            raise InvalidInput(f"{each.field}[{place // width}]", Reason.NOT_UTF8) from None
    return texts


def _elements(field: str, raw: bytes, count: int) -> list[bytes]:
    """Cut a BYTES tensor into its elements."""
    elements, at = list[bytes](), 0
    for place in range(count):
        begin = at + LENGTH_BYTES
        at = begin + int.from_bytes(raw[at:begin], "little")
        if at > len(raw) or begin > len(raw):
            raise InvalidInput(f"{field}[{place}]", Reason.TENSOR_ENDS, count=len(raw))
        elements.append(raw[begin:at])
    if at != len(raw):
        raise InvalidInput(field, Reason.BYTES_BEHIND, size=len(raw) - at, count=count)
    return elements


def _ids(named: dict[str, _Input], model: ServedModel) -> list[Input]:
    """Return the ids of each row whose mask is 1."""
    shape = named[IDS].tensor.shape
    if len(shape) != 2:
        raise InvalidInput(IDS, Reason.SHAPE_OF_IDS, shape=_shown(shape))
    _check_count(IDS, shape[0], model)
    arrays = {name: _array(each, shape) for name, each in named.items()}
    ids, mask = arrays[IDS], arrays.get(MASK)
    starts = np.zeros(len(ids), dtype=np.int64)
    ends = np.full(len(ids), ids.shape[1])
    if mask is not None:
        starts, ends = _ranges(mask)
    counts = ends - starts
    for row in np.flatnonzero((counts < 1) | (counts > model.max_length)).tolist():
        raise InvalidInput(f"{IDS}[{row}]", Reason.IDS, count=counts[row], most=model.max_length)
    segments = arrays.get(SEGMENTS)
    rows = list[Input]()
    for row, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        rows.append(
            TokenIds(
                array("q", ids[row, start:end].tobytes()),
                array("q", b"" if segments is None else segments[row, start:end].tobytes()),
            )
        )
    return rows


def _ranges(mask: Ids) -> tuple[Ids, Ids]:
    """Return the first token of each row, and the end: int64 [N]. Raises InvalidInput: a gap."""
    wrong = (mask != 0) & (mask != 1)
    lengths = mask.sum(axis=1)
    starts = mask.argmax(axis=1) if mask.shape[1] else lengths
    places = np.arange(mask.shape[1])
    inside = (places >= starts[:, None]) & (places < (starts + lengths)[:, None])
    for row in np.flatnonzero((wrong | (inside != (mask == 1))).any(axis=1)).tolist():
        raise InvalidInput(f"{MASK}[{row}]", Reason.MASK_RUN)
    return starts, starts + lengths


def _array(each: _Input, expected: Sequence[int]) -> Ids:
    """Return a tensor of ids: int64 [N, T]. Raises InvalidInput: type, shape or size is wrong."""
    tensor, raw = each.tensor, each.raw
    kind = ID_TYPES.get(tensor.datatype)
    if kind is None:
        raise InvalidInput(each.field, Reason.TENSOR_TYPE, datatype=f"{tensor.datatype!r:.20}")
    if list(tensor.shape) != list(expected):
        raise InvalidInput(
            each.field,
            Reason.SHAPE_OF_TENSOR,
            shape=_shown(tensor.shape),
            expected=_shown(expected),
            ids=IDS,
        )
    count = math.prod(expected)
    if expected[1] < 0 or (raw is not None and len(raw) != count * np.dtype(kind).itemsize):
        raise InvalidInput(
            each.field,
            Reason.TENSOR_WITHOUT_BYTES if raw is None else Reason.TENSOR_BYTES,
            size=0 if raw is None else len(raw),
            datatype=tensor.datatype,
            shape=_shown(expected),
            itemsize=np.dtype(kind).itemsize,
        )
    if raw is None:
        name = "int64_contents" if tensor.datatype == "INT64" else "int_contents"
        _check_typed(each, name, count)
        flat = np.array(getattr(tensor.contents, name), dtype=np.int64)
    else:
        flat = np.frombuffer(raw, dtype=kind).astype(np.int64)
    return flat.reshape(tuple(expected))


def _check_typed(each: _Input, name: str, count: int) -> None:
    given = len(getattr(each.tensor.contents, name))
    if given != count:
        raise InvalidInput(each.field, Reason.TENSOR_CONTENTS, given=given, name=name, count=count)


def _check_count(field: str, count: int, model: ServedModel) -> None:
    most = model.limits.max_items
    if not 1 <= count <= most:
        raise InvalidInput(field, Reason.ROWS, count=count, most=most)


def _shown(shape: Sequence[int]) -> str:
    more = ", ..." if len(shape) > 4 else ""
    return f"[{', '.join(map(str, shape[:4]))}{more}]"

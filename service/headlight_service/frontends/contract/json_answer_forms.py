"""Answers as JSON: their sizes, and their text. Numbers are nested lists, or base64."""

from __future__ import annotations

import base64
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import orjson
from numpy.typing import NDArray

from headlight.errors import InvalidInput, Phrase, Reason
from headlight.outputs.output import Output
from headlight.pb import headlight_pb2 as pb
from headlight.results import ModelRef
from headlight.runtime.plans.occlude import OcclusionNumbers
from headlight.runtime.values import Ids
from headlight_service.core.requests.answer import Answer, Prepared
from headlight_service.frontends.contract.answer_encoding import (
    FLOAT,
    header,
    item_of,
    model_ref,
    raw,
)
from headlight_service.frontends.contract.json_encoding import json_value

NumberEncoding = Literal["list", "base64"]
ENCODING = "encoding"  # the member of a request that is not of the contract
PIECE_BYTES = 1 << 18  # of an array, written in about 2 ms
FRAMING_BYTES = 512  # at most: timings, and the names of the data of ten tensors
# Bytes of a number's binary form, and of its longest text with a comma: "-0.0000030398369,".
ITEM_BYTES: Mapping[str, tuple[int, int]] = {
    "float32": (4, 17),
    "float16": (2, 17),
    "uint8": (1, 4),
    "uint16": (2, 6),
    "uint32": (4, 11),
    "int8": (1, 5),
    "binary": (1, 5),
    "ubinary": (1, 4),
}


def number_encoding(value: object) -> NumberEncoding:
    """Return the encoding that a request names; None: lists. Raises InvalidInput."""
    if value is None or value == "list":
        return "list"
    if value == "base64":
        return "base64"
    raise InvalidInput(ENCODING, Reason.NO_ENCODING)


class JsonEncodeForm:
    """One answer of Encode as JSON. `overhead_bytes` makes its header."""

    _header: dict[str, Any]

    def __init__(
        self, encoding: NumberEncoding, limit_bytes: int, *, dry_run: bool = False
    ) -> None:
        """Prepare the form of one answer.

        Args:
            encoding: of its numbers.
            limit_bytes: of the answer; `largest_output` of the model's admission.
            dry_run: the answer is its header, without data.
        """
        self._encoding, self._limit_bytes, self._dry_run = encoding, limit_bytes, dry_run

    def overhead_bytes(self, ref: ModelRef, prepared: Prepared, details: object = None) -> int:
        """Return how much larger the answer can be, as JSON, than its data.

        Raises:
            InvalidInput: the answer is too large; names one that would fit.
        """
        message = header(ref, prepared)
        self._header = json_value(message)
        info = len(orjson.dumps(self._header)) + FRAMING_BYTES + prepared.spelled_bytes
        if self._dry_run:
            return info
        size = info + sum(
            text_bytes(self._encoding, layout.type, layout.shapes)
            for _, layouts in prepared.layouts()
            for layout in layouts.values()
        )
        if size > self._limit_bytes:
            raise self._too_large(prepared, size, info)
        return size - prepared.data_bytes

    def encode(self, answer: Answer) -> bytes:
        """Return the answer as JSON; call it once. It needs the header, and drops it."""
        document = self._header
        del self._header
        document["timings"] = answer.timings._asdict()
        for item, pieces in zip(document["items"], answer.pieces(), strict=False):
            item["terms"] = {"pieces": pieces}
        for output, _ in answer.prepared.selection.outputs():
            arrays = list(answer.arrays(output.name).values())
            for place, slot in enumerate(_slots(document, output)):
                parts = arrays[place] if arrays else ()
                if output.stacked and parts:
                    parts = [np.stack(parts)]
                put_numbers(slot, self._encoding, parts, single=output.stacked)
        return orjson.dumps(document)

    def _too_large(self, prepared: Prepared, size: int, info: int) -> InvalidInput:
        room = max(0, self._limit_bytes - info)
        fits = prepared.what_fits(room * prepared.data_bytes // max(1, size - info))
        of_list = self._encoding == "list"
        remedy = Phrase.LESS_OR_BASE64 if of_list else Phrase.LESS_OF_ONE_MESSAGE
        field = prepared.largest if prepared.data_bytes > info else prepared.largest_details(info)
        return InvalidInput(
            field,
            Reason.ANSWER_BYTES_OF_JSON,
            size=size,
            most=self._limit_bytes,
            remedy=remedy,
            **fits,
        )


class JsonOccludeForm:
    """The answer of Occlude as JSON."""

    _response: pb.OccludeResponse

    def __init__(self, encoding: NumberEncoding, *, target: bool = False) -> None:
        """Prepare the form of one answer, with a fall if there is a target."""
        self._encoding, self._target = encoding, target

    def overhead_bytes(self, ref: ModelRef, prepared: Prepared, hidden: Ids) -> int:
        """Make the answer without its numbers, and return its size. It has no other data."""
        self._response = pb.OccludeResponse(
            model=model_ref(ref),
            item=item_of(prepared.inputs[0]),
            tokens=hidden,
            moved=pb.Tensor(dtype=FLOAT, shape=[len(hidden)]),
            fall=pb.Tensor(dtype=FLOAT, shape=[len(hidden)]) if self._target else None,
        )
        info = len(orjson.dumps(json_value(self._response))) + FRAMING_BYTES
        return info + text_bytes(self._encoding, "float32", [[len(hidden)]] * (1 + self._target))

    def encode(self, answer: Answer) -> bytes:
        """Return the answer as JSON."""
        numbers: OcclusionNumbers = answer.numbers
        if numbers.fall is not None:
            self._response.similarity = numbers.similarity
        value = json_value(self._response)
        put_numbers(value["moved"], self._encoding, [numbers.moved], single=True)
        if numbers.fall is not None:
            put_numbers(value["fall"], self._encoding, [numbers.fall], single=True)
        return orjson.dumps(value)


def _slots(document: dict[str, Any], output: Output) -> list[dict[str, Any]]:
    """Return the tensors of an output in an answer."""
    if output.stacked:
        stacks: list[dict[str, Any]] = document[output.name]
        return stacks
    return [document[name] for name in output.tensor_names if name in document]


def text_bytes(encoding: NumberEncoding, dtype: str, shapes: Iterable[Sequence[int]]) -> int:
    """Return the most bytes of JSON that the numbers of tensors of these shapes take."""
    binary, text = ITEM_BYTES[dtype]
    if encoding == "base64":
        return 4 * -(-binary * sum(map(math.prod, shapes)) // 3) + 2
    # Each list has two brackets and a comma.
    lists = sum(sum(itertools.accumulate(shape[:-1], int.__mul__, initial=1)) for shape in shapes)
    return text * sum(map(math.prod, shapes)) + 3 * (lists + 1)


def put_numbers(
    document: dict[str, Any],
    encoding: NumberEncoding,
    arrays: Sequence[NDArray[Any]],
    *,
    single: bool = False,
) -> None:
    """Put the numbers into a tensor. A dry run has none.

    Args:
        document: the tensor as an object of JSON.
        encoding: of the numbers.
        arrays: the numbers, one array for each input.
        single: the tensor has one array.
    """
    if not arrays:
        del document["data"]
    elif encoding == "base64":
        document["data"] = base64_text(arrays)
    else:
        lists = [orjson.Fragment(number_text(each)) for each in arrays]
        document["data"] = lists[0] if single else lists


def base64_text(arrays: Iterable[NDArray[Any]]) -> str:
    """Return arrays as base64 of their bytes in wire order, one after the other."""
    return base64.b64encode(b"".join([raw(each).data for each in arrays])).decode()


def number_text(array: NDArray[Any]) -> bytes:
    """Return an array as nested lists of JSON; one without axes as a number.

    Large ones are written piece by piece: orjson holds the interpreter's lock.
    """
    if array.ndim > 1 and array.nbytes > PIECE_BYTES:
        return b"[" + b",".join(map(number_text, array)) + b"]"
    native = np.asarray(array, array.dtype.newbyteorder("="), order="C")
    return orjson.dumps(native if array.ndim else native[()], option=orjson.OPT_SERIALIZE_NUMPY)

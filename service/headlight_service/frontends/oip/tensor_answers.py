"""Answers as rectangular tensors: their padded sizes, checked before anything runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headlight.errors import InvalidInput, Reason
from headlight.interface.scoring import activated
from headlight.outputs.output import part_name
from headlight.outputs.sparse import INDICES
from headlight.results import ModelRef, TokenList
from headlight.runtime.encode_items import EncodeItem
from headlight.runtime.values import Ids
from headlight_service.core.requests.answer import Answer, Prepared
from headlight_service.frontends.oip import inference_messages as oip
from headlight_service.frontends.oip.model_views import DATATYPES, IDS
from headlight_service.frontends.oip.output_selection import RequestedTensor
from headlight_service.frontends.oip.request_parameters import ENCODE

MOST_BYTES = (1 << 31) - (1 << 20)  # clients take messages below 2 GiB
FRAMING_BYTES = 4096  # at most: the message besides its tensors' names and contents
NUMBER_TYPES = {
    "float32": "FP32",
    "float16": "FP16",
    "int8": "INT8",
    "binary": "INT8",
    "ubinary": "UINT8",
    "uint32": "UINT32",
}
# The tensor of the answer that each output is.
TENSORS = {
    "embedding": part_name("pooled", 0),
    "token_embeddings": "tokens",
    "attention": "attention",
    "scores": "scores",
    "logits": "scores",
    "sparse": "sparse",
    INDICES: INDICES,
    "multi_vector": "multi_vector",
}
ITEM_BYTES = {name: np.dtype(kind).itemsize for name, kind in DATATYPES.items()}


class TensorForm:
    """One answer of padded tensors. `overhead_bytes` finds their shapes."""

    def __init__(
        self, name: str, requested: Sequence[RequestedTensor], max_bytes: int, activation: str = ""
    ) -> None:
        """Prepare.

        Args:
            name: name of the model in the protocol.
            requested: the requested outputs, in their order.
            max_bytes: of an answer, padding included.
            activation: from logits to scores.
        """
        self._name, self._requested, self._activation = name, requested, activation
        self._most = min(max_bytes, MOST_BYTES)
        self._ref: ModelRef
        self._tensors = list[tuple[tuple[int, ...], str]]()

    def overhead_bytes(self, ref: ModelRef, prepared: Prepared, details: object = None) -> int:
        """Return the bytes beyond the data: padding, lengths and names.

        Raises:
            InvalidInput: the padded answer is too large.
        """
        self._ref = ref
        self._tensors = [_tensor(each, prepared) for each in self._requested]
        names = sum(len(each.name) + 64 for each in self._requested)
        size = FRAMING_BYTES + names
        for shape, datatype in self._tensors:
            size += math.prod(shape) * ITEM_BYTES[datatype]
        if max(size, prepared.data_bytes) > self._most:
            raise InvalidInput(
                "outputs", Reason.PADDED_BYTES, size=size, most=self._most, method=ENCODE
            )
        return max(0, size - prepared.data_bytes)

    def message(self, request_id: str, answer: Answer) -> oip.ModelInferResponse:
        """Return the message of an answer."""
        response = oip.ModelInferResponse(
            model_name=self._name, model_version=self._ref.version, id=request_id
        )
        response.parameters["token_count"].int64_param = answer.prepared.tokens
        response.parameters["bundle_sha256"].string_param = self._ref.bundle_sha256
        arrays = {
            name: parts
            for output, _ in answer.prepared.selection.outputs()
            for name, parts in answer.arrays(output.name).items()
        }
        for each, (shape, datatype) in zip(self._requested, self._tensors, strict=True):
            response.outputs.add(name=each.name, datatype=datatype, shape=shape)
            parts = _parts(each, arrays, answer.prepared)
            if each.source == "scores":
                parts = list(activated(np.stack(parts), self._activation))
            response.raw_output_contents.append(_padded(parts, shape, DATATYPES[datatype]))
        return response


def _tensor(each: RequestedTensor, prepared: Prepared) -> tuple[tuple[int, ...], str]:
    """Return the extents of one output, and its datatype.

    Its extents are the number of inputs, and those of the longest.
    """
    count, rows = len(prepared.items), max(map(_row_count, prepared.items))
    if each.source not in TENSORS:
        longest = {"lengths": (), IDS: (rows,)}.get(each.source, (rows, 2))
        return (count, *longest), "INT64" if each.source == IDS else "INT32"
    [layout] = [
        layouts[TENSORS[each.source]]
        for _, layouts in prepared.layouts()
        if TENSORS[each.source] in layouts
    ]
    datatype = NUMBER_TYPES[layout.type]
    if layout.axes[0] == "item":
        return layout.shapes[0], datatype
    longest = tuple(map(max, zip(*layout.shapes, strict=True)))
    return (count, *(longest if each.place is None else longest[1:])), datatype


def _parts(
    each: RequestedTensor, arrays: Mapping[str, Sequence[NDArray[Any]]], prepared: Prepared
) -> Sequence[NDArray[Any]]:
    """Return one output of each input, without padding; `arrays`: those of the core, by tensor."""
    items = prepared.items
    if each.source == "lengths":
        return [np.array(_row_count(item)) for item in items]
    if each.source == IDS:
        return [_chosen(item.ids, _rows_of(item)) for item in items]
    if each.source == "offsets":
        return [
            _offsets(tokens.info, _rows_of(item))
            for tokens, item in zip(prepared.inputs, items, strict=True)
        ]
    parts = arrays[TENSORS[each.source]]
    return parts if each.place is None else [part[each.place] for part in parts]


def _rows_of(item: EncodeItem) -> Ids | None:
    """Return the tokens of an input that have a row in its answer; None: all."""
    rows: Ids | None = item.places.get("tokens", item.places.get("multi_vector"))
    return rows


def _row_count(item: EncodeItem) -> int:
    rows = _rows_of(item)
    return len(item.ids) if rows is None else len(rows)


def _offsets(info: TokenList | None, rows: Ids | None) -> NDArray[np.int32]:
    """Return start and end of each token in code points of its text: int32 [T, 2]."""
    assert info is not None
    offsets = np.array([info.starts, info.ends], dtype=np.int32).T
    return _chosen(offsets, rows)


def _chosen(values: NDArray[Any], rows: Ids | None) -> NDArray[Any]:
    return values if rows is None else values[rows]


def _padded(parts: Sequence[NDArray[Any]], shape: tuple[int, ...], kind: str) -> bytes:
    """Return the bytes of all parts, each padded with zeros behind its end on every axis."""
    if all(part.shape == shape[1:] for part in parts):
        return b"".join([np.ascontiguousarray(part, dtype=kind).tobytes() for part in parts])
    whole = np.zeros(shape, dtype=kind)
    for place, part in enumerate(parts):
        inside: Any = (place, *map(slice, part.shape))
        whole[inside] = part
    return whole.tobytes()

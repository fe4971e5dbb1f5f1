"""Which files an ONNX graph would make its reader open: read without the onnx package, which a serving install does not have.

Only the handful of fields on the way to `TensorProto.external_data` are declared (field numbers from onnx/onnx.proto); protobuf skips
the rest. The messages live in a pool of their own, so they never clash with onnx where that is installed too.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

from headlight.errors import BundleError

NUMBER = re.compile(r"-?[0-9]{1,19}")
EXTERNAL = 1  # TensorProto.DataLocation.EXTERNAL
# message -> field -> (number, type of the field: a message's name, "string" or "int32"); all repeated where the name ends in "*"
SCHEMA = {
    "Entry": {"key": (1, "string"), "value": (2, "string")},
    "Tensor": {"external_data*": (13, "Entry"), "data_location": (14, "int32")},
    "SparseTensor": {"values": (1, "Tensor"), "indices": (2, "Tensor")},
    "Attribute": {
        "t": (5, "Tensor"),
        "g": (6, "Graph"),
        "tensors*": (10, "Tensor"),
        "graphs*": (11, "Graph"),
        "sparse_tensor": (22, "SparseTensor"),
        "sparse_tensors*": (23, "SparseTensor"),
    },
    "Node": {"attribute*": (5, "Attribute")},
    "Graph": {"node*": (1, "Node"), "initializer*": (5, "Tensor"), "sparse_initializer*": (15, "SparseTensor")},
    "Function": {"node*": (7, "Node"), "attribute_proto*": (11, "Attribute")},
    "Model": {"graph": (7, "Graph"), "functions*": (25, "Function")},
}


@dataclasses.dataclass(frozen=True)
class ExternalData:
    """A reference from a tensor to bytes of another file, as the graph states it."""

    location: str
    offset: int
    length: int | None  # None: to the end of the file


def _model_class() -> type[message.Message]:
    file = descriptor_pb2.FileDescriptorProto(
        name="headlight/onnx_subset.proto", package="headlight.onnx_subset", syntax="proto3"
    )
    for name, fields in SCHEMA.items():
        declared = file.message_type.add(name=name)
        for key, (number, kind) in fields.items():
            field = declared.field.add(name=key.rstrip("*"), number=number)
            field.label = field.LABEL_REPEATED if key.endswith("*") else field.LABEL_OPTIONAL
            if kind in SCHEMA:
                field.type, field.type_name = field.TYPE_MESSAGE, f".headlight.onnx_subset.{kind}"
            else:
                field.type = field.TYPE_STRING if kind == "string" else field.TYPE_INT32
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("headlight.onnx_subset.Model"))


def external_data(path: Path, name: str) -> list[ExternalData]:
    """Every reference of a graph to another file.

    Args:
        path: the .onnx file; read whole (weights live outside it, so it is small).
        name: what to call it in errors.

    Raises:
        BundleError: it is not an ONNX file, or a reference is malformed.
    """
    model = _model_class()()
    try:
        model.ParseFromString(path.read_bytes())
    except message.DecodeError:
        raise BundleError("is not an ONNX file", name) from None
    return [_reference(tensor, name) for tensor in _tensors(model) if tensor.data_location == EXTERNAL]


def _tensors(node: Any) -> Iterator[Any]:
    """All Tensor messages below a message."""
    for field, value in node.ListFields():
        if field.message_type is None:
            continue
        for child in [value] if not field.is_repeated else value:
            if field.message_type.name == "Tensor":
                yield child
            else:
                yield from _tensors(child)


def _reference(tensor: Any, name: str) -> ExternalData:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    # int() would also read "1_0", " 1" and digits of other scripts, and ONNX Runtime something else there, or nothing.
    numbers = {key: entries.get(key, "0") for key in ("offset", "length")}
    try:
        if not all(NUMBER.fullmatch(text) for text in numbers.values()):
            raise ValueError
        length = int(numbers["length"]) if "length" in entries else None
        return ExternalData(entries["location"], int(numbers["offset"]), length)
    except (KeyError, ValueError):
        raise BundleError(
            "refers to external data without a location, or with an offset that is no number", name
        ) from None

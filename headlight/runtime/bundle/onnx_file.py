"""External-data references of an ONNX graph, read without the onnx package.

A serving install does not have that package. Only the few fields on the way to
`TensorProto.external_data` are declared (field numbers from onnx/onnx.proto). Protobuf skips the
rest and writes it unchanged. The messages have their own pool, so they never clash with onnx if
that is installed too.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterator
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

from headlight.errors import BundleError

NUMBER = re.compile(r"-?[0-9]{1,19}")
PACKAGE = "headlight.onnx_subset"
EXTERNAL = 1  # TensorProto.DataLocation.EXTERNAL
# message -> field -> (number, type of the field: a message's name or a scalar's). A field is
# repeated if its name ends in "*".
SCHEMA = {
    "Entry": {"key": (1, "string"), "value": (2, "string")},
    "Tensor": {
        "dims*": (1, "int64"),
        "data_type": (2, "int32"),
        "name": (8, "string"),
        "external_data*": (13, "Entry"),
        "data_location": (14, "int32"),
    },
    "Dimension": {"dim_value": (1, "int64")},
    "Shape": {"dim*": (1, "Dimension")},
    "TensorType": {"elem_type": (1, "int32"), "shape": (2, "Shape")},
    "Type": {"tensor_type": (1, "TensorType")},
    "ValueInfo": {"name": (1, "string"), "type": (2, "Type")},
    "SparseTensor": {"values": (1, "Tensor"), "indices": (2, "Tensor")},
    "Attribute": {
        "t": (5, "Tensor"),
        "g": (6, "Graph"),
        "tensors*": (10, "Tensor"),
        "graphs*": (11, "Graph"),
        "sparse_tensor": (22, "SparseTensor"),
        "sparse_tensors*": (23, "SparseTensor"),
    },
    "Node": {"input*": (1, "string"), "op_type": (4, "string"), "attribute*": (5, "Attribute")},
    "Graph": {
        "node*": (1, "Node"),
        "initializer*": (5, "Tensor"),
        "input*": (11, "ValueInfo"),
        "sparse_initializer*": (15, "SparseTensor"),
    },
    "Function": {"node*": (7, "Node"), "attribute_proto*": (11, "Attribute")},
    "Model": {"graph": (7, "Graph"), "functions*": (25, "Function")},
}


@dataclasses.dataclass(frozen=True)
class ExternalData:
    """A reference from a tensor to bytes of another file, as the graph states it."""

    location: str
    offset: int
    length: int | None  # None: to the end of the file
    name: str = ""
    type: int = 0  # TensorProto.DataType
    shape: tuple[int, ...] = ()
    initializer: bool = False  # of the graph itself, not of a node or a nested graph
    table: bool = False  # rows are gathered from it: no engine packs it into its own layout


def _model_class() -> type[message.Message]:
    messages: Any = [
        {"name": name, "field": [_field(key, *described) for key, described in fields.items()]}
        for name, fields in SCHEMA.items()
    ]
    pool = descriptor_pool.DescriptorPool()
    pool.Add(
        descriptor_pb2.FileDescriptorProto(
            name="headlight/onnx_subset.proto",
            package=PACKAGE,
            syntax="proto3",
            message_type=messages,
        )
    )
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.Model"))


def _field(key: str, number: int, kind: str) -> dict[str, Any]:
    typed = (
        {"type": "TYPE_MESSAGE", "type_name": f".{PACKAGE}.{kind}"}
        if kind in SCHEMA
        else {"type": f"TYPE_{kind.upper()}"}
    )
    label = "LABEL_REPEATED" if key.endswith("*") else "LABEL_OPTIONAL"
    return {"name": key.rstrip("*"), "number": number, "label": label, **typed}


def external_data(data: bytes, name: str) -> list[ExternalData]:
    """Return every reference of a graph to another file.

    Args:
        data: bytes of the .onnx file (weights are outside it, so it is small).
        name: name of the file, for errors.

    Raises:
        BundleError: the file is not an ONNX file, or a reference is malformed.
    """
    model = _parsed(data, name)
    tables = {node.input[0] for node in model.graph.node if node.op_type == "Gather" and node.input}
    locations = [
        _reference(tensor, name, initializer=True, table=tensor.name in tables)
        for tensor in model.graph.initializer
        if tensor.data_location == EXTERNAL
    ]
    del model.graph.initializer[:]
    return locations + [
        _reference(tensor, name) for tensor in _tensors(model) if tensor.data_location == EXTERNAL
    ]


def with_inputs(data: bytes, names: Collection[str]) -> bytes:
    """Return the graph with these initialisers turned into inputs."""
    model = _parsed(data, "the graph")
    graph = model.graph
    known = {value.name for value in graph.input}
    for tensor in graph.initializer:
        if tensor.name in names and tensor.name not in known:
            shape = {"dim": [{"dim_value": size} for size in tensor.dims]}  # empty for a scalar
            graph.input.add(
                name=tensor.name,
                type={"tensor_type": {"elem_type": tensor.data_type, "shape": shape}},
            )
    for place in reversed(range(len(graph.initializer))):
        if graph.initializer[place].name in names:
            del graph.initializer[place]
    return bytes(model.SerializeToString())


def _parsed(data: bytes, name: str) -> Any:
    model = _model_class()()
    try:
        model.ParseFromString(data)
    except message.DecodeError:
        raise BundleError("is not an ONNX file", name) from None
    return model


def _tensors(node: Any) -> Iterator[Any]:
    """Yield all Tensor messages below a message."""
    messages = [
        (field, value) for field, value in node.ListFields() if field.message_type is not None
    ]
    for field, value in messages:
        for child in value if field.is_repeated else [value]:
            if field.message_type.name == "Tensor":
                yield child
            else:
                yield from _tensors(child)


def _reference(
    tensor: Any, name: str, *, initializer: bool = False, table: bool = False
) -> ExternalData:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    # int() also reads "1_0", " 1" and digits of other scripts; ONNX Runtime reads those differently
    # or not at all.
    numbers = {key: entries.get(key, "0") for key in ("offset", "length")}
    if "location" not in entries or not all(NUMBER.fullmatch(text) for text in numbers.values()):
        raise BundleError(
            "refers to external data without a location, or with an offset that is no number", name
        )
    return ExternalData(
        entries["location"],
        int(numbers["offset"]),
        int(numbers["length"]) if "length" in entries else None,
        tensor.name,
        tensor.data_type,
        tuple(tensor.dims),
        initializer,
        table,
    )

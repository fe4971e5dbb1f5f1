"""Services of public contracts, whose messages are in a descriptor pool of their own.

A client library of such a contract, such as tritonclient, puts its messages into the default pool
of protobuf. A second copy there fails: without this module, importing the service and that library
into one process would raise TypeError. The name of a pool is not on the wire.

`make proto` writes each contract as a file of descriptors, with a .pyi of its messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.descriptor import FileDescriptor, MethodDescriptor, ServiceDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from google.protobuf.message_factory import GetMessageClass

from headlight_service.frontends.grpc.transport.call_bridge import Handler

# Makes a handler, by whether requests and responses are streams.
KINDS: dict[tuple[bool, bool], Callable[..., Handler]] = {
    (False, False): grpc.unary_unary_rpc_method_handler,
    (True, False): grpc.stream_unary_rpc_method_handler,
    (False, True): grpc.unary_stream_rpc_method_handler,
    (True, True): grpc.stream_stream_rpc_method_handler,
}


def load(descriptors: Path) -> dict[str, Any]:
    """Return the names of a contract's module: DESCRIPTOR, messages, enumerations and values.

    Args:
        descriptors: a FileDescriptorSet of protoc; the last file is the contract.
    """
    pool = DescriptorPool()
    files = FileDescriptorSet.FromString(descriptors.read_bytes()).file
    for each in files:
        pool.Add(each)
    contract = pool.FindFileByName(files[-1].name)
    names: dict[str, Any] = {"DESCRIPTOR": contract}
    for name, message in contract.message_types_by_name.items():
        names[name] = GetMessageClass(message)
    for name, enumeration in contract.enum_types_by_name.items():
        names[name] = EnumTypeWrapper(enumeration)
        names |= {value.name: value.number for value in enumeration.values}
    return names


def services(*contracts: FileDescriptor) -> list[str]:
    """Return the full names of the services of some contracts."""
    return [
        service.full_name
        for contract in contracts
        for service in contract.services_by_name.values()
    ]


def handlers(service: ServiceDescriptor, servicer: object) -> grpc.GenericRpcHandler[Any, Any]:
    """Return the handlers of a service; `servicer` has a method for each of its methods."""
    return grpc.method_handlers_generic_handler(
        service.full_name,
        {method.name: _handler(method, servicer) for method in service.methods},
    )


def reflected(contracts: Iterable[FileDescriptor]) -> DescriptorPool:
    """Return one pool of all contracts and of the files that they import, for reflection."""
    pool, added = DescriptorPool(), set[str]()

    def add(file: FileDescriptor) -> None:
        if file.name in added:
            return
        added.add(file.name)
        for imported in file.dependencies:
            add(imported)
        pool.AddSerializedFile(file.serialized_pb)

    for contract in contracts:
        add(contract)
    return pool


def _handler(method: MethodDescriptor, servicer: object) -> Handler:
    request, response = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
    return KINDS[method.client_streaming, method.server_streaming](
        getattr(servicer, method.name),
        request_deserializer=request.FromString,
        response_serializer=response.SerializeToString,
    )

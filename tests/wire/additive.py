"""Breaking differences between two contracts: all except additions."""

from __future__ import annotations

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)

FIELD = ("name", "type", "type_name", "label", "proto3_optional")
METHOD = ("input_type", "output_type", "client_streaming", "server_streaming")


def broken(old: FileDescriptorProto, new: FileDescriptorProto) -> list[str]:
    """Return what breaks a peer of the old contract; empty if `new` only adds."""
    found = (
        [] if old.package == new.package else [f"the package is {new.package}, not {old.package}"]
    )
    messages = {each.name: each for each in new.message_type}
    for message in old.message_type:
        found += _messages(message, messages.get(message.name))
    found += _all_enums(old, new)
    services = {each.name: each for each in new.service}
    for service in old.service:
        found += _services(service, services.get(service.name))
    return found


def _messages(old: DescriptorProto, new: DescriptorProto | None) -> list[str]:
    if new is None:
        return [f"{old.name} is gone"]
    fields = {field.number: field for field in new.field}
    found = _all_enums(old, new)
    nested = {each.name: each for each in new.nested_type}  # those of maps, too
    for message in old.nested_type:
        found += _messages(message, nested.get(message.name))
    for field in old.field:
        now = fields.get(field.number)
        if now is None:
            found.append(f"{old.name}.{field.name} = {field.number} is gone")
            continue
        different = [name for name in FIELD if getattr(field, name) != getattr(now, name)]
        if _oneof(old, field) != _oneof(new, now):
            different.append("oneof")
        found += [
            f"{old.name}.{field.name} = {field.number} has another {name}" for name in different
        ]
    return found


def _oneof(message: DescriptorProto, field: FieldDescriptorProto) -> str:
    return message.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") else ""


def _all_enums(
    old: FileDescriptorProto | DescriptorProto, new: FileDescriptorProto | DescriptorProto
) -> list[str]:
    enums = {each.name: each for each in new.enum_type}
    return [line for each in old.enum_type for line in _enums(each, enums.get(each.name))]


def _enums(old: EnumDescriptorProto, new: EnumDescriptorProto | None) -> list[str]:
    values = {} if new is None else {value.name: value.number for value in new.value}
    return [
        f"{each.name} is no longer {each.number}"
        for each in old.value
        if values.get(each.name) != each.number
    ]


def _services(old: ServiceDescriptorProto, new: ServiceDescriptorProto | None) -> list[str]:
    methods = {} if new is None else {method.name: method for method in new.method}
    found = [f"{old.name}.{each.name} is gone" for each in old.method if each.name not in methods]
    kept = [(each, methods[each.name]) for each in old.method if each.name in methods]
    found += [
        f"{old.name}.{each.name} has another {name}"
        for each, now in kept
        for name in METHOD
        if getattr(each, name) != getattr(now, name)
    ]
    return found

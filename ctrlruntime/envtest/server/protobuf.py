"""Protobuf messages from a table, for the few that the server reads or writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

_SCALARS: Final[dict[str, descriptor_pb2.FieldDescriptorProto.Type.ValueType]] = {
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    "bytes": descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
    "bool": descriptor_pb2.FieldDescriptorProto.TYPE_BOOL,
    "int32": descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
    "int64": descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
}


def messages(package: str, table: Mapping[str, str]) -> dict[str, type[Message]]:
    """Message classes by name.

    A table entry lists the fields as `name=number` (a string), `name:type=number` or
    `name:type*=number` (repeated); a type is a scalar or another message of the table. With `?` a
    scalar's zero is distinguished from its absence (`name?=1`, `name:int32?=1`).
    """
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{package}.proto", package=package, syntax="proto3"
    )
    for name, fields in table.items():
        message = file.message_type.add(name=name)
        for field in fields.split():
            _add_field(message, package, field)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
        for name in table
    }


def _add_field(message: descriptor_pb2.DescriptorProto, package: str, text: str) -> None:
    declared, _, number = text.partition("=")
    name, _, kind = declared.partition(":")
    repeated, present = declared.endswith("*"), declared.endswith("?")
    name, kind = name.rstrip("?"), kind.rstrip("*?") or "string"
    proto = descriptor_pb2.FieldDescriptorProto
    field = message.field.add(name=name, number=int(number))
    field.label = proto.LABEL_REPEATED if repeated else proto.LABEL_OPTIONAL
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type, field.type_name = proto.TYPE_MESSAGE, f".{package}.{kind}"
    if present:
        field.proto3_optional, field.oneof_index = True, len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")

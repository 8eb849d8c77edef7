"""Objects sent as Kubernetes protobuf, the form in which kubectl sends some from 1.32 on.

Those are reviews, and what its generators (`kubectl create deployment` and the like) make. A
message with a field that is not in the table is refused as a whole, so that nothing is lost.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final, cast

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.api.scalars import format_time
from ctrlruntime.envtest.server.protobuf_table import KINDS, TABLE
from ctrlruntime.json import Json

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_DELETE_OPTIONS: Final = "DeleteOptions"
"""Every group has them, and clients name their own (helm: v1, where it deletes its Secrets)."""
_SCALARS: Final[dict[str, descriptor_pb2.FieldDescriptorProto.Type.ValueType]] = {
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    "bytes": descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
    "bool": descriptor_pb2.FieldDescriptorProto.TYPE_BOOL,
    "int32": descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
    "int64": descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
}


class _Undecodable(Exception):
    """A field that the table does not have."""


@cache
def _messages() -> dict[str, type[Message]]:
    return messages("ctrlruntime.kubernetes", TABLE)


def decode(body: bytes) -> Manifest | None:
    """Return the object in the body; None where it cannot be read in full."""
    if not body.startswith(_MAGIC):
        return None
    try:
        envelope: Any = _messages()["Unknown"].FromString(body[len(_MAGIC) :])
        api_version, kind = envelope.typeMeta.apiVersion, envelope.typeMeta.kind
        group, _, version = api_version.rpartition("/")
        if kind != _DELETE_OPTIONS and kind not in KINDS.get(group, ()):
            return None
        named = f"{kind}{version.title()}"
        message = _messages()[named if named in TABLE else kind]
        obj = _object(message.FromString(envelope.raw))
    except (DecodeError, _Undecodable):
        return None
    return {"kind": kind, "apiVersion": api_version, **obj}


def _object(message: Message) -> Manifest:
    if len(UnknownFieldSet(message)):
        raise _Undecodable
    out: Manifest = {}
    for field, value in message.ListFields():
        if field.name == "ingressRuleValue":
            out |= _object(value)
            continue
        shown = _value(field, value)
        if shown is not None:
            out[field.json_name] = shown
    return out


def _value(field: FieldDescriptor, value: object) -> Json:
    if not field.is_repeated:
        return _single(value)
    items = list(cast("Iterable[object]", value))
    if field.message_type is not None and field.message_type.name.endswith("Entry"):
        entries = [entry for entry in items if isinstance(entry, Message)]
        return {_field(entry, "key"): _single(_field(entry, "value")) for entry in entries}
    return [_single(each) for each in items]


def _field(message: Message, name: str) -> Json:
    """Return a field of a message, whose class is made at run time."""
    return getattr(message, name)


def _single(value: object) -> Json:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if not isinstance(value, Message):
        return value
    match value.DESCRIPTOR.name:
        case "Quantity":
            return _field(value, "string")
        case "IntOrString":
            return _field(value, "strVal" if _field(value, "type") else "intVal")
        case "Time":
            seconds = _field(value, "seconds")
            return format_time(datetime.fromtimestamp(seconds, UTC)) if seconds else None
        case "ExtraValue":
            return list(_field(value, "items"))
        case "Ignored":
            return None
        case "Empty":
            _object(value)
            return None
    return _object(value)


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

"""Objects sent as Kubernetes protobuf, the form in which kubectl sends some from 1.32 on.

Those are reviews, and what its generators (`kubectl create deployment` and the like) make. A
message with a field that is not in the table is refused as a whole, so that nothing is lost.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final, cast

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.api.scalars import format_time
from ctrlruntime.envtest.server.protobuf import messages
from ctrlruntime.envtest.server.protobuf_table import KINDS, TABLE
from ctrlruntime.json import Json

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_DELETE_OPTIONS: Final = "DeleteOptions"
"""Every group has them, and clients name their own (helm: v1, where it deletes its Secrets)."""


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

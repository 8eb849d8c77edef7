"""Statuses as they are written: without the texts that say nothing."""

from typing import Any

from pydantic.fields import FieldInfo

from ctrlruntime.api import ApiModel
from ctrlruntime.api.kinds import Manifest
from ctrlruntime.api.markers import RequiredOnWire

__all__ = ["sparing"]


def sparing(status: ApiModel) -> Manifest:
    """A whole status as JSON data, without empty texts in fields that need not be there.

    A reader cannot tell them apart, and some API servers of 1.20 take an empty text for null, which
    they refuse. Values of maps stay: an empty output is one nevertheless. No field of a status may
    be null on the wire.
    """
    return _spare(status, status.model_dump(mode="json", by_alias=True, exclude_none=True))


def _spare(model: ApiModel, wire: Manifest) -> Manifest:
    kept = dict(wire)
    for name, field in type(model).model_fields.items():
        key = field.serialization_alias or field.alias or name
        value = getattr(model, name)
        if value == "" and not _is_required(field):
            kept.pop(key, None)
        elif isinstance(value, ApiModel) and key in kept:
            kept[key] = _spare(value, kept[key])
        elif isinstance(value, list) and key in kept:
            kept[key] = [_item(*pair) for pair in zip(value, kept[key], strict=True)]
    return kept


def _item(value: Any, wire: Any) -> Any:
    return _spare(value, wire) if isinstance(value, ApiModel) else wire


def _is_required(field: FieldInfo) -> bool:
    return field.is_required() or any(isinstance(each, RequiredOnWire) for each in field.metadata)

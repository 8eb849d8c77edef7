"""Objects as they are written: without the texts that say nothing."""

from typing import Any

from pydantic.fields import FieldInfo

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.api.markers import RequiredOnWire
from ctrlruntime.api.model import ApiModel


def without_empty_texts(model: ApiModel, wire: Manifest) -> Manifest:
    """`wire`, the wire form of `model`, without empty texts in fields that need not be there.

    A reader cannot tell them apart, and some API servers of 1.20 take an empty text for null, which
    they refuse. Texts that are values of maps stay: an empty one says something there.
    """
    kept = dict(wire)
    for name, field in type(model).model_fields.items():
        key = field.serialization_alias or field.alias or name
        if key not in kept:
            continue
        value = getattr(model, name)
        if value == "" and not _is_required(field):
            del kept[key]
        else:
            kept[key] = _inside(value, kept[key])
    return kept


def _inside(value: Any, wire: Any) -> Any:
    if isinstance(value, ApiModel):
        return without_empty_texts(value, wire)
    if isinstance(value, list):
        return [_inside(*pair) for pair in zip(value, wire, strict=True)]
    if isinstance(value, dict):
        return {key: _inside(value.get(key), item) for key, item in wire.items()}
    return wire


def _is_required(field: FieldInfo) -> bool:
    return field.is_required() or any(isinstance(each, RequiredOnWire) for each in field.metadata)

"""Empty texts are left out of what is written, as `omitempty` does in the API types of Kubernetes."""

from pydantic.fields import FieldInfo

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.api.markers import RequiredOnWire
from ctrlruntime.api.model import ApiModel
from ctrlruntime.api.printable import printable_status
from ctrlruntime.json import Json


def omit_empty(model: ApiModel, wire: Manifest) -> Manifest:
    """Return `wire`, the wire form of `model`, without empty texts in fields that are not required.

    `kubectl` prints `<none>` for a column of such a field, and a status is smaller by each of them. Values of
    maps are kept: an empty one is data there.
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


def status_fields(status: ApiModel) -> Manifest:
    """Return a whole status as JSON data, defaults included, nulls and empty texts left out, without control characters."""
    wire = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    found: Manifest = printable_status(omit_empty(status, wire))
    return found


def _inside(value: object, wire: Json) -> Json:
    if isinstance(value, ApiModel):
        return omit_empty(value, wire)
    if isinstance(value, list):
        return [_inside(*pair) for pair in zip(value, wire, strict=True)]
    if isinstance(value, dict):
        return {key: _inside(value.get(key), item) for key, item in wire.items()}
    return wire


def _is_required(field: FieldInfo) -> bool:
    return field.is_required() or any(isinstance(each, RequiredOnWire) for each in field.metadata)

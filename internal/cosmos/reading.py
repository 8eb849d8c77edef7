"""Resources as they are stored, those that do not fit their types included."""

from typing import Any, TypeVar

from pydantic import ValidationError

from ctrlruntime.api import ApiModel
from ctrlruntime.api.resource import Resource
from ctrlruntime.cache.entry import Entry
from internal.cosmos.invalid import InvalidSpec

KindT = TypeVar("KindT", bound=Resource[Any, Any])
StatusT = TypeVar("StatusT", bound=ApiModel)
SHOWN = 5
"""Fields that a message names."""


def read_resource(entry: Entry, kind: type[KindT]) -> KindT:
    """Return the typed resource. Raises InvalidSpec, which names the fields and no values."""
    try:
        return entry.typed(kind)
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False, include_context=False)
        places = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in found[:SHOWN]]
        raise InvalidSpec("; ".join(places)) from None


def read_status(entry: Entry, kind: type[StatusT]) -> StatusT:
    """Return the status alone, or an empty one if it does not fit its type."""
    try:
        return kind.model_validate(entry.field("status") or {})
    except ValidationError:
        return kind()

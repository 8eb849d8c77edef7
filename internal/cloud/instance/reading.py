"""Instances as they stand in the cache, those that cannot be decoded included."""

from pydantic import ValidationError

from apis.cloud import Instance
from ctrlruntime.api.conditions import shorten
from ctrlruntime.cache.entry import Entry
from internal.cloud.instance.status import Hindrance
from internal.cloud.release_assignment import with_assigned_version


def read(entry: Entry) -> tuple[Instance, Hindrance | None]:
    """Return the instance in the version that counts; see `read_written` for the rest."""
    instance, flaw = read_written(entry)
    return with_assigned_version(instance), flaw


def read_written(entry: Entry) -> tuple[Instance, Hindrance | None]:
    """Return the instance as it is written, or one without what cannot be read together with what is wrong with it."""
    try:
        return entry.typed(Instance), None
    except ValidationError as error:
        flaw = Hindrance(reason="InvalidSpec", message=_describe(error))
    bare = {**entry.decode(), "spec": {"sourcegraphVersion": "unknown"}}
    try:
        return Instance.from_manifest(bare), flaw
    except ValidationError:
        return Instance.from_manifest({**bare, "status": {}}), flaw


def _describe(error: ValidationError) -> str:
    """Return what is wrong, by place, without any value."""
    found = error.errors(include_input=False, include_url=False, include_context=False)
    places = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in found[:5]]
    return shorten(f"The instance cannot be read: {'; '.join(places)}")

"""``metadata.managedFields``: reading, writing, order, and the limit on Update entries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ctrlruntime.envtest.merge import fields
from ctrlruntime.envtest.merge.fields import FieldSet

MAX_UPDATE_MANAGERS = 10
BEFORE_FIRST_APPLY = "before-first-apply"
ANCIENT_CHANGES = "ancient-changes"

STRIPPED = fields.of(
    ("f:apiVersion",),
    ("f:kind",),
    ("f:metadata",),
    *(
        ("f:metadata", f"f:{name}")
        for name in (
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "clusterName",
            "generation",
            "managedFields",
            "resourceVersion",
        )
    ),
)
"""Fields that no manager ever owns."""


class Identity(NamedTuple):
    """What tells two entries apart. Appliers keep one entry whatever version they apply."""

    manager: str
    operation: str
    api_version: str
    subresource: str

    @property
    def described(self) -> str:
        """The manager as a conflict names it: ``"x" with subresource "scale" using apps/v1``."""
        text = '"' + self.manager.replace("\\", "\\\\").replace('"', '\\"') + '"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        if self.operation == "Update":
            text += f" using {self.api_version}"
        return text


@dataclass(frozen=True, slots=True)
class Ownership:
    """The fields of one manager, in the version it wrote them in; ``time`` is RFC 3339 or None.

    ``entry``: the stored entry that it was read from, which holds all this already.
    """

    fields: FieldSet
    api_version: str
    time: str | None
    entry: dict[str, Any] | None = field(default=None, compare=False)

    def over(self, owned: FieldSet) -> Ownership:
        return replace(self, fields=owned, entry=None)


Managers = dict[Identity, Ownership]


class ManagedFieldsError(ValueError):
    """``managedFields`` that cannot be read."""


def identity(manager: str, operation: str, api_version: str, subresource: str) -> Identity:
    version = "" if operation == "Apply" else api_version
    return Identity(manager or "unknown", operation, version, subresource)


def decode(entries: object, *, stored: bool = False) -> Managers:
    """Read ``metadata.managedFields``. Raises :class:`ManagedFieldsError`.

    ``stored``: :func:`encode` has written them, so what stays as it is need not be written anew.
    """
    managers: Managers = {}
    if entries is None:
        return managers
    if not isinstance(entries, list):
        raise ManagedFieldsError("managedFields must be a list")
    for entry in entries:
        who, ownership = _decode_entry(entry, stored)
        managers[who] = ownership
    return managers


def _decode_entry(entry: object, stored: bool) -> tuple[Identity, Ownership]:
    if not isinstance(entry, dict):
        raise ManagedFieldsError("an entry of managedFields must be an object")
    operation, version = entry.get("operation", ""), entry.get("apiVersion", "")
    if operation not in ("Apply", "Update"):
        raise ManagedFieldsError(f'bad ManagedFieldsEntry: operation "{operation}"')
    if not version:
        raise ManagedFieldsError("bad ManagedFieldsEntry: apiVersion must not be empty")
    kind = entry.get("fieldsType", "")
    if kind != "FieldsV1":
        raise ManagedFieldsError(f'bad ManagedFieldsEntry: unknown fields type "{kind}"')
    try:
        owned = fields.from_json(entry.get("fieldsV1") or {})
    except fields.FieldsError as error:
        raise ManagedFieldsError(str(error)) from error
    who = identity(entry.get("manager", ""), operation, version, entry.get("subresource", ""))
    return who, Ownership(owned, version, entry.get("time"), entry if stored else None)


def decode_or_empty(entries: object, *, stored: bool = False) -> Managers:
    """As :func:`decode`; entries that cannot be read count as none."""
    try:
        return decode(entries, stored=stored)
    except ManagedFieldsError:
        return {}


def is_reset(entries: object) -> bool:
    """Whether a request wipes the list: ``managedFields: [{}]``."""
    return isinstance(entries, list) and len(entries) == 1 and entries[0] == {}


def encode(managers: Managers) -> list[dict[str, Any]]:
    """Entries as the server orders them: appliers first, then by time, manager and version."""
    ordered = sorted(managers.items(), key=_rank)
    return [_encode_entry(who, ownership) for who, ownership in ordered]


def _rank(item: tuple[Identity, Ownership]) -> tuple[str, str, str, str, str]:
    who, ownership = item
    return (
        who.operation,
        ownership.time or "",
        who.manager,
        ownership.api_version,
        who.subresource,
    )


def _encode_entry(who: Identity, ownership: Ownership) -> dict[str, Any]:
    if ownership.entry is not None:
        return ownership.entry
    entry: dict[str, Any] = {
        "manager": who.manager,
        "operation": who.operation,
        "apiVersion": ownership.api_version,
    }
    if ownership.time is not None:
        entry["time"] = ownership.time
    entry["fieldsType"] = "FieldsV1"
    entry["fieldsV1"] = fields.to_json(ownership.fields)
    if who.subresource:
        entry["subresource"] = who.subresource
    return entry


def with_entries(obj: dict[str, Any], entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a copy of ``obj`` (metadata copied, the rest shared) with these ``managedFields``."""
    metadata = dict(obj.get("metadata") or {})
    metadata.pop("managedFields", None)
    if entries:
        metadata["managedFields"] = entries
    return {**obj, "metadata": metadata}


def without_entries(obj: dict[str, Any]) -> dict[str, Any]:
    """``obj`` without ``managedFields``; ``obj`` itself when it has none."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return obj
    return with_entries(obj, [])


def drop_empty(managers: Managers) -> None:
    for who in [who for who, ownership in managers.items() if not ownership.fields]:
        del managers[who]


def cap_updates(managers: Managers, limit: int = MAX_UPDATE_MANAGERS) -> None:
    """Merge the oldest Update entries of a version into ``ancient-changes`` above ``limit``."""
    updaters = [who for who in managers if who.operation != "Apply"]
    if len(updaters) <= limit:
        return
    updaters.sort(key=lambda who: (managers[who].time or "", who))
    count = len(updaters)
    first_of: dict[str, Identity] = {}
    for who in updaters:
        if count <= limit:
            return
        ownership = managers[who]
        version = ownership.api_version
        bucket = Identity(ANCIENT_CHANGES, "Update", version, "")
        first = first_of.get(version)
        if first is None:
            first_of[version] = who
            continue
        if bucket not in managers:
            managers[bucket] = managers.pop(first)
        merged = fields.union(ownership.fields, managers[bucket].fields)
        del managers[who]
        managers[bucket] = Ownership(merged, version, ownership.time)
        count -= 1


def same_but_times(left: object, right: object) -> bool:
    """Whether two ``managedFields`` lists differ in their times at most."""
    if not isinstance(left, list) or not isinstance(right, list) or len(left) != len(right):
        return False
    return _timeless(left) == _timeless(right)


def _timeless(entries: Iterable[Mapping[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    stripped = [{key: value for key, value in e.items() if key != "time"} for e in entries]
    keyed = [
        (repr((e.get("manager"), e.get("operation"), e.get("apiVersion"), e.get("subresource"))), e)
        for e in stripped
    ]
    return sorted(keyed, key=lambda pair: pair[0])

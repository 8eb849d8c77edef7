"""Server-side apply and the tracking of field owners, as the API server does it.

Both functions leave their arguments unchanged. What they return shares unchanged parts with the
arguments; copy before changing it in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ctrlruntime.envtest.merge import fields, last_applied, managed
from ctrlruntime.envtest.merge.comparing import Comparison, compare
from ctrlruntime.envtest.merge.fields import FieldSet
from ctrlruntime.envtest.merge.managed import Identity, Managers, Ownership
from ctrlruntime.envtest.merge.merging import merge
from ctrlruntime.envtest.merge.removal import named_fields, with_dangling, with_owned, without
from ctrlruntime.envtest.merge.typed import TypeMismatch, TypeNode, check, field_set

Manifest = dict[str, Any]


class MergeSchema(Protocol):
    """What merging needs of a schema (``schema.registry.TypeSchema`` provides it)."""

    @property
    def type(self) -> TypeNode:
        """The type of the whole object."""

    def reset_fields(self, subresource: str) -> FieldSet:
        """Fields that writes to this (sub)resource ignore and so never own."""

    def empty(self) -> Manifest:
        """Return what an absent object is compared with: the parts that are there from the start."""


Convert = Callable[[Manifest, str], tuple[Manifest, MergeSchema] | None]
"""Converts an object to another version; None where the version is no longer served."""


class ApplyConflict(Exception):
    """Fields that others own with other values. ``conflicts``: ``(manager, field path)``."""

    def __init__(self, conflicts: list[tuple[str, str]]) -> None:
        self.conflicts = conflicts
        super().__init__(_conflict_message(conflicts))

    @property
    def causes(self) -> list[dict[str, str]]:
        """``details.causes`` of the 409."""
        return [
            {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": path}
            for who, path in self.conflicts
        ]


class ApplyRejected(Exception):
    """An apply that cannot be carried out; ``code`` and ``reason`` are the answer's."""

    def __init__(self, message: str, *, code: int = 500, reason: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


def _conflict_message(conflicts: list[tuple[str, str]]) -> str:
    if len(conflicts) == 1:
        who, path = conflicts[0]
        return f"Apply failed with 1 conflict: conflict with {who}: {path}"
    grouped: dict[str, list[str]] = {}
    for who, path in conflicts:
        grouped.setdefault(who, []).append(path)
    parts = [
        f"conflicts with {who}:" + "".join(f"\n- {path}" for path in grouped[who])
        for who in sorted(grouped)
    ]
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(parts)


def apply(
    live: Manifest | None,
    applied: Manifest,
    *,
    manager: str,
    force: bool,
    schema: MergeSchema,
    api_version: str,
    now: str,
    subresource: str = "",
    convert: Convert | None = None,
) -> Manifest:
    """Return the object after ``manager`` applied ``applied``, with its ``managedFields``.

    ``live`` is the stored object in ``api_version`` (None: the apply creates it). Raises
    :class:`ApplyConflict` unless ``force``, and :class:`ApplyRejected` for an object that is not of
    the schema's type. An apply that changes nothing returns an object equal to ``live``.
    """
    _check_request(applied, api_version)
    before = schema.empty() if live is None else managed.without_entries(live)
    write = _Write(schema, api_version, now, subresource, convert)
    managers = write.read(live)
    if not managers and live is not None:
        write.update(schema.empty(), before, managers, managed.BEFORE_FIRST_APPLY)
    _check_typed(applied, "patch", schema)
    try:
        merged, owners = write.apply(before, applied, managers, manager, force=force)
    except TypeMismatch as error:
        _check_typed(before, "live", schema)
        raise ApplyRejected(str(error)) from error
    except _Conflicting as conflict:
        settled: FieldSet = {}
        if manager == last_applied.MANAGER:
            settled = last_applied.settled_fields(before, schema.type)
        left = conflict.without(settled)
        if left:
            raise ApplyConflict(left) from None
        merged, owners = write.apply(before, applied, managers, manager, force=True)
    if manager == last_applied.MANAGER and last_applied.present(merged):
        merged = last_applied.record(merged, applied)
    return _finish(live, merged, owners)


def track_update(
    live: Manifest | None,
    new: Manifest,
    *,
    manager: str,
    operation: str = "Update",
    schema: MergeSchema,
    api_version: str,
    now: str,
    subresource: str = "",
    convert: Convert | None = None,
) -> Manifest:
    """Return ``new`` with the ``managedFields`` after a POST, PUT or patch by ``manager``.

    ``live`` is the stored object (None: a create). ``managedFields`` in ``new`` replace the stored
    ones where they can be read and are not empty; ``[{}]`` wipes them, after which nothing is
    tracked until the next apply. A write that changes nothing keeps the stored times.
    """
    write = _Write(schema, api_version, now, subresource, convert)
    managers = _requested(live, new, subresource)
    new = managed.without_entries(new)
    if managers or live is None:
        before = schema.empty() if live is None else managed.without_entries(live)
        write.update(before, new, managers, manager, operation)
    return _finish(live, new, managers)


def _requested(live: Manifest | None, new: Manifest, subresource: str) -> Managers:
    """Return the owners a request starts from: those it brings itself, or the stored ones."""
    stored = ((live or {}).get("metadata") or {}).get("managedFields")
    brought = (new.get("metadata") or {}).get("managedFields")
    if not subresource:
        if managed.is_reset(brought):
            return {}
        managers = managed.decode_or_empty(brought, stored=brought == stored)
        if managers:
            return managers
    return managed.decode_or_empty(stored, stored=True)


def _check_request(applied: Manifest, api_version: str) -> None:
    if (applied.get("metadata") or {}).get("managedFields") is not None:
        raise ApplyRejected("metadata.managedFields must be nil", code=400, reason="BadRequest")
    version = applied.get("apiVersion", "")
    if version != api_version:
        raise ApplyRejected(
            "Incorrect version specified in apply patch. Specified patch version: "
            f"{version}, expected: {api_version}",
            code=400,
            reason="BadRequest",
        )


def _check_typed(obj: Manifest, role: str, schema: MergeSchema) -> None:
    try:
        check(obj, schema.type, allow_duplicates=role == "live")
    except TypeMismatch as error:
        metadata = obj.get("metadata") or {}
        name = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
        kind = printed_kind(obj.get("apiVersion", ""), obj.get("kind", ""))
        raise ApplyRejected(
            f"failed to create typed {role} object ({name}; {kind}): {error}"
        ) from error


def printed_kind(api_version: str, kind: str) -> str:
    """Return a kind as Go prints it: `apps/v1, Kind=Deployment`, `/v1, Kind=Pod`."""
    return f"{api_version if '/' in api_version else f'/{api_version}'}, Kind={kind}"


def _finish(live: Manifest | None, obj: Manifest, managers: Managers) -> Manifest:
    return restore_times(live, managed.with_entries(obj, managed.encode(managers)))


def restore_times(live: Manifest | None, new: Manifest) -> Manifest:
    """Return ``new`` with the stored ``managedFields`` where nothing but their times differs.

    A server calls it again once defaults and resets are done, so that a write that changes nothing
    is none. What only the server sets (resourceVersion, generation) must agree already.
    """
    if live is None:
        return new
    stored = (live.get("metadata") or {}).get("managedFields")
    entries = (new.get("metadata") or {}).get("managedFields")
    if stored is None or stored == entries or not managed.same_but_times(stored, entries):
        return new
    if managed.without_entries(new) != managed.without_entries(live):
        return new
    return managed.with_entries(new, stored)


class _Conflicting(Exception):
    def __init__(self, conflicts: dict[Identity, FieldSet]) -> None:
        super().__init__()
        self.conflicts = conflicts

    def without(self, settled: FieldSet) -> list[tuple[str, str]]:
        """Return the conflicts about fields that are not ``settled``: manager and path."""
        return [
            (who.described, fields.path_string(path))
            for who in sorted(self.conflicts)
            for path in fields.paths_by_level(fields.difference(self.conflicts[who], settled))
        ]


class _Write:
    """One write: who owns what afterwards."""

    def __init__(
        self,
        schema: MergeSchema,
        api_version: str,
        now: str,
        subresource: str,
        convert: Convert | None,
    ) -> None:
        self._schema = schema
        self._version = api_version
        self._now = now
        self._subresource = subresource
        self._convert = convert
        self._ignored = schema.reset_fields(subresource)

    def read(self, live: Manifest | None) -> Managers:
        """Return the stored owners. Raises :class:`ApplyRejected` where they cannot be read."""
        try:
            stored = ((live or {}).get("metadata") or {}).get("managedFields")
            return managed.decode(stored, stored=True)
        except managed.ManagedFieldsError as error:
            raise ApplyRejected(f"failed to decode managed fields: {error}") from error

    def update(
        self,
        before: Manifest,
        after: Manifest,
        managers: Managers,
        manager: str,
        operation: str = "Update",
    ) -> None:
        """Give ``manager`` what differs between ``before`` and ``after`` (changes ``managers``)."""
        try:
            check(after, self._schema.type, allow_duplicates=True)
            difference = self._resolve_owners(before, after, managers, None, force=True)
        except TypeMismatch:
            return
        taken = fields.recursive_difference(difference.written(), self._ignored)
        taken = fields.difference(taken, managed.STRIPPED)
        if taken:
            who = managed.identity(manager, operation, self._version, self._subresource)
            previous = managers.get(who)
            owned = taken if previous is None else fields.union(taken, previous.fields)
            managers[who] = Ownership(owned, self._version, self._now)
        managed.cap_updates(managers)

    def apply(
        self,
        before: Manifest,
        applied: Manifest,
        stored: Managers,
        manager: str,
        *,
        force: bool,
    ) -> tuple[Manifest, Managers]:
        """Return the merged object and the new owners; ``stored`` stays as it is."""
        managers = dict(stored)
        node = self._schema.type
        who = managed.identity(manager, "Apply", self._version, self._subresource)
        last = managers.get(who)
        merged = merge(before, applied, node)
        owned = fields.recursive_difference(field_set(applied, node), self._ignored)
        managers[who] = Ownership(owned, self._version, last.time if last else None)
        if last is not None and last.fields:
            merged = self._prune(merged, last, managers, who)
        self._resolve_owners(before, merged, managers, who, force=force)
        mine = managers.get(who)
        if mine is not None:
            kept = fields.difference(mine.fields, managed.STRIPPED)
            same = merged == before
            managers[who] = Ownership(kept, self._version, mine.time if same else self._now)
            managed.drop_empty(managers)
        return merged, managers

    def _prune(
        self, merged: Manifest, last: Ownership, managers: Managers, who: Identity
    ) -> Manifest:
        """Return ``merged`` without what the applier had before and no manager has now."""
        one_version = all(each.api_version == last.api_version for each in managers.values())
        if one_version and not fields.difference(last.fields, managers[who].fields):
            return merged
        owned: dict[str, FieldSet] = {last.api_version: {}}
        for each in managers.values():
            known = owned.get(each.api_version, {})
            owned[each.api_version] = fields.union(known, each.fields)
        if len(owned) == 1 and not fields.difference(last.fields, owned[last.api_version]):
            return merged
        view = self._in_version(merged, last.api_version)
        if view is None:
            return merged
        start, schema = view
        everything = named_fields(start, schema.type)
        pruned = without(start, schema.type, last.fields)
        for version, fields_there in owned.items():
            full, rest = self._in_version(merged, version), self._in_version(pruned, version)
            if full is not None and rest is not None:
                shown, node = full[0], full[1].type
                there = everything if shown is start else named_fields(shown, node)
                pruned = with_owned(shown, rest[0], node, fields_there, there)
        rest = self._in_version(pruned, last.api_version)
        if rest is not None:
            pruned = with_dangling(start, rest[0], schema.type, last.fields, everything)
        back = self._in_version(pruned, self._version)
        return pruned if back is None else back[0]

    def _in_version(self, obj: Manifest, version: str) -> tuple[Manifest, MergeSchema] | None:
        if version == self._version and obj.get("apiVersion") == version:
            return obj, self._schema
        if self._convert is None:
            return obj, self._schema
        return self._convert(obj, version)

    def _resolve_owners(
        self,
        before: Manifest,
        after: Manifest,
        managers: Managers,
        writer: Identity | None,
        *,
        force: bool,
    ) -> Comparison:
        """Take from the other managers what changed; raise where that is not allowed."""
        own = compare(before, after, self._schema.type).without(self._ignored)
        by_version = {self._version: (own.written(), own.removed)}
        conflicts: dict[Identity, FieldSet] = {}
        removed: dict[Identity, FieldSet] = {}
        for who, ownership in list(managers.items()):
            if who == writer:
                continue
            version = ownership.api_version
            if version not in by_version:
                views = self._in_version(before, version), self._in_version(after, version)
                if views[0] is None or views[1] is None:
                    del managers[who]
                    continue
                there = compare(views[0][0], views[1][0], views[1][1].type).without(self._ignored)
                by_version[version] = there.written(), there.removed
            written, gone = by_version[version]
            if written and (changed := fields.intersection(ownership.fields, written)):
                conflicts[who] = changed
            if gone:
                removed[who] = gone
        if conflicts and not force:
            raise _Conflicting(conflicts)
        for taken in (conflicts, removed):
            for who, lost in taken.items():
                ownership = managers[who]
                managers[who] = ownership.over(fields.difference(ownership.fields, lost))
        managed.drop_empty(managers)
        return own

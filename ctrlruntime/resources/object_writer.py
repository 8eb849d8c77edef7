"""Writes of one desired object: what is sent so that the server, and its managed fields, show it as desired."""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.cache.cache import Cache, CachedClient
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.client import PatchType
from ctrlruntime.client.errors import BadRequest, Conflict, InternalError, Invalid, StatusCause
from ctrlruntime.resources.applied_fields import (
    FIELDS,
    AppliedFields,
    has_list,
    owns_record,
    record_fields,
)
from ctrlruntime.resources.desired import (
    INHERITED,
    Desired,
    Manifest,
    PatchStrategy,
    owner_reference,
    reference_manifest,
)
from ctrlruntime.resources.diff import Reason, is_recorded
from ctrlruntime.resources.drift import Location, missing_locations
from ctrlruntime.resources.ownership import OWNER, OWNER_UID, Owner, is_handed_over
from ctrlruntime.resources.replaced_fields import Holder, find_replaced, taken_over
from ctrlruntime.resources.revision import REVISION

FIRST_CONTACT: Final = "1"
"""An apply with this resourceVersion creates, or answers 409 when anything is there."""
CAUSES_AT_ONCE: Final = 100
"""Causes of a conflict that are judged before others have a turn of the loop."""
BEFORE_FIRST_APPLY: Final = "before-first-apply"
"""Who holds the fields of an object that has no managed fields when it is first applied."""


class FieldDispute(Exception):
    """Another manager owns a desired field. The message is the server's, which names both."""


@dataclass(frozen=True, slots=True)
class ObjectWriter:
    """Writes objects as one field manager. It decides how, and not whether."""

    cache: Cache
    client: CachedClient
    field_manager: str

    def through(self, client: CachedClient) -> Self:
        """Return a writer that writes by another client of the same cache."""
        return replace(self, client=client)

    async def create(self, desired: Desired, owner: Owner) -> Manifest:
        """Create one object. Return the server's answer, or its version. Raises Conflict or AlreadyExists when anything is there."""
        body = desired.body(owner)
        if desired.strategy is PatchStrategy.APPLY:
            return await self._apply_first(desired, body)
        return await self.client.create(
            body, kind=desired.mapping, field_manager=self.field_manager
        )

    def _apply_first(self, desired: Desired, body: Manifest) -> Awaitable[Manifest]:
        """Return an apply that creates, or raises Conflict or AlreadyExists when anything is there."""
        versioned = {**body, "metadata": {**body["metadata"], "resourceVersion": FIRST_CONTACT}}
        return self._apply(desired, versioned, force=desired.force, version_only=True)

    async def update(
        self, desired: Desired, entry: Entry, owner: Owner, reason: Reason, over: str = ""
    ) -> Manifest:
        """Write one object over `entry`. Return the server's answer. With `once` only the record of it is renewed.

        `over`: the version that the object must have; empty: any, but for an adoption.

        Raises FieldDispute, and the client's errors.
        """
        # The object that was judged is adopted, and no newer one: by now it may be on its way out, and a
        # deletion by the garbage collector would count as one of an object of the new owner.
        required = over or (entry.resource_version if reason is Reason.ADOPTION else "")
        if desired.once:
            record = _renewed(desired, entry, owner)
            if required:
                record["metadata"]["resourceVersion"] = required
            return await self.merge(desired.mapping, entry.name, record, namespace=entry.namespace)
        required = await self._drop_stale_references(desired, entry, owner, required)
        force = (
            desired.force
            or desired.force_own_fields
            or not _is_new_content(desired, entry, owner, reason)
        )
        if desired.strategy is not PatchStrategy.APPLY:
            return await self._write(desired, entry, owner, required, force=force)
        lost = _lost_fields(desired, entry, owner, reason)
        if any(has_list(each, desired.manifest) for each in lost):
            required, _ = await self._take_over(desired, entry, owner, required)
        try:
            return await self._apply_own(desired, entry, owner, required, force=force)
        except Invalid as error:
            if not lost and _record(entry):
                raise
            required, taken = await self._take_over(desired, entry, owner, required, refusal=error)
            if not taken:
                raise
        return await self._apply_own(desired, entry, owner, required, force=force)

    async def _apply_own(
        self, desired: Desired, entry: Entry, owner: Owner, required: str, *, force: bool
    ) -> Manifest:
        """Apply, and take back what the last apply owned. Raises FieldDispute, and the client's errors."""
        try:
            return await self._write(desired, entry, owner, required, force=force)
        except Conflict as error:
            if not error.is_field_conflict:
                raise
            applied = AppliedFields(desired.body(owner), _record(entry))
            for number, cause in enumerate(error.causes, 1):
                if _is_disputed(cause) and not applied.has(cause.field):
                    raise FieldDispute(error.message) from error
                if number % CAUSES_AT_ONCE == 0:
                    await asyncio.sleep(0)
            return await self._write(desired, entry, owner, required, force=True)

    async def _take_over(
        self,
        desired: Desired,
        entry: Entry,
        owner: Owner,
        required: str,
        refusal: Invalid | None = None,
    ) -> tuple[str, bool]:
        """Record as own what stands in place of own fields, so that the next apply removes it; see `find_replaced`.

        Returns the version that the next write requires, and whether there was anything. Raises FieldDispute where
        another manager applied what the apply is refused for, and Conflict when the object changed meanwhile.
        """
        listed: list[Manifest] = await self.cache.live_client.list(
            desired.mapping,
            desired.namespace or None,
            fields=f"metadata.name={desired.name}",
        )
        live = next((each for each in listed if each["metadata"]["uid"] == entry.uid), None)
        if live is None or required not in ("", live["metadata"]["resourceVersion"]):
            return required, False
        version = live["metadata"]["resourceVersion"]
        body = desired.body(owner)
        found = find_replaced(live, body, self.field_manager, refused=refusal is not None)
        if refusal is not None and found.kept and not found.paths:
            raise FieldDispute(_standing(refusal, found.kept)) from refusal
        if not found.paths:
            return required, False
        operations: list[dict[str, Any]] = [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
            {
                "op": "replace",
                "path": "/metadata/managedFields",
                "value": taken_over(live, found.paths, self.field_manager),
            },
        ]
        answer = await self._patch_json(desired, operations)
        return str(answer["metadata"]["resourceVersion"]) if required else "", True

    async def _drop_stale_references(
        self, desired: Desired, entry: Entry, owner: Owner, required: str
    ) -> str:
        """Take off the reference to the owner of a former life, which an apply cannot remove.

        Writes to the version `required`, if one is. Returns the one that the next write requires.
        """
        recorded = entry.annotations.get(OWNER_UID)
        stale = recorded != owner.uid and any(ref.uid == recorded for ref in entry.owners)
        if not stale or desired.strategy is not PatchStrategy.APPLY:
            return required
        references = _references(desired, entry, owner)
        patch: Manifest = {"metadata": {"uid": entry.uid, "ownerReferences": references or None}}
        if is_handed_over(entry, owner):  # reference and record change hands in one write
            patch["metadata"]["annotations"] = {OWNER: owner.key, OWNER_UID: owner.uid}
        if required:
            patch["metadata"]["resourceVersion"] = required
        answer = await self.merge(desired.mapping, entry.name, patch, namespace=entry.namespace)
        return str(answer["metadata"]["resourceVersion"]) if required else ""

    async def record_fields(
        self, desired: Desired, owner: Owner, answer: Manifest, entry: Entry | None
    ) -> Manifest:
        """Make managed fields show all we wrote as owned by this manager alone.

        A merge or an update records only what it changes, and nothing on an object whose managed
        fields are gone; an apply of the same values records everything. The server's stand-in for
        the unknown managers of before is dropped, or own fields could never be removed again.

        `entry`: the object as the cache has it now.
        """
        if entry is None or entry.resource_version != answer["metadata"]["resourceVersion"]:
            return answer
        try:
            if desired.strategy is not PatchStrategy.APPLY and not is_recorded(
                desired, entry, owner
            ):
                body = desired.body(owner)
                body["metadata"]["uid"] = entry.uid
                answer = await self._apply(desired, body, force=True)
            return await self._drop_stand_in(desired, answer)
        except (BadRequest, Conflict, Invalid, InternalError):
            pass  # not recorded then: a later write of anybody's will be looked at as drift
        return answer

    async def _drop_stand_in(self, desired: Desired, answer: Manifest) -> Manifest:
        managers = [each["manager"] for each in answer["metadata"].get("managedFields") or ()]
        if BEFORE_FIRST_APPLY not in managers or len(managers) < 2:
            return answer
        path = f"/metadata/managedFields/{managers.index(BEFORE_FIRST_APPLY)}"
        version = answer["metadata"]["resourceVersion"]  # nothing of others may hide behind ours
        operations: list[dict[str, Any]] = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": version},
            {"op": "test", "path": f"{path}/manager", "value": BEFORE_FIRST_APPLY},
            {"op": "remove", "path": path},
        ]
        return await self._patch_json(desired, operations)

    async def _patch_json(self, desired: Desired, operations: list[dict[str, Any]]) -> Manifest:
        patched: Manifest = await self.client.patch(
            desired.mapping,
            desired.name,
            operations,
            namespace=desired.namespace or None,
            type=PatchType.JSON,
            field_manager=self.field_manager,
            metadata_only=self.cache.metadata_only(desired.mapping),
        )
        return patched

    async def _write(
        self, desired: Desired, entry: Entry, owner: Owner, required: str, *, force: bool
    ) -> Manifest:
        """`force`: the same revision was all our own, so restoring it is no conflict.

        `required`: the version that the object must have; empty: any.
        """
        body = desired.body(owner)
        if required:
            body["metadata"]["resourceVersion"] = required
        if desired.strategy is PatchStrategy.APPLY:
            body["metadata"]["uid"] = entry.uid
            return await self._apply(desired, body, force=force)
        if desired.strategy is PatchStrategy.MERGE:
            body["metadata"]["uid"] = entry.uid
            body["metadata"]["ownerReferences"] = _references(desired, entry, owner) or None
            return await self.merge(desired.mapping, entry.name, body, namespace=entry.namespace)
        body["metadata"] |= {
            "uid": entry.uid,
            "resourceVersion": entry.resource_version,
            "finalizers": list(entry.finalizers),
            "ownerReferences": _references(desired, entry, owner),
        }
        return await self.client.update(
            body, kind=desired.mapping, field_manager=self.field_manager
        )

    def _apply(
        self, desired: Desired, body: Manifest, *, force: bool, version_only: bool = False
    ) -> Awaitable[Manifest]:
        if desired.records_fields:
            body["metadata"]["annotations"][FIELDS] = record_fields(body)
        return self.client.apply(
            body,
            kind=desired.mapping,
            field_manager=self.field_manager,
            force=force,
            metadata_only=self.cache.metadata_only(desired.mapping),
            version_only=version_only,
        )

    def merge(
        self, mapping: RESTMapping, name: str, patch: Manifest, *, namespace: str
    ) -> Awaitable[Manifest]:
        """Return a merge patch of one object. Awaiting it raises the client's errors."""
        return self.client.patch(
            mapping,
            name,
            patch,
            namespace=namespace or None,
            type=PatchType.MERGE,
            field_manager=self.field_manager,
            metadata_only=self.cache.metadata_only(mapping),
        )


def _renewed(desired: Desired, entry: Entry, owner: Owner) -> Manifest:
    """Return a patch that renews tracking metadata and touches nothing else."""
    recorded = entry.annotations.get(INHERITED)
    left = set((recorded or "").split(",")) - {"", *desired.inherited}
    gone = {} if recorded is None else {INHERITED: None}
    return {
        "metadata": {
            "uid": entry.uid,
            "labels": {**dict.fromkeys(left), **desired.inherited, **desired.labels},
            "annotations": {**gone, **desired.tracking(owner)},
            "ownerReferences": _references(desired, entry, owner) or None,
        }
    }


def _references(desired: Desired, entry: Entry, owner: Owner) -> list[dict[str, Any]]:
    """Return the owner references to write where the whole list is replaced: others' are kept."""
    stale = {owner.uid, entry.annotations.get(OWNER_UID)}
    kept = [reference_manifest(ref) for ref in entry.owners if ref.uid not in stale]
    return [*kept, owner_reference(owner)] if desired.reference else kept


def _is_new_content(desired: Desired, entry: Entry, owner: Owner, reason: Reason) -> bool:
    """Whether fields are set that this manager did not own before, so that another manager may own them."""
    if reason is Reason.REVISION:
        return True
    changed = entry.annotations.get(REVISION) != desired.revision
    return reason is Reason.ADOPTION and changed and is_handed_over(entry, owner)


def _record(entry: Entry) -> str:
    """Return which fields the last apply set; empty if unknown, or if another manager wrote the annotation."""
    return entry.annotations.get(FIELDS, "") if owns_record(entry.owned) else ""


def _lost_fields(desired: Desired, entry: Entry, owner: Owner, reason: Reason) -> list[Location]:
    """Return the desired fields that an apply of this manager set and that are no longer its own."""
    body = desired.body(owner)
    missing = missing_locations(body, entry.owned) if entry.owned else []
    if reason is Reason.DRIFT:
        return missing
    applied = AppliedFields(body, _record(entry))
    return [each for each in missing if applied.has_at(each)]


def _standing(refusal: Invalid, kept: list[Holder]) -> str:
    """Return the message for an apply that is refused because of what others applied."""
    fields = ", ".join(f"{each.path} by {each.manager}" for each in kept)
    return (
        f"{refusal.message}. In place of fields of this controller stand fields that others applied: {fields}. "
        "Take these out of what they apply, or the fields of this controller out of what it makes"
    )


def _is_disputed(cause: StatusCause) -> bool:
    """Whether a field conflict is with another manager, over something that is not this controller's record.

    Where managed fields were wiped, the server names `before-first-apply`: that is no manager.
    """
    ours = (REVISION, OWNER, OWNER_UID)
    tracking = any(cause.field == f".metadata.annotations.{name}" for name in ours)
    return not tracking and f'"{BEFORE_FIRST_APPLY}"' not in cause.message

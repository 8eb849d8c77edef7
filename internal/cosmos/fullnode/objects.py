"""What a set of nodes has of one kind: found in the cache, written by a control."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.cache import Cache, Entry
from ctrlruntime.controller.aggregate_error import UnrecoverableError
from ctrlruntime.lifecycle.departure import delete_owned, release_owned
from ctrlruntime.lifecycle.owner_index import OF_OWNER
from ctrlruntime.resources import (
    OWNER,
    Action,
    Control,
    Desired,
    ObjectKey,
    Outcome,
    Owner,
    reconcile_set,
)
from ctrlruntime.resources.ordinal import ordinal_of
from internal.cosmos.fullnode.errors import Findings
from internal.cosmos.fullnode.metrics import NodeSetMetrics
from internal.cosmos.labels import FIELD_MANAGER


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects of one kind that sets of nodes control."""

    cache: Cache
    control: Control
    mapping: RESTMapping
    metrics: NodeSetMetrics

    def of(self, owner: Owner) -> Mapping[ObjectKey, Entry]:
        """Return what the cache has of an owner, what is being deleted included."""
        value = f"{owner.gvk.kind}/{owner.namespace}/{owner.name}"
        found = self.cache.entries(self.mapping, index={OF_OWNER: value})
        kind = self.mapping.gvk.group_kind
        return {ObjectKey(kind, entry.name, namespace=entry.namespace): entry for entry in found}

    def find(self, name: str, namespace: str | None) -> Entry | None:
        """Return an object as this system declared it, whoever else watches the kind."""
        return self.cache.entry(self.mapping, name, namespace=namespace, tracked=FIELD_MANAGER)

    def known(self, owner: Owner, names: Iterable[str]) -> Mapping[ObjectKey, Entry]:
        """Return what `of` has, and objects of these names that are the owner's without its reference.

        Those were orphaned (`--cascade=orphan`) or changed by hand. Objects of other names are not looked
        at: a copy of an object has its annotations too, and is not deleted with it.
        """
        found = dict(self.of(owner))
        kind = self.mapping.gvk.group_kind
        for name in names:
            entry = self.find(name, owner.namespace)
            if entry is not None and self.control.holds(entry, owner):
                found[ObjectKey(kind, name, namespace=owner.namespace)] = entry
        return found

    async def reconcile(
        self,
        desired: Iterable[Desired],
        owner: Owner,
        findings: Findings,
        *,
        deletes: bool = False,
        staying: Collection[int] = (),
    ) -> dict[str, Outcome]:
        """Make each object what it should be; one that fails keeps no other from it.

        `deletes`: what the owner has and no longer wants goes, the last made first, but for what
        belongs to nodes of the numbers `staying`. Returns what became of those
        that did not fail, by name.
        """
        mine = self.of(owner).values() if deletes else ()
        current = [entry for entry in mine if ordinal_of(entry) not in staying]
        result = await reconcile_set(self.control, current, desired, owner)
        kind = self.mapping.gvk.kind
        for error in result.errors.values():
            findings.append(error)
        for item, outcome in result.conflicts:
            text = conflict(item, outcome.conflict, self.control.recorded(owner))
            findings.append(UnrecoverableError(text))
        for key, outcome in result.outcomes.items():
            if outcome.action is Action.HELD:
                findings.held.append(f"{kind} {key.name}")
            self.metrics.wrote(kind, outcome.action)
        if result.deleted:
            self.metrics.counted(kind, "delete", len(result.deleted))
        return {key.name: outcome for key, outcome in result.outcomes.items()}

    async def delete_all(self, owner: Owner) -> int:
        """Delete what the owner has, and return how many objects are left. Raises the client's errors."""
        return await delete_owned(self.control, self.mapping, self.of(owner).values(), owner)

    async def release(self, owner: Owner) -> None:
        """Take the owner's reference off its objects, so that they outlive it. Raises the client's errors."""
        await release_owned(self.control, self.mapping, self.of(owner).values(), owner)


def conflict(desired: Desired, why: str, owner: Owner) -> str:
    """Return what to do about an object that was not written: another owner has it, or a part of it.

    `owner` is as it is recorded on objects.

    Never to delete it: it may be a disk.
    """
    return (
        f"{desired.key} is left as it is: {why}. If it is this set's, annotate it with {OWNER}={owner.key} and the set "
        "takes it over; else give the set another name or other ordinals. Fields that others manage: "
        "let go of them"
    )

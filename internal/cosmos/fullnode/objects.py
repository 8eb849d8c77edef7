"""What a set of nodes has of one kind: found in the cache, written by a control."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.cache.cache import Cache
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.errors import APIError, TransportError
from ctrlruntime.controller.aggregate_error import UnrecoverableError
from ctrlruntime.resources import OWNER, Action, Control, Desired, ObjectKey, Outcome, Owner, Reason
from internal.cosmos.fullnode.errors import Findings
from internal.cosmos.fullnode.metrics import NodeSetMetrics
from internal.cosmos.labels import FIELD_MANAGER

OF_OWNER: Final = "controller"
"""Index: `<kind>/<namespace>/<name>` of an object's controller."""


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

    async def bring_about(
        self, desired: Iterable[Desired], owner: Owner, findings: Findings
    ) -> dict[str, Outcome]:
        """Make each object what it should be; one that fails keeps no other from it.

        Returns what became of those that did not fail, by name.
        """
        done: dict[str, Outcome] = {}
        for item in sorted(desired, key=lambda each: (each.ordinal, each.key)):
            try:
                outcome = await self.control.ensure(item, owner)
                if (
                    outcome.reason is Reason.TRACKING
                ):  # the cache has it again, and all of it is compared
                    outcome = await self.control.ensure(item, owner)
            except (APIError, TransportError) as error:
                findings.append(error)
                continue
            if outcome.action is Action.CONFLICT:
                findings.append(UnrecoverableError(conflict(item, outcome.conflict, owner)))
            if outcome.action is Action.HELD:
                findings.held.append(f"{item.mapping.gvk.kind} {item.name}")
            self.metrics.wrote(self.mapping.gvk.kind, outcome.action)
            done[item.name] = outcome
        return done

    async def remove_others(
        self, desired: Iterable[Desired], owner: Owner, findings: Findings
    ) -> None:
        """Delete what the owner has and no longer wants, the last made first."""
        wanted = {item.key for item in desired}
        for key, entry in sorted(self.of(owner).items(), reverse=True):
            if key in wanted or entry.deletion_timestamp is not None:
                continue
            try:
                if await self.control.delete(self.mapping, entry, owner):
                    self.metrics.counted(self.mapping.gvk.kind, "delete", 1)
            except (APIError, TransportError) as error:
                findings.append(error)

    async def release(self, owner: Owner) -> None:
        """Take the owner's reference off its objects, so that they outlive it. Raises the client's errors.

        A released object can be adopted by an owner of that name.
        """
        for entry in self.of(owner).values():
            if any(reference.uid == owner.uid for reference in entry.owners):
                await self.control.release(self.mapping, entry, owner, labels={}, annotations={})


def conflict(desired: Desired, why: str, owner: Owner) -> str:
    """Return what to do about an object that was not written: another owner has it, or a part of it.

    Never to delete it: it may be a disk.
    """
    return (
        f"{desired.key} is left as it is: {why}. If it is this set's, annotate it with {OWNER}={owner.key} and the set "
        "takes it over; else give the set another name or other ordinals. Fields that others manage: "
        "let go of them"
    )

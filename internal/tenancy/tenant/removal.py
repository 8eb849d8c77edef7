"""Carries out what `removal_decisions` decided: deletes and releases objects, dependents first."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.errors import APIError
from ctrlruntime.gate import Cause, Hold
from ctrlruntime.lifecycle.remote import ClusterTrouble
from ctrlruntime.resources import Owner, Ownership
from internal.tenancy.objects.graph import load
from internal.tenancy.objects.target_clusters import TargetCluster, TargetClusters
from internal.tenancy.shared.labels import HOOK, RESOURCE_ID
from internal.tenancy.shared.naming import LOCAL, ResourceKey
from internal.tenancy.shared.outcome import redact, refusal
from internal.tenancy.shared.policies import (
    OrphanReason,
    deletion_policy,
    is_orphaned,
    needs_reference,
    orphan_patch,
)
from internal.tenancy.shared.pools import Job, WorkerPools
from internal.tenancy.shared.privileges import Privileges
from internal.tenancy.tenant.kinds import unreadable
from internal.tenancy.tenant.removal_decisions import (
    Action,
    Decision,
    LiveObject,
    Place,
    Reason,
    Wanted,
    decide,
    pending,
    place_of,
)


@dataclass(frozen=True, slots=True)
class Found:
    """An object that records the tenant as its owner, and the cluster that has it."""

    mapping: RESTMapping
    entry: Entry
    cluster: str = LOCAL

    @property
    def place(self) -> Place:
        """Which object it is."""
        kind, entry = self.mapping.gvk.group_kind, self.entry
        return kind, entry.namespace, entry.name, self.cluster

    @property
    def key(self) -> ResourceKey:
        """The key of the object as a status lists it."""
        kind, entry = self.mapping.gvk.group_kind, self.entry
        return ResourceKey(kind, entry.namespace, entry.name, resource_id(entry), self.cluster)


_ORPHAN_REASONS = {
    Reason.TENANT_ORPHANED: OrphanReason.TENANT_ORPHANED,
    Reason.DEFINITION_REMOVED: OrphanReason.DEFINITION_REMOVED,
}


_CAUSES = {
    Reason.REPLACED: Cause.REPLACED,
    Reason.NOT_IN_TEMPLATE: Cause.TEMPLATE_CHANGED,
    Reason.TENANT_DELETED: Cause.PARENT_DELETED,
    Reason.PRUNED: Cause.PRUNE,
    Reason.DEFINITION_REMOVED: Cause.UNINSTALLED,
    Reason.TENANT_ORPHANED: Cause.ORPHANED,
    Reason.RETAINED: Cause.ORPHANED,
    Reason.NO_POLICY: Cause.ORPHANED,
    Reason.REFERENCE_REMOVED: Cause.ORPHANED,
    Reason.UNKNOWN_RESOURCE: Cause.ORPHANED,
}
"""Of the reasons for which objects are deleted or released."""


@dataclass(slots=True)
class Removed:
    """What a pass did, and what it decided at its end."""

    deleted: int = 0
    retained: int = 0
    decisions: tuple[Decision, ...] = ()
    done: list[Decision] = field(default_factory=list)
    """The decisions that were carried out."""
    refused: list[tuple[RESTMapping, str, APIError]] = field(default_factory=list)
    """What the server did not allow: mapping, namespace, why."""
    troubles: list[ClusterTrouble] = field(default_factory=list)
    """Why objects in another cluster could not be removed."""

    @property
    def pending(self) -> list[Decision]:
        """What has to go and is not gone."""
        return pending(self.decisions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Whose objects, as whom they are removed, and what must not show in messages.

    `applied` are the keys of the status. `user` is the account to impersonate, None for the manager.
    """

    owner: Owner
    applied: Collection[ResourceKey]
    reason: OrphanReason
    user: str | None = None
    hidden: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(slots=True)
class Remover:
    """Removes objects of tenants."""

    targets: TargetClusters
    privileges: Privileges
    """Whose protected objects are neither deleted nor released."""
    pools: WorkerPools
    clock: Callable[[], datetime]

    def has_nothing_else(self, owner: Owner, places: Collection[Place]) -> bool:
        """Whether every object that records the owner is in one of these places, as far as all kinds can be read.

        If its resources want all of them, each decision would be to keep one.
        """
        return not unreadable(self.targets) and all(
            (mapping.gvk.group_kind, entry.namespace, entry.name, target.name) in places
            for target, mapping, entry in _owned(self.targets, owner)
        )

    async def removes_any(self, wanted: Wanted, scope: Scope) -> bool:
        """Return whether any object has to go, or may have to where a kind cannot be read. Carries nothing out."""
        await load()
        found = [self._look(item, scope) for item in owned_objects(self.targets, scope.owner)]
        unread = unreadable(self.targets)
        return bool(pending(decide(wanted, found, scope.applied, unreadable=unread)))

    async def remove(
        self,
        wanted: Wanted,
        scope: Scope,
        *,
        observe: Callable[[], list[Found]] | None = None,
    ) -> Removed:
        """Decide and carry out until nothing is left to do in this pass.

        `observe` returns the objects that record the tenant as their owner; by default all that the caches have.
        Raises what leaves the server's answer open; its refusals are part of the result.
        """
        await load()
        result = Removed()
        observe = observe or partial(owned_objects, self.targets, scope.owner)
        unread = unreadable(self.targets)
        targets = self.targets.impersonating(scope.user)
        tried: set[Place] = set()
        refused: dict[Place, str] = {}
        while True:
            found = {item.place: item for item in observe()}
            result.decisions = decide(
                wanted,
                [self._look(item, scope) for item in found.values()],
                scope.applied,
                refused=refused,
                unreadable=unread,
            )
            todo = [
                (item, found[place_of(item.key)])
                for item in result.decisions
                if item.action in {Action.DELETE, Action.RELEASE}
                and place_of(item.key) not in tried
            ]
            if not todo:
                return result
            tried.update(where.place for _, where in todo)
            refused |= await self._carry_out(targets, todo, scope, result)

    async def _carry_out(
        self,
        targets: TargetClusters,
        todo: list[tuple[Decision, Found]],
        scope: Scope,
        result: Removed,
    ) -> dict[Place, str]:
        """Delete and release. Returns what was refused, with the server's message."""
        jobs = [
            Job(item.key.kind, partial(self._one, targets[where.cluster], item, where, scope))
            for item, where in todo
        ]
        refused: dict[Place, str] = {}
        for (item, where), outcome in zip(todo, await self.pools.run(jobs), strict=True):
            if isinstance(outcome, Exception):
                trouble = targets[where.cluster].explain(outcome, where.entry.namespace)
                if trouble is not None:
                    result.troubles.append(trouble)
                    refused[where.place] = trouble.message
                    continue
            if isinstance(outcome, APIError):
                result.refused.append((where.mapping, where.entry.namespace, outcome))
                refused[where.place] = refusal(outcome, scope.hidden)
                continue
            if isinstance(outcome, Exception):
                raise outcome
            if isinstance(outcome, Hold):
                refused[where.place] = redact(outcome.reason, scope.hidden)
                continue
            result.done.append(item)
            result.deleted += item.action is Action.DELETE
            result.retained += item.action is Action.RELEASE
        return refused

    async def _one(
        self, target: TargetCluster, item: Decision, where: Found, scope: Scope
    ) -> Hold | None:
        """Delete or release one object. Return what holds it, or None."""
        mapping, entry, owner = where.mapping, where.entry, target.owner(scope.owner)
        # Where a user has pruning on, the tenant's UID and policy on an object are what the user has chosen by.
        wrote = where.key in scope.applied or item.reason is Reason.PRUNED
        permit = target.control.permit(entry, owner, _CAUSES[item.reason], wrote=wrote)
        if isinstance(permit, Hold):
            return permit
        if item.action is Action.DELETE:
            await target.control.delete(mapping, entry, owner, permit)
            return None
        reason = _ORPHAN_REASONS.get(item.reason, scope.reason)
        patch = orphan_patch(reason, self.clock())["metadata"]
        await target.control.release(
            mapping, entry, owner, permit, labels=patch["labels"], annotations=patch["annotations"]
        )
        return None

    def _look(self, found: Found, scope: Scope) -> LiveObject:
        """Return what a decision needs of one object."""
        mapping, entry, key, target = (
            found.mapping,
            found.entry,
            found.key,
            self.targets[found.cluster],
        )
        owner = target.owner(scope.owner)
        policy = deletion_policy(entry.annotations)
        tied = target.is_local and needs_reference(
            policy, mapping.gvk.group_kind, entry.namespace, owner.namespace
        )
        standing = target.control.judge(entry, owner).standing
        return LiveObject(
            key=key,
            uid=entry.uid,
            foreign=standing is Ownership.FOREIGN,
            recorded=standing is Ownership.OURS,
            protected=self.privileges.protects(mapping.gvk.group_kind, entry.name),
            written=entry.owned is not None or key in scope.applied,
            released=is_orphaned(entry.labels),
            policy=policy,
            referenced=not tied or _is_referenced(entry, owner),
            terminating_since=entry.deletion_timestamp or "",
            finalizers=tuple(entry.finalizers),
        )


def _is_referenced(entry: Entry, owner: Owner) -> bool:
    """Whether the owner is referenced, by UID or, after a restore, by kind and name."""
    return any(
        reference.uid == owner.uid
        or (reference.kind, reference.name) == (owner.gvk.kind, owner.name)
        for reference in entry.owners
    )


def owned_objects(targets: TargetClusters, owner: Owner) -> list[Found]:
    """Every object in any cluster that records the owner, as the caches have them, but for the Jobs of hooks."""
    return [Found(mapping, entry, target.name) for target, mapping, entry in _owned(targets, owner)]


def _owned(
    targets: TargetClusters, owner: Owner
) -> Iterator[tuple[TargetCluster, RESTMapping, Entry]]:
    for target in targets:
        for mapping, entry in target.kinds.owned_by(target.owner(owner).key):
            if not resource_id(entry).startswith(HOOK):
                yield target, mapping, entry


def resource_id(entry: Entry) -> str:
    """Return the id that the resource has in its template, as recorded on the object."""
    return entry.annotations.get(RESOURCE_ID, "")

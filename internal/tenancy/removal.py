"""What becomes of resources that are no longer wanted: deleted, or let go of, dependents first."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from apis.tenancy import DeletionPolicy
from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.errors import Forbidden
from ctrlruntime.resources import Control, Owner, Standing
from internal.tenancy.marks import RESOURCE_ID
from internal.tenancy.policies import OrphanReason, deletion_policy, is_orphaned, orphan_patch
from internal.tenancy.pools import Job, WorkerPools

Found = tuple[RESTMapping, Entry]


@dataclass(slots=True)
class Removed:
    """What a pass did. `going` are keys of objects that are not gone yet."""

    deleted: int = 0
    retained: int = 0
    going: list[Found] = field(default_factory=list)
    refused: list[tuple[RESTMapping, str, Forbidden]] = field(default_factory=list)
    """What the server did not let us remove: mapping, namespace, why. It is among `going`."""


@dataclass(slots=True)
class Remover:
    """Removes resources of tenants by the deletion policy recorded on each of them."""

    control: Control
    pools: WorkerPools
    clock: Callable[[], datetime]

    async def remove(
        self,
        found: Collection[Found],
        owner: Owner,
        levels: Mapping[str, int],
        reason: OrphanReason,
        *,
        user: str | None = None,
    ) -> Removed:
        """Remove one level: the highest that still has objects; those below wait for it to be gone.

        `user` is whom to impersonate in writes, None for nobody.

        `levels`: the level of each resource id. Objects of unknown ids go first. Objects that are
        not ours, and orphans, are left alone. Raises the client's errors.
        """
        result = Removed()
        control = self.control if user is None else self.control.impersonating(user)
        ours = [(mapping, entry) for mapping, entry in found if self._is_held(entry, owner)]
        top = max(levels.values(), default=0) + 1
        by_level: dict[int, list[Found]] = {}
        for item in ours:
            by_level.setdefault(levels.get(resource_id(item[1]), top), []).append(item)
        for level in sorted(by_level, reverse=True):
            if result.going:
                result.going.extend(by_level[level])
                continue
            await self._remove_level(control, by_level[level], owner, reason, result)
        return result

    def _is_held(self, entry: Entry, owner: Owner) -> bool:
        foreign = self.control.judge(entry, owner).standing is Standing.FOREIGN
        return not foreign and not is_orphaned(entry.labels)

    async def _remove_level(
        self,
        control: Control,
        items: list[Found],
        owner: Owner,
        reason: OrphanReason,
        result: Removed,
    ) -> None:
        jobs = [
            Job(mapping.gvk.group_kind, partial(self._one, control, mapping, entry, owner, reason))
            for mapping, entry in items
        ]
        for item, outcome in zip(items, await self.pools.run(jobs), strict=True):
            mapping, entry = item
            if isinstance(outcome, Forbidden):
                result.refused.append((mapping, entry.namespace, outcome))
                result.going.append(item)
                continue
            if isinstance(outcome, Exception):
                raise outcome
            if outcome is DeletionPolicy.RETAIN:
                result.retained += 1
                continue
            result.deleted += entry.deletion_timestamp is None
            if self.control.exists(mapping, entry):
                result.going.append(item)

    async def _one(
        self,
        control: Control,
        mapping: RESTMapping,
        entry: Entry,
        owner: Owner,
        reason: OrphanReason,
    ) -> DeletionPolicy:
        """Delete or let go of one object. Returns which of the two."""
        policy = deletion_policy(entry.annotations)
        if policy is DeletionPolicy.DELETE:
            if entry.deletion_timestamp is None:
                await control.delete(mapping, entry, owner)
            return policy
        patch = orphan_patch(reason, self.clock())["metadata"]
        await control.release(
            mapping, entry, owner, labels=patch["labels"], annotations=patch["annotations"]
        )
        return DeletionPolicy.RETAIN


def resource_id(entry: Entry) -> str:
    """The id that the resource has in its template, as recorded on the object."""
    return entry.annotations.get(RESOURCE_ID, "")

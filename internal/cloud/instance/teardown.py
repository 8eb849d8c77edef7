"""The end of an instance: its subresources in reverse order, each kind gone before the next."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from apis.cloud import Instance
from ctrlruntime.cache.entry import Entry
from ctrlruntime.gate import Cause
from ctrlruntime.resources import Definitions, Owner
from internal.cloud.hub_instances import HubInstances
from internal.cloud.instance.deletion import TeardownGuard, left_behind, parent_of
from internal.cloud.instance.held_runs import held_run
from internal.cloud.instance.order import (
    PROTECTED,
    is_orphaning,
    is_protected,
    kind_of,
    next_to_go,
    teardown_progress,
)
from internal.cloud.instance.reading import read
from internal.cloud.instance.walk import Walk
from internal.cloud.instance.writer import InstanceWriter
from internal.cloud.labels import APPROVE_DELETION, FINALIZER, is_paused
from internal.cloud.subresource import Subresource

Owned = Sequence[tuple[Subresource[Any], Sequence[Entry]]]
"""The objects of an instance that are there, by subresource in their order."""


def _paused(entry: Entry) -> str:
    resume = f"`manager instance resume {entry.name} -n {entry.namespace}`"
    return f"Paused: it is torn down once it is resumed with {resume}."


def _as_it_is(_subresource: Subresource[Any], entry: Entry) -> Entry:
    return entry


@dataclass(slots=True)
class Teardown:
    """Takes deleted instances down, step by step."""

    walk: Walk
    definitions: Definitions
    """Which CRDs are being deleted."""
    writer: InstanceWriter
    guard: TeardownGuard
    counted: Callable[[Subresource[Any], Entry], Entry] = _as_it_is
    """Return an object of an instance with the approvals that count."""
    hub: HubInstances | None = None
    """Where runs are, if the instances are on a data plane."""

    async def step(self, instance: Instance, entry: Entry, owner: Owner) -> float | None:
        """Delete the next kind of subresource; release the instance once none is left.

        An instance that goes with its CRD is released, and its subresources release what they made.
        Returns the seconds until the next step while the hub stands in the way, which no event ends; else None.
        Raises the client's errors.
        """
        if FINALIZER not in entry.finalizers:
            return None
        if await self.definitions.any_removes([Instance.mapping()], APPROVE_DELETION):
            await self.writer.release(entry)
            return None
        orphaning = is_orphaning(entry)
        if is_paused(entry.annotations) and (orphaning or not is_protected(entry)):
            await self.writer.record_teardown(instance, entry, _paused(entry))
            return None
        owned = [
            (each, [self.counted(each, item) for item in self.walk.children.entries(each, owner)])
            for each in self.walk.subresources
        ]
        if orphaning:
            await self.writer.record_orphaned(instance, entry, left_behind(owned))
        elif not await self._may_go(instance, entry, owned):
            return None
        return await self._go_on(instance, entry, owner, owned)

    async def _may_go(self, instance: Instance, entry: Entry, owned: Owned) -> bool:
        """Whether everything of an instance may be torn down; what is held is recorded."""
        if not is_protected(entry):
            return True
        hold = await self.guard.hold(entry, owned)
        if hold is not None:
            await self.writer.record_teardown(instance, entry, parent_of(entry).message(hold), hold)
            return False
        if not any(children for _, children in owned):
            approved = instance.status.removals is not None and instance.status.removals.used
            if not approved:
                await self.writer.record_teardown(instance, entry, PROTECTED)
            return bool(approved)
        if is_paused(entry.annotations):
            await self.writer.record_teardown(instance, entry, _paused(entry))
            return False
        await self.walk.children.approve(owned)
        return True

    async def _go_on(
        self, instance: Instance, entry: Entry, owner: Owner, owned: Owned
    ) -> float | None:
        """Delete the next kind, and pass on to its objects what the instance has now."""
        subresources, children = self.walk.subresources, self.walk.children
        found = ((each, item) for each in subresources for item in children.find(each, owner))
        await children.pass_on_retry(instance, found)
        going = next_to_go(subresources, {kind_of(each): entries for each, entries in owned})
        if going is None:
            return await self._release(instance, entry)
        subresource, entries = going
        names = [item.name for item in entries]
        await children.delete(subresource, owner, names, Cause.PARENT_DELETED)
        problem = ""
        if read(entry)[1] is None:
            problem = await self.walk.mend(instance, owner, subresource)
        if not is_orphaning(entry):
            message = problem or self._progress(subresource, owner)
            run = held_run(each.status for each in children.find(subresource, owner))
            await self.writer.record_teardown(instance, entry, message, run=run)
        return None

    async def _release(self, instance: Instance, entry: Entry) -> float | None:
        """Let the instance go, and before it its name on the hub."""
        trouble = None if self.hub is None else await self.hub.free_name(entry)
        if self.hub is not None and trouble is not None:
            await self.writer.record_teardown(instance, entry, f"Being deleted. {trouble.message}.")
            return self.hub.period
        await self.writer.release(entry)
        return None

    def _progress(self, subresource: Subresource[Any], owner: Owner) -> str:
        reported = (item.status.message for item in self.walk.children.find(subresource, owner))
        return teardown_progress(kind_of(subresource), next(filter(None, reported), ""))

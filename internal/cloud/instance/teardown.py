"""The end of an instance: its subresources in reverse order, each kind gone before the next."""

from dataclasses import dataclass
from typing import Any

from apis.cloud import Instance
from ctrlruntime.cache.entry import Entry
from ctrlruntime.gate import Cause
from ctrlruntime.resources import Definitions, Owner
from internal.cloud.hub_instances import HubInstances
from internal.cloud.instance.order import (
    PROTECTED,
    is_protected,
    kind_of,
    next_to_go,
    teardown_progress,
)
from internal.cloud.instance.walk import Walk
from internal.cloud.instance.writer import InstanceWriter
from internal.cloud.labels import APPROVE_DELETION, FINALIZER, is_paused
from internal.cloud.subresource import Subresource


@dataclass(slots=True)
class Teardown:
    """Takes deleted instances down, step by step."""

    walk: Walk
    definitions: Definitions
    """Which CRDs are being deleted."""
    writer: InstanceWriter
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
        held_back = _held_back(entry)
        if held_back:
            await self.writer.record_teardown(instance, entry, held_back)
            return None
        subresources, children = self.walk.subresources, self.walk.children
        found = ((each, item) for each in subresources for item in children.find(each, owner))
        await children.pass_on_retry(instance, found)
        present = {kind_of(each): children.entries(each, owner) for each in subresources}
        going = next_to_go(subresources, present)
        if going is None:
            return await self._release(instance, entry)
        subresource, entries = going
        names = [item.name for item in entries]
        await children.delete(subresource, owner, names, Cause.PARENT_DELETED)
        await self.writer.record_teardown(instance, entry, self._progress(subresource, owner))
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


def _held_back(entry: Entry) -> str:
    if is_protected(entry):
        return PROTECTED
    if is_paused(entry.annotations):
        return "Paused: it is torn down once it is resumed with `manager instance resume`."
    return ""

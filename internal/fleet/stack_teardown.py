"""Removes the stack of a former target namespace: workloads, then the rest, the label last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from apis.fleet.labels import DATA_PLANE_ID, TARGET_NAMESPACE
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.resources import Owner
from internal.fleet.binding_control import BindingControl
from internal.fleet.plane_check import NAMESPACE
from internal.fleet.stack_control import StackControl

AGAIN: Final = 10.0
"""Seconds until Pods that are ending are looked at again; their deletion is an event, too."""


@dataclass(frozen=True, slots=True)
class StackTeardown:
    """Deletes all and only what was made for a stack. The Secret and the namespace stay."""

    stack: StackControl
    bindings: BindingControl
    patcher: ObjectPatcher

    async def run(self, entry: Entry, owner: Owner) -> str:
        """Go one step further. Return what is left; empty when all is done. Raises the client's errors."""
        workloads = await self.stack.delete_workloads(entry.name, owner)
        pods = await self.stack.count_pods(entry.name)
        if workloads or pods:
            return f"{workloads} workload(s) and {pods} Pod(s) are being deleted"
        support = await self.stack.delete_support(entry.name, owner)
        support += await self.bindings.delete_all(entry.name, owner)
        if support:
            return f"{support} other object(s) are being deleted"
        await self.patcher.patch_metadata(
            NAMESPACE,
            entry,
            {"labels": {TARGET_NAMESPACE: None}, "annotations": {DATA_PLANE_ID: None}},
            metadata_only=True,
        )
        return ""

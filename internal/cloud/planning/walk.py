"""A pass over the subresources of an instance as if each became ready at once, without a write."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from apis.cloud import Instance
from ctrlruntime.cache.entry import Entry
from ctrlruntime.resources import Owner
from ctrlruntime.resources.field_changes import FieldChange, field_changes
from internal.cloud.instance.children import Children
from internal.cloud.instance.order import Child
from internal.cloud.instance.walk import Pass, Walk
from internal.cloud.subresource import ObjectStrategy, Subresource


@dataclass(frozen=True, slots=True)
class PlannedPatch:
    """A patch of a subresource that no control makes: what is foreign to it is removed, or it is annotated."""

    subresource: Subresource[Any]
    entry: Entry
    changes: Sequence[FieldChange]


@dataclass(slots=True)
class PlannedChildren(Children):
    """Decides as `Children` does, and collects the patches. Its control must be one that does not write."""

    patches: list[PlannedPatch] = field(default_factory=list)

    async def _patch(
        self, subresource: Subresource[Any], entry: Entry, patch: dict[str, Any]
    ) -> bool:
        live = {
            "metadata": {"annotations": dict(entry.annotations)},
            "spec": entry.field("spec") or {},
        }
        changes = field_changes(_part(live, patch), patch)
        self.patches.append(PlannedPatch(subresource, entry, changes))
        return True


def _part(live: Any, patch: Any) -> Any:
    """Return what a patch is about of an object."""
    if isinstance(live, dict) and isinstance(patch, dict):
        return {key: _part(live[key], patch[key]) for key in patch if key in live}
    return live


@dataclass(slots=True)
class PlannedWalk(Walk):
    """Takes what is wanted for ready, so that all of a change is seen and not its first step only."""

    problems: list[tuple[str, str]] = field(default_factory=list)
    """Kind and sentence of each subresource that cannot be as it should be."""

    async def plan(self, instance: Instance, owner: Owner, bundle_revision: str) -> None:
        """Take each subresource in turn. The writes are those of the control and `children.patches`."""
        at = self.prepare(instance, owner, act=True, bundle_revision=bundle_revision)
        walked: list[Child] = []
        for subresource in self.subresources:
            if subresource.strategy is ObjectStrategy.ONE_PER_UPGRADE:
                child = await self._upgrade(at, subresource, walked)
                if child.wanted:  # those after it are made for the new version
                    at = replace(at, deployed=at.wanted, upgrades=())
            else:
                child = await self._update(at, subresource, walked)
            if child.problem:
                self.problems.append((child.kind, child.problem))
            walked.append(self._as_ready(child, at))

    def _as_ready(self, child: Child, at: Pass) -> Child:
        """Return a subresource as if it had been carried out, with the outputs that it has now."""
        if not child.wanted:
            return replace(child, object=None)
        found = child.object or self.children.look(child.subresource, at.name, at.owner)
        return replace(child, object=found, ready=True, waits_for=())

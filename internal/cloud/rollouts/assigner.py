"""Writes the versions that rollouts assign onto instances."""

from __future__ import annotations

from dataclasses import dataclass, replace

from apis.cloud import FleetRolloutSpec, Instance, written_version
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.errors import Conflict, NotFound
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.events import EventRecorder
from ctrlruntime.rollout import Assignment
from internal.cloud.labels import RELEASE_ASSIGNMENT
from internal.cloud.release_assignment import (
    RECORD,
    ReleaseAssignment,
    format_assignment,
    recorded_assignment,
)
from internal.cloud.rollouts.reports import ACTION


@dataclass(frozen=True, slots=True)
class Assigner:
    """Assigns versions to instances. Raises the client's errors but for those of instances that changed."""

    patcher: ObjectPatcher
    recorder: EventRecorder

    async def assign(
        self, entry: Entry, spec: FleetRolloutSpec, change: Assignment, found: Entry
    ) -> bool:
        """Write a version onto an instance and record an event, unless the instance changed meanwhile.

        Returns whether all was written.
        """
        assignment = ReleaseAssignment(
            rollout=entry.name,
            version=change.version,
            spec_version=written_version(found.field("spec") or {}),
            change=change.change,
            priority=spec.priority,
        )
        if not await self._write(assignment, found):
            return False
        text = f"{change.change.kind.value}: version {change.version} by FleetRollout {entry.name}"
        self.recorder.event(found, "Normal", "VersionAssigned", ACTION, text)
        return True

    async def write_again(self, spec: FleetRolloutSpec, found: Entry) -> bool:
        """Write an assignment with the priority that the rollout has now, and the annotation that repeats it.

        Returns whether all was written.
        """
        assignment = recorded_assignment(found)
        if assignment is None:
            return True
        return await self._write(replace(assignment, priority=spec.priority), found)

    async def _write(self, assignment: ReleaseAssignment, found: Entry) -> bool:
        """Write an assignment, unless the instance is no longer as `found`, on which was decided. True if it was written.

        Another manager may have changed it since, and the cache may know: it must not be changed twice.
        """
        text, mapping = format_assignment(assignment), Instance.mapping()
        try:
            if recorded_assignment(found) != assignment and not await self.patcher.patch_status(
                mapping,
                found.name,
                {RECORD: text},
                namespace=found.namespace,
                uid=found.uid,
                resource_version=found.resource_version,
            ):
                return False
            # A manager that is killed here leaves it to the next one to repeat the record.
            annotations = {"annotations": {RELEASE_ASSIGNMENT: text}}
            await self.patcher.patch_metadata(mapping, found, annotations)
        except (Conflict, NotFound):
            return False
        return True

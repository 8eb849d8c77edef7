"""Plans a FleetRollout: which instances get its version, in which wave, and what that changes of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import attrgetter
from typing import Final

from apis.cloud import FleetRollout, Instance, RolloutAction
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.entry import Entry, EntryDecoder
from ctrlruntime.client.client import Client, PatchType
from ctrlruntime.client.errors import APIError
from ctrlruntime.resources import Operation, Owner
from ctrlruntime.resources.change_plan import ChangePlan, Group, Verb, Wording
from ctrlruntime.resources.field_changes import FieldChange
from ctrlruntime.rollout import (
    Change,
    ChangeKind,
    Decision,
    Member,
    Strategy,
    Waiting,
    closed_window,
    decide,
    waves_of,
)
from internal.cloud.labels import FIELD_MANAGER, RELEASE_ASSIGNMENT
from internal.cloud.planning.instances import InstancePlanner, context_of, planned
from internal.cloud.release_assignment import RECORD, ReleaseAssignment, format_assignment
from internal.cloud.rollouts.members import (
    Fleet,
    FleetInstance,
    fleet_instance,
    fleet_of,
    newer_rollouts,
)
from internal.cloud.rollouts.strategy import strategy_of

WORDING: Final = Wording(
    subject="FleetRollout",
    unit="instance",
    owner="instance",
    key="instance",
    failing="Instances that fail",
)
ASSIGNED: Final = "status.assignedVersion.version"
"""Where an instance shows the version that counts for it."""


@dataclass(slots=True)
class RolloutPlanner:
    """Plans one FleetRollout to its end: all waves are taken to be approved, open and successful."""

    instances: InstancePlanner
    client: Client
    """One whose writes are dry runs."""
    clock: Callable[[], datetime]
    _fleet: Fleet = field(default_factory=lambda: Fleet((), {}))

    async def plan(
        self,
        entry: Entry,
        rollouts: Iterable[Entry],
        instances: Iterable[Entry],
        hold: Waiting | None,
    ) -> ChangePlan:
        """Return the plan of the rollout in `entry`. Raises InvalidRollout and ValidationError.

        `rollouts` and `instances` are those of its namespace; `hold` is what holds changes from outside.
        """
        rollout = entry.typed(FleetRollout)
        strategy = replace(strategy_of(rollout.spec, entry.annotations), hold=hold)
        listed = {item.name: item for item in sorted(instances, key=attrgetter("name"))}
        facts = {name: fleet_instance(item) for name, item in listed.items()}
        fleet = fleet_of(
            entry.name,
            rollout.spec,
            facts.values(),
            newer_rollouts(entry, rollouts),
            self.clock(),
        )
        target = rollout.spec.target_version
        decision = decide(target, fleet.members, strategy, self.clock())
        found = ChangePlan(
            wording=WORDING,
            name=entry.name,
            namespace=entry.namespace,
            total=len(fleet.members) + len(fleet.skipped),
        )
        self._hold(fleet, listed)
        found.notes += _notes(rollout, strategy, fleet, decision, self.clock())
        if rollout.spec.action is not RolloutAction.ABORT:
            await self._returning(entry, decision, fleet, listed, facts)
            if not decision.halted:
                await self._assigned(entry, fleet, strategy, listed, facts)
        self.instances.grouping.into(found)
        return found

    def _hold(self, fleet: Fleet, listed: Mapping[str, Entry]) -> None:
        """Record the instances that the rollout does not reach, and those that it leaves out for now."""
        grouping = self.instances.grouping
        for name, why in sorted(fleet.skipped.items()):
            grouping.hold(context_of(listed[name]), "", f"skipped: {why}")
        for member in fleet.members:
            why = _why_left_out(member)
            if why:
                grouping.hold(context_of(listed[member.name]), "", why)

    async def _returning(
        self,
        entry: Entry,
        decision: Decision,
        fleet: Fleet,
        listed: Mapping[str, Entry],
        facts: Mapping[str, FleetInstance],
    ) -> None:
        """Plan the members that a rollback returns to the version before."""
        members = {member.name: member for member in fleet.members}
        for name in sorted(decision.returning):
            change = members[name].change
            if change is not None:
                back = Change(ChangeKind.ROLLBACK, self.clock(), refused=decision.target)
                record = _record(entry, facts[name], change.previous, back)
                await self._assign(listed[name], facts[name], record, "rollback")

    async def _assigned(
        self,
        entry: Entry,
        fleet: Fleet,
        strategy: Strategy,
        listed: Mapping[str, Entry],
        facts: Mapping[str, FleetInstance],
    ) -> None:
        target = entry.typed(FleetRollout).spec.target_version
        waves = waves_of(target, fleet.members, strategy)
        for member in sorted(fleet.members, key=lambda each: each.name):
            if member.version == target or _why_left_out(member):
                continue
            change = Change(ChangeKind.ROLLOUT, self.clock(), previous=member.version)
            record = _record(entry, facts[member.name], target, change)
            wave = f"wave {waves[member.name]}"
            await self._assign(listed[member.name], facts[member.name], record, wave)

    async def _assign(
        self, entry: Entry, fact: FleetInstance, record: ReleaseAssignment, reason: str
    ) -> None:
        """Plan the write of an assignment, and what the instance's controller does for it."""
        changed = _with_assignment(entry, format_assignment(record))
        write = planned(Operation.UPDATE, Instance.mapping(), changed, Owner.of(entry), changed)
        change = FieldChange(ASSIGNED, fact.version, record.version)
        grouping = self.instances.grouping
        grouping.add(context_of(entry), Verb.UPDATE, write, [change], reason=reason)
        await self.instances.subresources(changed)

    async def confirm(self, found: ChangePlan) -> None:
        """Send one change of each group as a dry run, and record the answer."""
        for group in found.groups:
            if group.kind == Instance.gvk().group_kind:
                await self._confirm(group)
        await self.instances.confirm(found)

    async def _confirm(self, group: Group) -> None:
        entry = None if group.example is None else group.example.entry
        if entry is None:
            return
        metadata = {
            "annotations": {RELEASE_ASSIGNMENT: entry.annotations[RELEASE_ASSIGNMENT]},
            "uid": entry.uid,
            "resourceVersion": entry.resource_version,
        }
        try:
            await self.client.patch(
                Instance.mapping(),
                entry.name,
                {"metadata": metadata},
                namespace=entry.namespace,
                type=PatchType.MERGE,
                field_manager=FIELD_MANAGER,
            )
        except APIError as error:
            group.refusal = str(error)
        group.confirmed = not group.refusal


def _record(entry: Entry, fact: FleetInstance, version: str, change: Change) -> ReleaseAssignment:
    return ReleaseAssignment(
        rollout=entry.name, version=version, spec_version=fact.spec_version, change=change
    )


def _with_assignment(entry: Entry, assignment: str) -> Entry:
    manifest = entry.decode()
    annotations = {**entry.annotations, RELEASE_ASSIGNMENT: assignment}
    metadata = {**manifest["metadata"], "annotations": annotations}
    decoder = EntryDecoder(GroupVersionKind.of(manifest))
    status = {**(manifest.get("status") or {}), RECORD: assignment}
    return decoder.decode_manifest({**manifest, "metadata": metadata, "status": status})


def _why_left_out(member: Member) -> str:
    if member.paused:
        return "it is paused"
    return member.unfit


def _notes(
    rollout: FleetRollout, strategy: Strategy, fleet: Fleet, decision: Decision, now: datetime
) -> list[str]:
    """Return what the rollout waits for as a whole, and its waves."""
    spec, notes = rollout.spec, []
    if spec.action is RolloutAction.ABORT:
        return ["it is aborted: nothing is changed until it is resumed"]
    if decision.halted:
        notes.append(f"it is halted, {decision.halted}: no other instance is changed")
    if spec.pause:
        notes.append("it is paused: nothing is changed until it is resumed")
    waits = (strategy.hold, closed_window(strategy.windows, now))
    notes += [f"changes wait: {each.message}" for each in waits if each is not None]
    if decision.halted:
        return notes
    sizes = Counter(waves_of(decision.target, fleet.members, strategy).values())
    approvals = {wave.name for wave in strategy.waves if not wave.approved}
    for name in [*(wave.name for wave in strategy.waves), *sizes.keys()]:
        if name in sizes:
            approval = " once it is approved" if name in approvals else ""
            notes.append(f"wave {name}: {_instances(sizes.pop(name))}{approval}")
    return notes


def _instances(number: int) -> str:
    return "1 instance" if number == 1 else f"{number:,} instances"

"""Instances as members of a rollout, and why others are none. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from apis.cloud import (
    FleetRolloutSpec,
    Instance,
    InstanceStatus,
    Phase,
    ReleaseChannel,
    RolloutAction,
    UpgradePolicy,
)
from ctrlruntime.api import find_condition
from ctrlruntime.cache.entry import Entry
from ctrlruntime.rollout import BadWindow, Change, Health, Member, Readiness, Window, closed_window
from internal.cloud.bulk import is_newer
from internal.cloud.change_holds import windows_of_instance
from internal.cloud.instance.reading import read_written
from internal.cloud.instance.status import CHANGES_HELD, READY, VERSION_HELD
from internal.cloud.labels import is_extracted, is_paused
from internal.cloud.release_assignment import (
    ReleaseAssignment,
    assigned_version,
    is_same_assignment,
    is_waiting,
    recorded_assignment,
    repeats_record,
    with_assigned_version,
)
from internal.cloud.version_policy import version_problem


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetInstance:
    """What a rollout has to know of an instance. One of these is made for each version of the object."""

    name: str
    version: str
    """The version that counts: assigned, or else the spec's."""
    spec_version: str
    health: Health
    health_since: datetime | None
    phase: Phase
    assignment: ReleaseAssignment | None
    """The last assignment, in force or not."""
    is_repeated: bool = True
    """Whether the annotation is as the record."""
    labels: Mapping[str, str]
    paused: bool
    windows: tuple[Window, ...] = ()
    """Its own maintenance windows."""
    held: bool = False
    """Whether a change of it waits: for a freeze, a window, its turn, an approval or the end of a pause."""
    decision: str = ""
    """What a person has to decide before its version can change; empty: nothing."""
    deployed: bool = True
    """Whether a version of it ever ran."""
    resumed_at: datetime | None = None
    """When the last such wait ended."""
    excused: bool = False
    """Whether it is not ready for a cause that the version did not bring about."""
    was_ready: bool = False
    """Whether it was ready since its assignment."""
    causes: frozenset[str] = frozenset()
    """What failed of it, and why."""
    migrates: bool = False
    """Whether an upgrade migrates its database."""
    policy: UpgradePolicy = field(default_factory=UpgradePolicy)
    """Which changes of its version are permitted."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    excluded: str = ""
    """Why no rollout reaches it, whatever the version; empty if one may."""

    @property
    def is_overruled(self) -> bool:
        """Whether the spec was changed after the last assignment."""
        return self.assignment is not None and self.assignment.spec_version != self.spec_version


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """A rollout of the same namespace, as far as another one is concerned."""

    name: str
    selector: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Fleet:
    """The members of a rollout, and by name why each other instance that it selects is none."""

    members: Sequence[Member]
    skipped: Mapping[str, str]
    write_again: Sequence[str] = ()
    """Members whose annotation does not repeat the assignment, and those on their way to the version that were assigned
    with another priority than the rollout has now."""
    decisions: Sequence[str] = ()
    """What people have to decide before an assignment of this rollout is carried out, a text for each instance."""
    look_again: datetime | None = None
    """When the next instance's own maintenance window opens."""


UNVERSIONED: Final = frozenset({"InstanceTerraform", "InstanceKubernetesPVC"})
"""Subresources that are the same in every version: no change of version makes them fail."""
VERSION_REFUSED: Final = "VersionRefused"
"""Reason of the one hindrance that is of the version."""
MIGRATED: Final = "their databases may be migrated: restore them, then undo the rollout"
SUPERSEDED: Final = "the newer FleetRollout {name!r} selects it"


def fleet_instance(entry: Entry) -> FleetInstance:
    """Return an entry of the cache as an instance of the fleet."""
    written, flaw = read_written(entry)
    instance = with_assigned_version(written)
    health, since = _health(written, instance, entry)
    held = find_condition(written.status.conditions, CHANGES_HELD)
    waits = find_condition(written.status.conditions, VERSION_HELD)
    return FleetInstance(
        name=entry.name,
        version=instance.spec.wanted_version,
        spec_version=written.spec.wanted_version,
        health=health,
        health_since=since,
        phase=instance.status.phase,
        assignment=recorded_assignment(written),
        is_repeated=repeats_record(written),
        labels=dict(entry.labels),
        paused=is_paused(entry.annotations),
        windows=_windows(entry),
        held=(held is not None and held.status == "True")
        or is_waiting(written.status)
        or waits is not None,
        decision="" if waits is None else waits.message,
        deployed=bool(written.status.version),
        resumed_at=_resumed_at(written),
        excused=_is_excused(written, entry),
        was_ready=_was_ready(written),
        causes=_causes(written.status, entry.name),
        policy=instance.spec.upgrade_policy,
        annotations=dict(entry.annotations),
        migrates=instance.spec.upgrade.migrate is not None,
        excluded="it cannot be read" if flaw is not None else _why_excluded(instance, entry),
    )


def fleet_of(
    name: str,
    spec: FleetRolloutSpec,
    instances: Iterable[FleetInstance],
    newer: Sequence[Rival],
    now: datetime,
) -> Fleet:
    """Return the members of the rollout `name`; `newer` are those that take instances from it."""
    members: list[Member] = []
    skipped: dict[str, str] = {}
    openings: list[datetime] = []
    write_again: list[str] = []
    decisions: list[str] = []
    selected = [item for item in instances if spec.selector.items() <= item.labels.items()]
    target = spec.target_version
    too_new = {each for each in {item.version for item in selected} if is_newer(each, target)}
    for item in selected:
        reason = _why_skipped(name, spec, item, newer, too_new)
        if reason:
            skipped[item.name] = reason
        else:
            members.append(_member(name, spec, item, now))
            own = item.assignment is not None and item.assignment.rollout == name
            if own and item.decision and not item.is_overruled:
                decisions.append(f"{item.name}: {item.decision}")
            if _is_written_again(name, spec, item):
                write_again.append(item.name)
            closed = closed_window(item.windows, now)
            if closed is not None and closed.until is not None and item.version != target:
                openings.append(closed.until)
    return Fleet(members, skipped, write_again, decisions, min(openings, default=None))


def _is_written_again(name: str, spec: FleetRolloutSpec, item: FleetInstance) -> bool:
    assignment = item.assignment
    if assignment is None or assignment.rollout != name or item.is_overruled:
        return False
    if not item.is_repeated:
        return True
    return item.health is not Health.READY and assignment.priority is not spec.priority


def newer_rollouts(entry: Entry, rollouts: Iterable[Entry]) -> list[Rival]:
    """Return the rollouts of the namespace that were created later than `entry` and were not aborted."""
    found = []
    for other in rollouts:
        spec = other.field("spec") or {}
        aborted = spec.get("action") == RolloutAction.ABORT.value
        if _age(other) > _age(entry) and not aborted and other.deletion_timestamp is None:
            found.append(Rival(name=other.name, selector=spec.get("selector") or {}))
    return sorted(found, key=lambda item: item.name)


def _age(entry: Entry) -> tuple[str, str]:
    """Return what orders rollouts: times have whole seconds, so a name, which a user can choose, decides between equal ones."""
    return (entry.creation_timestamp, entry.name)


def _windows(entry: Entry) -> tuple[Window, ...]:
    """Return the windows of an instance; without ones that can be used it waits by itself."""
    try:
        return windows_of_instance(entry)
    except BadWindow:
        return ()


def _why_excluded(instance: Instance, entry: Entry) -> str:
    channel = instance.spec.release_channel
    if channel is not ReleaseChannel.STABLE:
        return f"its release channel is {channel.value}"
    if is_extracted(entry.annotations):
        return "it was taken out of management"
    return "it is being deleted" if entry.deletion_timestamp is not None else ""


def _health(written: Instance, instance: Instance, entry: Entry) -> tuple[Health, datetime | None]:
    """Return health in the version that counts, and since when; Progressing while it is not reported yet."""
    status = written.status
    condition = find_condition(status.conditions, READY)
    seen = is_same_assignment(status.assigned_version, assigned_version(written))
    if not seen or status.observed_generation != entry.generation or condition is None:
        return Health.PROGRESSING, None
    since = condition.last_transition_time
    if condition.status == "True" and status.version == instance.spec.wanted_version:
        return Health.READY, since
    failed = status.phase is Phase.FAILED
    return (Health.FAILED if failed else Health.PROGRESSING), since


def _is_excused(written: Instance, entry: Entry) -> bool:
    """Return whether an instance that is not ready in its version is so for a cause that the version did not bring about.

    That is what has become another since: the spec once it was ready, and what it shares with others. Or what is the
    same in every version.
    """
    status = written.status
    known, condition = status.assigned_version, find_condition(status.conditions, READY)
    if known is None or condition is None:
        return False
    if not is_same_assignment(known, assigned_version(written)):
        return False
    if _is_hindered(condition.reason) or _is_unversioned(status):
        return True
    lost = status.phase is Phase.FAILED and condition.reason == Phase.FAILED.value
    first = f"{known.ready_generation}/{known.ready_inputs}"
    readiness = Readiness(
        first=first if known.ready_generation else "",
        now=f"{entry.generation}/{known.inputs}",
        given=known.given_inputs,
        shares=known.inputs,
    )
    return readiness.excuses(failed=lost)


def _is_hindered(reason: str) -> bool:
    """Whether nothing was begun, for a reason that is not the version: a missing bundle, a name that is taken, a hub."""
    return reason not in {*Phase, VERSION_REFUSED}


def _was_ready(written: Instance) -> bool:
    known = written.status.assigned_version
    same = known is not None and is_same_assignment(known, assigned_version(written))
    return same and known is not None and known.ready_generation != 0


def _is_unversioned(status: InstanceStatus) -> bool:
    """Whether something failed, or is at work, and is the same in every version, or was lost with its node."""
    for phases in ({Phase.FAILED, Phase.RETRYING}, {Phase.RUNNING, Phase.WAITING}):
        found = [each for each in status.children if each.phase in phases]
        if found:
            return all(each.kind in UNVERSIONED or each.run_lost for each in found)
    return False


def _causes(status: InstanceStatus, name: str) -> frozenset[str]:
    """Return what failed of an instance and why, without its own name and that of the run."""
    found = set()
    for each in status.children:
        if each.phase is Phase.FAILED:
            text = each.message.replace(each.run_id, "") if each.run_id else each.message
            found.add(f"{each.kind}: {text.replace(name, '')}")
    return frozenset(found)


def _resumed_at(written: Instance) -> datetime | None:
    """Return when the last wait ended, of those that a deadline does not run in."""
    status = written.status
    held, known = find_condition(status.conditions, CHANGES_HELD), status.assigned_version
    ends = (
        None if held is None else held.last_transition_time,
        None if known is None else known.waited_until,
    )
    return max((end for end in ends if end is not None), default=None)


def _why_skipped(
    name: str,
    spec: FleetRolloutSpec,
    item: FleetInstance,
    newer: Sequence[Rival],
    too_new: Set[str],
) -> str:
    if item.excluded:
        return item.excluded
    for rival in newer:
        if rival.selector.items() <= item.labels.items():
            return SUPERSEDED.format(name=rival.name)
    if _is_in_no_group(spec, item):
        return f"no wave names its group: the label {spec.group_by}"
    assignment = item.assignment
    own = assignment is not None and assignment.rollout == name
    had = "" if assignment is None else assignment.version
    if own and item.is_overruled and item.version != had == spec.target_version:
        return "its spec was changed after its assignment"
    if item.version in too_new:
        return f"it has {item.version}, which is newer: downgrade it by its spec"
    if item.version != spec.target_version:
        return version_problem(item.policy, item.version, spec.target_version, item.annotations)
    return ""


def _is_in_no_group(spec: FleetRolloutSpec, item: FleetInstance) -> bool:
    if not spec.waves or any(not wave.groups or wave.percent is not None for wave in spec.waves):
        return False
    group = item.labels.get(spec.group_by, "")
    return not any(group in wave.groups for wave in spec.waves)


def _member(name: str, spec: FleetRolloutSpec, item: FleetInstance, now: datetime) -> Member:
    member = Member(
        name=item.name,
        version=item.version,
        health=item.health,
        health_since=item.health_since,
        change=_change(name, spec, item),
        group=item.labels.get(spec.group_by, ""),
        paused=item.paused,
        held=item.held,
        resumed_at=item.resumed_at,
        excused=item.excused,
        was_ready=item.was_ready,
        causes=item.causes,
        irreversible=MIGRATED if item.migrates and spec.action is not RolloutAction.UNDO else "",
    )
    closed = closed_window(item.windows, now)
    if closed is not None and item.version != spec.target_version:
        return replace(member, unfit=f"of the instance itself {closed.message}")
    unfit = _why_unfit(spec, item, member, now)
    return replace(member, unfit=unfit) if unfit else member


def _change(name: str, spec: FleetRolloutSpec, item: FleetInstance) -> Change | None:
    """Return the change that the rollout has to count; what another one brought to the target is not its own."""
    assignment = item.assignment
    if assignment is None or item.is_overruled:
        return None
    if assignment.rollout != name and assignment.version == spec.target_version:
        return None
    return assignment.change


def _why_unfit(spec: FleetRolloutSpec, item: FleetInstance, member: Member, now: datetime) -> str:
    """Return why a member is not drawn for its health; what a rollout broke is to be fixed."""
    if member.is_ready or spec.action is not RolloutAction.ROLL_OUT:
        return ""
    deadline = timedelta(seconds=spec.progress_deadline_seconds)
    soak = failure_soak(spec)
    broken = member.is_changing(now, deadline) or member.has_failed(now, deadline, soak)
    if broken or (member.change is not None and member.change.is_fix):
        return ""
    if not item.deployed:
        return f"its first roll-out has not succeeded, its phase is {item.phase.value}"
    return f"it is not healthy, its phase is {item.phase.value}"


def failure_soak(spec: FleetRolloutSpec) -> timedelta:
    """Return how long after its deadline an instance that loses health still counts as failed."""
    soaks = [spec.failure_soak_seconds, *(wave.soak_seconds for wave in spec.waves)]
    return timedelta(seconds=max(soaks))

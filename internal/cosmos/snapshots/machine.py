"""The state machine of regular snapshots: from a status and the facts to the next status. Pure.

A phase is written down before anything is done in it, and what it does may be done again: a program that
dies anywhere goes on where the status left off. A node is taken down only between the finalizer's going on and
its coming off, so nothing that ends a snapshot early (a failure, a deadline, `suspend`, deletion, a lost
kind) leaves one down.

Facts are about the candidate, the time and the snapshot of one status. Once a status names others, nothing
more is decided on them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from apis.cosmos import (
    LastSnapshot,
    ScheduledVolumeSnapshotSpec,
    ScheduledVolumeSnapshotStatus,
    SnapshotCandidate,
    SnapshotFailures,
    SnapshotPhase,
)
from internal.cosmos.snapshots.effects import Create, Delete, Effect, Hold, Pause, Release, Restore
from internal.cosmos.snapshots.facts import Facts, Node
from internal.cosmos.snapshots.naming import snapshot_name
from internal.cosmos.snapshots.retention import is_cut, surplus

Spec = ScheduledVolumeSnapshotSpec
Status = ScheduledVolumeSnapshotStatus
Phase = SnapshotPhase

IDLE: Final = frozenset({Phase.WAITING_FOR_NEXT, Phase.SUSPENDED, Phase.MISSING_CRDS})
"""Phases in which no snapshot is being made and no node is down."""
_DOWN: Final = frozenset(
    {
        Phase.WAITING_FOR_POD_DELETION,
        Phase.CREATING_SNAPSHOT,
        Phase.WAITING_FOR_SNAPSHOT_CREATION,
    }
)
"""Phases in which a node is down, where nodes are taken down at all."""
_RESTORING: Final = frozenset({Phase.RESTORING_POD, Phase.WAITING_FOR_POD_RESTORATION})
_STUCK: Final = "The node could not be given back in time; it is tried on."
_MOST_TURNS: Final = 12
"""Phases that can follow each other without anything being done in between are fewer."""


BACK_OFF: Final = timedelta(minutes=10)
"""Wait after the second failure in a row; it doubles with each further one."""
LONGEST_BACK_OFF: Final = timedelta(hours=6)
_FREE_FAILURES: Final = 1
_MOST_DOUBLINGS: Final = 10


@dataclass(frozen=True, slots=True)
class Step:
    """What one look at the facts leads to."""

    status: Status
    """To be written before the effects."""
    effects: tuple[Effect, ...]
    """To be done in this order."""
    again: bool = False
    """Decide once more with the facts of the new status, before anything is written or done."""


def step(spec: Spec, status: Status, facts: Facts, now: datetime) -> Step:
    """Go on until something is to be done or waited for."""
    if facts.deleting:
        return Step(status, _last_effects(facts))
    status = status.model_copy(deep=True)
    if status.created_at is None:
        status.created_at = now
    if status.phase is None:
        _enter(status, Phase.WAITING_FOR_NEXT, now)
    doomed: tuple[str, ...] = ()
    for _ in range(_MOST_TURNS):
        before, subject = status.phase, _subject(status)
        if before in IDLE and not facts.paused and not facts.held:
            doomed = surplus(spec, status, facts.kept, now)
        _turn(spec, status, facts, now)
        if _subject(status) != subject:
            return Step(status, (Delete(doomed),) if doomed else (), again=True)
        wanted = effects(status, facts)
        if status.phase == before or wanted:
            break
    return Step(status, (Delete(doomed), *wanted) if doomed else wanted)


def effects(status: Status, facts: Facts) -> tuple[Effect, ...]:
    """Return what is to be done in the phase of the status, old snapshots aside."""
    candidate, last = status.candidate, status.last_snapshot
    if facts.paused and not facts.held and status.phase in _DOWN:
        return (Hold(),)  # somebody took the finalizer off
    match status.phase:
        case Phase.DELETING_POD if candidate is not None and not facts.paused and facts.asked:
            return (*(() if facts.held else (Hold(),)), Pause(candidate.pod_name))
        case Phase.CREATING_SNAPSHOT if candidate and last and facts.made is None:
            return (Create(last.name, candidate.pvc_name, candidate.pod_labels, facts.height),)
        case Phase.RESTORING_POD if facts.paused:
            return (_restore(facts),)
        case Phase.WAITING_FOR_POD_RESTORATION if facts.held and not facts.paused:
            return (Release(),)
    return ()


def _subject(status: Status) -> object:
    """Return what the facts are about: those of another subject say nothing of this one."""
    last = status.last_snapshot
    return status.candidate, status.scheduled_at, last and last.model_copy(deep=True)


def deadline(spec: Spec, status: Status) -> datetime | None:
    """When the phase is given up; None for those that may last.

    A snapshot has its time from its last progress on, unless a node is down for it.
    """
    limits, since = spec.deadlines, status.phase_since
    last = status.last_snapshot
    waits = status.phase is Phase.WAITING_FOR_SNAPSHOT_CREATION
    if waits and since and last and last.progressed_at:
        is_down = spec.delete_pod and not is_cut(last.status)
        since = since if is_down else max(since, last.progressed_at)
    seconds = {
        Phase.FINDING_CANDIDATE: limits.finding_candidate,
        Phase.DELETING_POD: limits.pod_deletion,
        Phase.WAITING_FOR_POD_DELETION: limits.pod_deletion,
        Phase.CREATING_SNAPSHOT: limits.snapshot_creation,
        Phase.WAITING_FOR_SNAPSHOT_CREATION: limits.snapshot_creation,
        Phase.RESTORING_POD: limits.pod_restoration,
        Phase.WAITING_FOR_POD_RESTORATION: limits.pod_restoration,
    }.get(status.phase or Phase.WAITING_FOR_NEXT)
    return None if seconds is None or since is None else since + timedelta(seconds=seconds)


def is_stuck(status: Status) -> bool:
    """Whether a node is down beyond the deadline because its pause cannot be lifted."""
    return status.phase is Phase.RESTORING_POD and status.status == _STUCK


def give_up(spec: Spec, status: Status, facts: Facts, why: str, now: datetime) -> Status:
    """Return the status after something that a retry cannot fix; the node is restored next."""
    status = status.model_copy(deep=True)
    if status.scheduled_at is not None and status.phase not in _RESTORING | IDLE:
        _fail(spec, status, facts, why, now)
    return status


# -- phases ---------------------------------------------------------------------------------------


def _turn(spec: Spec, status: Status, facts: Facts, now: datetime) -> None:
    phase = status.phase or Phase.WAITING_FOR_NEXT
    if phase is Phase.WAITING_FOR_SNAPSHOT_CREATION:
        _record_progress(status, facts, now)
    if phase in IDLE:
        _idle(spec, status, facts, now)
    elif phase in _TOO_LATE and _is_late(spec, status, now) and not _is_done(status, facts):
        _fail(spec, status, facts, f"{_TOO_LATE[phase]} in time ({status.status.rstrip('.')})", now)
    else:
        _TURNS[phase](spec, status, facts, now)


def _is_done(status: Status, facts: Facts) -> bool:
    """Whether the snapshot became ready, however late it is seen."""
    waiting = status.phase is Phase.WAITING_FOR_SNAPSHOT_CREATION
    return waiting and facts.made is not None and facts.made.ready and not facts.made.holder


def _record_progress(status: Status, facts: Facts, now: datetime) -> None:
    """Record what the driver has done since: the deadline counts from there."""
    made, last = facts.made, status.last_snapshot
    if (
        made is None
        or made.holder
        or last is None
        or _progress(made.status) == _progress(last.status)
    ):
        return
    last.status, last.progressed_at = dict(made.status), now


def _progress(status: Mapping[str, Any] | None) -> list[object]:
    """Return the fields of a VolumeSnapshot's status that change when it progresses."""
    return [(status or {}).get(key) or None for key in _PROGRESS]


_PROGRESS: Final = ("boundVolumeSnapshotContentName", "creationTime", "readyToUse", "restoreSize")
_TOO_LATE: Final = {
    Phase.FINDING_CANDIDATE: "no node could be taken",
    Phase.DELETING_POD: "the node could not be taken down",
    Phase.WAITING_FOR_POD_DELETION: "the node's Pod did not end",
    Phase.CREATING_SNAPSHOT: "the VolumeSnapshot could not be made",
    Phase.WAITING_FOR_SNAPSHOT_CREATION: "the VolumeSnapshot did not become ready",
}


def _idle(spec: Spec, status: Status, facts: Facts, now: datetime) -> None:
    if facts.paused or facts.held:
        _enter(status, Phase.RESTORING_POD, now, "A node is still down from before.")
        return
    status.candidate, status.scheduled_at = None, None
    _correct_failure(status, facts)
    phase = _idle_phase(spec, facts)
    if status.phase != phase:
        _enter(status, phase, now)
    if phase is not Phase.WAITING_FOR_NEXT:
        status.next_at = None
        status.status = _IDLE_WORDS[phase]
        return
    _wait(spec, status, facts, now)


def _correct_failure(status: Status, facts: Facts) -> None:
    """Let the last copy count if it became ready after its deadline."""
    last = status.last_snapshot
    if last is None or not last.failed or not is_cut(last.status):
        return
    if any(each.name == last.name and each.ready for each in facts.kept):
        last.failed, last.status = "", {**(last.status or {}), "readyToUse": True}
        status.failures = None


def _wait(spec: Spec, status: Status, facts: Facts, now: datetime) -> None:
    schedule, start = facts.schedule, status.created_at or now
    if schedule is None:
        status.next_at, status.status = None, facts.problem
        return
    last = status.last_snapshot
    # What is made for a time is named by its minute.
    after = start if last is None else last.scheduled_at.replace(second=59)
    due = schedule.latest(after, now, start)
    status.next_at = schedule.next(after if due is None else due, start)
    resume = backed_off_until(spec, status)
    if due is not None and resume is not None and now < resume:
        status.next_at = resume
        status.status = (
            f"Waiting until {resume:%Y-%m-%dT%H:%M:%SZ} after {_count_of(status)} failures. The last one failed: "
            f"{last.failed if last is not None else ''}"
        )
        return
    if due is not None:
        status.scheduled_at = due
        _enter(status, Phase.FINDING_CANDIDATE, now, "Looking for a node.")
        return
    ended = "" if last is None or not last.failed else f" The last one failed: {last.failed}"
    status.status = f"Waiting for the next time.{ended}"


def backed_off_until(spec: Spec, status: Status) -> datetime | None:
    """When the next attempt may begin after failures in a row; None: at its time.

    The first failure delays nothing, and neither do failures of copies that no node is taken down for.
    """
    failures = status.failures
    if failures is None or failures.count < _FREE_FAILURES + 1 or not spec.delete_pod:
        return None
    doublings = min(failures.count - _FREE_FAILURES - 1, _MOST_DOUBLINGS)
    return failures.at + min(BACK_OFF * (1 << doublings), LONGEST_BACK_OFF)


def _count_of(status: Status) -> int:
    return 0 if status.failures is None else status.failures.count


_IDLE_WORDS: Final = {
    Phase.SUSPENDED: "Suspended.",
    Phase.MISSING_CRDS: "The cluster does not serve VolumeSnapshots: install the snapshot controller and "
    "its CustomResourceDefinitions.",
}


def _find(spec: Spec, status: Status, facts: Facts, now: datetime) -> None:
    if facts.paused:
        _enter(status, Phase.RESTORING_POD, now, "A node is still down from before.")
    elif spec.suspend or not facts.served:
        _leave(status, facts, now)
    elif facts.asked:
        try:
            node = choose(spec, facts)
        except NoCandidate as error:
            status.status = f"Cannot take a node yet: {error}."
            return
        status.candidate = SnapshotCandidate(
            pod_name=node.pod, pvc_name=node.claim, pod_labels=dict(node.labels)
        )
        if spec.delete_pod:
            _enter(status, Phase.DELETING_POD, now, f"Taking {node.pod} down.")
        else:
            _begin(status, facts, now)


def _take_down(spec: Spec, status: Status, facts: Facts, now: datetime) -> None:
    pod = _pod(status)
    if facts.paused:
        ours = facts.paused[0].node_set == spec.full_node_ref.name and facts.paused[0].pod == pod
        if ours and len(facts.paused) == 1:
            _enter(status, Phase.WAITING_FOR_POD_DELETION, now, f"Waiting for {pod} to end.")
        else:
            _enter(status, Phase.RESTORING_POD, now, "A node is still down from before.")
    elif spec.suspend or not facts.served:
        _leave(status, facts, now)
    elif not spec.delete_pod or (facts.asked and not is_still(pod, spec, facts)):
        status.candidate = None
        _enter(status, Phase.FINDING_CANDIDATE, now, f"Looking for another node than {pod}.")


def _await_end(spec: Spec, status: Status, facts: Facts, now: datetime) -> None:
    pod = _pod(status)
    if spec.suspend or not facts.served:
        _leave(status, facts, now)
    elif not facts.node_set:
        _fail(spec, status, facts, f"CosmosFullNode {spec.full_node_ref.name} is gone", now)
    elif not facts.paused:
        _fail(spec, status, facts, f"{pod} was let come back by another client", now)
    elif not facts.wanted:
        _fail(spec, status, facts, f"{pod} is no longer a node of the set", now)
    elif facts.pod_gone:
        _begin(status, facts, now)


def _create(spec: Spec, status: Status, facts: Facts, now: datetime) -> None:
    made = facts.made
    if made is not None and made.holder:
        name = status.last_snapshot.name if status.last_snapshot else ""
        _fail(
            spec, status, facts, f"VolumeSnapshot {name} exists and belongs to {made.holder}", now
        )
    elif made is not None:
        _enter(status, Phase.WAITING_FOR_SNAPSHOT_CREATION, now, _awaiting(status, facts))
    elif why := _interruption(spec, status, facts):
        _fail(spec, status, facts, why, now)
    elif facts.paused and not facts.pod_gone:
        words = f"Waiting for {_pod(status)} to end."
        _enter(status, Phase.WAITING_FOR_POD_DELETION, now, words)


def _await_snapshot(spec: Spec, status: Status, facts: Facts, now: datetime) -> None:
    made, last = facts.made, status.last_snapshot
    if _is_done(status, facts) and made is not None and last is not None:
        last.status, last.failed, status.failures = dict(made.status), "", None
        _enter(status, Phase.RESTORING_POD, now, "The VolumeSnapshot is ready.")
    elif (made is None or made.holder) and facts.served:
        _fail(spec, status, facts, "the VolumeSnapshot was deleted before it was ready", now)
    elif last is not None and is_cut(last.status) and (facts.paused or facts.held):
        _enter(status, Phase.RESTORING_POD, now, "The VolumeSnapshot is cut: the node comes back.")
    elif last is not None and is_cut(last.status) and facts.served:
        status.status = _awaiting(
            status, facts
        )  # nothing that becomes of the node matters to it any more
    elif facts.node_set and facts.wanted:  # a node that leaves has a last copy made all the same
        if why := _interruption(spec, status, facts):
            _fail(spec, status, facts, why, now)
        else:
            status.status = _awaiting(status, facts)
    elif spec.suspend or not facts.served:
        _fail(spec, status, facts, _interruption(spec, status, facts), now)


def _awaiting(status: Status, facts: Facts) -> str:
    """Return what is waited for. An error of the driver is final only at the deadline: it tries again by itself."""
    words = f"Waiting for the VolumeSnapshot of {_pod(status)}"
    error = facts.made.error if facts.made is not None else None
    if not error and status.last_snapshot is not None and is_cut(status.last_snapshot.status):
        return f"{words} to be ready to use; it is cut, and the node runs."
    return f"{words}; the driver reports: {error.rstrip('.')}." if error else f"{words}."


def _interruption(spec: Spec, status: Status, facts: Facts) -> str:
    """Why a snapshot that was begun cannot go on; empty if it can."""
    if spec.suspend:
        return "suspended"
    if not facts.served:
        return "the cluster no longer serves VolumeSnapshots"
    if not facts.node_set:
        return f"CosmosFullNode {spec.full_node_ref.name} is gone"
    if facts.held and not facts.paused:
        return f"{_pod(status)} was let come back by another client"
    if not facts.wanted:
        return f"{_pod(status)} is no longer a node of the set"
    return ""


def _restore_turn(spec: Spec, status: Status, facts: Facts, now: datetime) -> None:
    if facts.paused:
        if _is_late(spec, status, now):
            status.status = _STUCK  # and nothing else: a node is never left down
        return
    if facts.held:
        words = f"Waiting for {_pod(status) or 'the node'} to be back in sync."
        _enter(status, Phase.WAITING_FOR_POD_RESTORATION, now, words)
    else:
        _finish(spec, status, facts, now)


def _await_return(spec: Spec, status: Status, facts: Facts, now: datetime) -> None:
    if facts.paused:
        _enter(status, Phase.RESTORING_POD, now, "A node is still down.")
    elif facts.held:
        return
    elif facts.back or _is_gone(status, facts) or _is_late(spec, status, now):
        _finish(spec, status, facts, now)


def _is_gone(status: Status, facts: Facts) -> bool:
    """Whether there is no node to come back."""
    return status.candidate is None or not facts.node_set or not facts.wanted


_TURNS: Final[dict[Phase, Callable[[Spec, Status, Facts, datetime], None]]] = {
    Phase.FINDING_CANDIDATE: _find,
    Phase.DELETING_POD: _take_down,
    Phase.WAITING_FOR_POD_DELETION: _await_end,
    Phase.CREATING_SNAPSHOT: _create,
    Phase.WAITING_FOR_SNAPSHOT_CREATION: _await_snapshot,
    Phase.RESTORING_POD: _restore_turn,
    Phase.WAITING_FOR_POD_RESTORATION: _await_return,
}


# -- transitions ----------------------------------------------------------------------------------


def _enter(status: Status, phase: Phase, now: datetime, words: str = "") -> None:
    status.phase, status.phase_since = phase, now
    status.status = words


def _begin(status: Status, facts: Facts, now: datetime) -> None:
    """Record the snapshot that is to be made, before it is."""
    status.last_snapshot = _record(status, facts, now)
    _enter(status, Phase.CREATING_SNAPSHOT, now, f"Making a VolumeSnapshot of {_pod(status)}.")


def _record(status: Status, facts: Facts, now: datetime) -> LastSnapshot:
    at = status.scheduled_at or now
    return LastSnapshot(name=snapshot_name(facts.name, at), scheduled_at=at, started_at=now)


def _fail(spec: Spec, status: Status, facts: Facts, why: str, now: datetime) -> None:
    """No snapshot for this time. The node is restored before anything else."""
    last = status.last_snapshot
    if last is None or last.scheduled_at != status.scheduled_at:
        last = status.last_snapshot = _record(status, facts, now)
    last.failed = why
    if not spec.suspend:
        status.failures = SnapshotFailures(
            count=_count_of(status) + 1, message=f"{last.name}: {why}", at=now
        )
    _enter(status, Phase.RESTORING_POD, now, f"No snapshot: {why}.")


def _leave(status: Status, facts: Facts, now: datetime) -> None:
    """Nothing was begun: the time stays scheduled."""
    _enter(status, Phase.RESTORING_POD, now, "No snapshot for now.")


def _finish(spec: Spec, status: Status, facts: Facts, now: datetime) -> None:
    """Wait for what is left: a snapshot that is cut to be ready, or the next time."""
    if _is_unfinished(status):
        words = _awaiting(status, facts)
        _enter(status, Phase.WAITING_FOR_SNAPSHOT_CREATION, now, words)
        return
    status.candidate, status.scheduled_at = None, None
    phase = _idle_phase(spec, facts)
    _enter(status, phase, now, _IDLE_WORDS.get(phase, ""))


def _is_unfinished(status: Status) -> bool:
    """Whether the snapshot of this time is cut and not ready yet."""
    last = status.last_snapshot
    return (
        last is not None
        and last.scheduled_at == status.scheduled_at
        and not last.failed
        and is_cut(last.status)
        and not (last.status or {}).get("readyToUse")
    )


def _idle_phase(spec: Spec, facts: Facts) -> Phase:
    if spec.suspend:
        return Phase.SUSPENDED
    return Phase.WAITING_FOR_NEXT if facts.served else Phase.MISSING_CRDS


def _last_effects(facts: Facts) -> tuple[Effect, ...]:
    """Return what is left to do for an object that is being deleted."""
    if facts.paused:
        return (_restore(facts),)
    return (Release(),) if facts.held else ()


def _restore(facts: Facts) -> Restore:
    return Restore(tuple(sorted({each.node_set for each in facts.paused})))


def _is_late(spec: Spec, status: Status, now: datetime) -> bool:
    limit = deadline(spec, status)
    return limit is not None and now >= limit


def _pod(status: Status) -> str:
    return status.candidate.pod_name if status.candidate else ""


class NoCandidate(Exception):
    """No node can be taken now; the message gives the reason."""


def choose(spec: ScheduledVolumeSnapshotSpec, facts: Facts) -> Node:
    """Return the node that is pinned, else the first that is in sync. Raises NoCandidate."""
    reference, synced = spec.full_node_ref, facts.synced
    losing = [node for node in synced if node.losing_disk]
    usable = [node for node in synced if node not in losing or not spec.delete_pod]
    if not facts.node_set:
        raise NoCandidate(f"CosmosFullNode {reference.name} does not exist")
    if not facts.has_pinned:
        raise NoCandidate(
            f"{reference.name} has no node {reference.ordinal}: correct spec.fullNodeRef.ordinal"
        )
    if facts.without_class:
        raise NoCandidate(
            f"VolumeSnapshotClass {spec.volume_snapshot_class_name} does not exist: create it, or name one of "
            "`kubectl get volumesnapshotclasses` in spec.volumeSnapshotClassName"
        )
    unfinished = [each.name for each in facts.kept if each.under_way]
    if len(unfinished) > spec.limit:
        raise NoCandidate(
            f"{len(unfinished)} copies are cut and not ready to use yet, more than the limit of {spec.limit}: "
            f"look at `kubectl describe volumesnapshot {min(unfinished)}`"
        )
    if len(synced) < spec.min_available:
        raise NoCandidate(
            f"{spec.min_available} or more nodes of {reference.name} have to be in sync, {len(synced)} are"
        )
    if spec.delete_pod and facts.others:
        raise NoCandidate(f"a node of {reference.name} is down for {', '.join(facts.others)}")
    if spec.delete_pod and facts.budget < 1:
        raise NoCandidate(
            f"no further node of {reference.name} may be taken down: its maxUnavailable is used up"
        )
    for node in usable:
        if reference.ordinal in (None, node.ordinal):
            return node
    for node in losing:
        if reference.ordinal in (None, node.ordinal):
            raise NoCandidate(
                f"claim {node.claim} is being deleted, and its disk would go with Pod {node.pod}"
            )
    raise NoCandidate(f"node {reference.ordinal} of {reference.name} is not in sync")


def is_still(pod: str, spec: ScheduledVolumeSnapshotSpec, facts: Facts) -> bool:
    """Whether a node chosen earlier could be chosen now."""
    try:
        choose(spec, facts)
    except NoCandidate:
        return False
    pinned = spec.full_node_ref.ordinal
    return any(
        node.pod == pod
        and not (node.losing_disk and spec.delete_pod)
        and (pinned is None or node.ordinal == pinned)
        for node in facts.synced
    )

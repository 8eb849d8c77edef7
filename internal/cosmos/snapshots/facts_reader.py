"""The facts around a ScheduledVolumeSnapshot, from the cache."""

from collections.abc import Awaitable, Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from apis.cosmos import (
    CosmosFullNode,
    ScheduledSnapshotStatus,
    ScheduledVolumeSnapshot,
    ScheduledVolumeSnapshotStatus,
    SnapshotPhase,
)
from ctrlruntime.cache import Entry, Store
from ctrlruntime.gate import Cause, Permit
from ctrlruntime.lifecycle.remote import Remote
from ctrlruntime.resources import Control, Owner, Ownership
from ctrlruntime.schedule import BadSchedule, Schedule, parse
from internal.cosmos.cache.memory import NOT_ASKED
from internal.cosmos.cache.observation import Observation, Observations
from internal.cosmos.fullnode.metadata import node_ordinals
from internal.cosmos.labels import PAUSE_FINALIZER, claim_name, pod_name
from internal.cosmos.snapshots.facts import Facts, Made, Node, Paused
from internal.cosmos.snapshots.machine import IDLE
from internal.cosmos.snapshots.naming import pause_key
from internal.cosmos.snapshots.pausing import others_down
from internal.cosmos.snapshots.retention import Kept
from internal.cosmos.snapshots.snapshot_builder import source_label
from internal.cosmos.volumesnapshots import error_of, is_ready, made_at, status_of, taken_at
from internal.cosmos.workload.rollout import compute_rollout

PAUSES: Final = "pauses"
"""Index of sets of nodes: the keys that nodes of theirs are down for."""
OF_SET: Final = "node set"
"""Index of ScheduledVolumeSnapshots: the set of nodes."""
SOURCES: Final = "source"
"""Index of VolumeSnapshots: label SOURCE."""
OWNERS: Final = "owner key"
"""Index of VolumeSnapshots: the owner's key."""
OWNER_UIDS: Final = "owner uid"
"""Index of VolumeSnapshots: the owner's UID."""


_CHOOSING: Final = frozenset({SnapshotPhase.FINDING_CANDIDATE, SnapshotPhase.DELETING_POD})
"""Phases in which a node is chosen, so that the class has to be known."""


def pauses_of(entry: Entry) -> list[str]:
    """Index function of PAUSES."""
    return sorted(_raw_pauses(entry))


def set_of(entry: Entry) -> list[str]:
    """Index function of ScheduledVolumeSnapshots: `<namespace>/<name>` of the set of nodes."""
    name = ((entry.field("spec") or {}).get("fullNodeRef") or {}).get("name")
    return [f"{entry.namespace}/{name}"] if name else []


def _raw_pauses(entry: Entry) -> dict[str, dict[str, str]]:
    return (entry.field("status") or {}).get("scheduledSnapshotStatus") or {}


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Where facts come from. Nothing but `is_gone` and `lacks_class` makes a request."""

    node_sets: Store
    """CosmosFullNodes, with the index PAUSES."""
    pods: Store
    """Pods of nodes."""
    snapshots: Store
    """VolumeSnapshots, with the index SOURCES."""
    observations: Observations
    """What nodes last said."""
    control: Control
    """Decides whose a snapshot is."""
    is_defined: Callable[[], bool]
    """Whether VolumeSnapshots are defined, be they served yet or not."""
    is_served: Callable[[], bool]
    """Whether the cluster serves VolumeSnapshots."""
    is_gone: Callable[[str, str], Awaitable[bool]]
    """Whether the server itself has no Pod of a namespace and name."""
    claims: Store
    """Claims of nodes."""
    lacks_class: Callable[[str], Awaitable[bool]]
    """Whether it is certain that the server has no VolumeSnapshotClass of a name."""
    hub: Remote | None = None
    """Where Pods and snapshots are, if not in the cluster of the schedules."""

    async def facts(self, entry: Entry, schedule: ScheduledVolumeSnapshot) -> Facts:
        """Return what is so now. Raises the client's errors."""
        status, owner = schedule.status, owner_of(entry)
        times, problem = _schedule(schedule)
        found = self.node_sets.get(schedule.spec.full_node_ref.name, namespace=entry.namespace)
        node_set = None if found is None else _read(found)
        ready = self._synced(node_set)
        pod = status.candidate.pod_name if status.candidate else ""
        idle = (status.phase or SnapshotPhase.WAITING_FOR_NEXT) in IDLE
        wanted = _wanted(node_set)
        return Facts(
            name=entry.name,
            generation=entry.generation,
            deleting=entry.deletion_timestamp is not None,
            held=PAUSE_FINALIZER in entry.finalizers,
            schedule=times,
            problem=problem,
            deprecated=schedule.spec.full_node_ref.namespace is not None,
            served=self.is_served(),
            node_set=found is not None and found.deletion_timestamp is None,
            has_pinned=_has_pinned(schedule, wanted),
            synced=self._nodes(node_set, ready),
            budget=_budget(node_set, len(wanted), len(ready)),
            asked=self._asked(node_set),
            paused=tuple(self.paused(entry.namespace, entry.name)),
            others=() if found is None else tuple(_others(found, entry.name)),
            pod_gone=bool(pod) and await self._pod_gone(entry.namespace, pod, status),
            wanted=node_set is None or not pod or pod in wanted,
            back=any(each.pod == pod for each in ready),
            height=0 if node_set is None else node_set.status.height.get(pod, 0),
            made=None if idle else self._made(entry.namespace, status, owner),
            kept=self._kept(owner, schedule.spec.full_node_ref.name),
            without_class=status.phase in _CHOOSING
            and await self.lacks_class(schedule.spec.volume_snapshot_class_name),
        )

    def paused(self, namespace: str, name: str) -> Iterator[Paused]:
        """Yield the nodes that are down for a ScheduledVolumeSnapshot, whether or not it still exists."""
        key = pause_key(namespace, name)
        for node_set in self.node_sets.by_index(PAUSES, key):
            if node_set.namespace == namespace:
                asked = _raw_pauses(node_set)[key]
                yield Paused(node_set.name, str(asked.get("podCandidate", "")))

    def _synced(self, node_set: CosmosFullNode | None) -> list[Observation]:
        if node_set is None:
            return []
        return self.observations.synced(
            node_set.metadata.namespace or "", node_set.metadata.name or ""
        )

    def _asked(self, node_set: CosmosFullNode | None) -> bool:
        """Return False for a while after a start: nothing is decided, and nothing written, on what is not known yet."""
        if node_set is None:
            return True
        metadata = node_set.metadata
        seen = self.observations.collect(metadata.namespace or "", metadata.name or "")
        return all(each.error != NOT_ASKED for each in seen)

    def _nodes(self, node_set: CosmosFullNode | None, ready: list[Observation]) -> tuple[Node, ...]:
        if node_set is None:
            return ()
        namespace, name = node_set.metadata.namespace or "", node_set.metadata.name or ""
        found = []
        for each in ready:
            pod = self.pods.get(each.pod, namespace=namespace)
            if pod is not None and pod.deletion_timestamp is None:
                claim = claim_name(name, each.ordinal)
                disk = self.claims.get(claim, namespace=namespace)
                found.append(
                    Node(
                        each.pod,
                        each.ordinal,
                        claim,
                        dict(pod.labels),
                        losing_disk=disk is not None and disk.deletion_timestamp is not None,
                    )
                )
        return tuple(found)

    async def _pod_gone(
        self, namespace: str, pod: str, status: ScheduledVolumeSnapshotStatus
    ) -> bool:
        if self.pods.get(pod, namespace=namespace) is not None:
            return False
        if status.phase is not SnapshotPhase.WAITING_FOR_POD_DELETION:
            return True
        return await self.is_gone(namespace, pod)  # nobody may write while the disk is copied

    def _made(
        self, namespace: str, status: ScheduledVolumeSnapshotStatus, owner: Owner
    ) -> Made | None:
        last = status.last_snapshot
        if last is None or last.scheduled_at != status.scheduled_at:
            return None
        entry = self.snapshots.get(last.name, namespace=namespace)
        if entry is None:
            return None
        verdict = self.control.judge(entry, owner)
        holder = verdict.holder if verdict.standing is Ownership.FOREIGN else ""
        return Made(holder, is_ready(entry), error_of(entry), status_of(entry))

    def _kept(self, owner: Owner, node_set: str) -> tuple[Kept, ...]:
        """Return the copies of a set. Those of another one, which the schedule was for before, stay as they are."""
        return tuple(
            Kept(
                entry.name,
                is_ready(entry),
                error_of(entry) is not None,
                made_at(entry),
                taken_at(entry),
            )
            for entry in self.own_snapshots(owner)
            if is_of_set(entry, node_set)
        )

    def own_snapshots(self, owner: Owner) -> list[Entry]:
        """Return the VolumeSnapshots of an owner, by whatever is left of what records it.

        One that a person made, with the same labels and annotations, is not among them: it has no entry of our
        field manager, and nothing deletes, changes or counts it.
        """
        keys = {
            SOURCES: source_label(owner.name),
            OWNERS: self.control.recorded(owner).key,
            OWNER_UIDS: owner.uid,
        }
        found = {
            entry.key: entry
            for index, key in keys.items()
            for entry in self.snapshots.by_index(index, key)
        }
        return [
            entry
            for _, entry in sorted(found.items())
            if entry.namespace == owner.namespace
            and entry.deletion_timestamp is None
            and isinstance(self.control.permit(entry, owner, Cause.RETENTION), Permit)
        ]


def owner_of(entry: Entry) -> Owner:
    """Return a ScheduledVolumeSnapshot as the owner of its snapshots."""
    return Owner.of(entry)


def is_of_set(snapshot: Entry, node_set: str) -> bool:
    """Whether a VolumeSnapshot is of a claim of a set of nodes."""
    claim = ((snapshot.field("spec") or {}).get("source") or {}).get("persistentVolumeClaimName")
    ordinal = str(claim).rpartition("-")[2]
    return ordinal.isascii() and ordinal.isdigit() and claim == claim_name(node_set, int(ordinal))


def _schedule(schedule: ScheduledVolumeSnapshot) -> tuple[Schedule | None, str]:
    try:
        return parse(schedule.spec.schedule, schedule.spec.time_zone), ""
    except BadSchedule as error:
        return None, str(error)


def _read(entry: Entry) -> CosmosFullNode | None:
    try:
        return entry.typed(CosmosFullNode)
    except ValidationError:
        return None  # its own controller says so; a node that is down is restored all the same


def _wanted(node_set: CosmosFullNode | None) -> set[str]:
    """Names of the Pods that a set would have if no node were down."""
    if node_set is None:
        return set()
    overrides = node_set.spec.instance_overrides
    names = (pod_name(node_set.metadata.name or "", each) for each in node_ordinals(node_set))
    return {
        name for name in names if overrides.get(name) is None or overrides[name].disable is None
    }


def _budget(node_set: CosmosFullNode | None, desired: int, ready: int) -> int:
    if node_set is None:
        return 0
    try:
        return compute_rollout(node_set.spec.strategy.max_unavailable, desired, ready)
    except ValueError:
        return 0


def _others(node_set: Entry, name: str) -> list[str]:
    paused = {
        key: ScheduledSnapshotStatus(pod_candidate=str(each.get("podCandidate", "")))
        for key, each in _raw_pauses(node_set).items()
    }
    return others_down(paused, pause_key(node_set.namespace, name), node_set.namespace)


def _has_pinned(schedule: ScheduledVolumeSnapshot, wanted: Collection[str]) -> bool:
    """Whether the node that a schedule names is among the Pods that its set wants; also if it names none."""
    reference = schedule.spec.full_node_ref
    return reference.ordinal is None or pod_name(reference.name, reference.ordinal) in wanted

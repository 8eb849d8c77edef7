"""The status of a set of nodes: what a pass found out, in words that a human can act on. Pure.

Several write the same status. What is written here touches only what belongs to the set itself: the pauses
for snapshots and the requests for larger disks are others' (but for a request whose disk is gone).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Final

from apis.cosmos import CosmosFullNodeStatus, FullNodePhase, RolloutStatus, SyncInfo
from apis.waiting import ChangesWaiting
from ctrlruntime.api import Condition, find_condition, remove_condition, set_condition
from ctrlruntime.lifecycle.remote import HUB_READY, ClusterTrouble, hub_condition
from internal.cosmos.cache.observation import Observation
from internal.cosmos.fullnode.full_disks import DISKS_FULL
from internal.cosmos.fullnode.metadata import image_tag
from internal.cosmos.fullnode.peers import Peers
from internal.cosmos.workload.lost_disks import LOSING
from internal.cosmos.workload.pod_trouble import OF_POD

READY: Final = "Ready"
"""Condition: every node that is wanted has caught up."""
PROGRESSING: Final = "Progressing"
"""Condition: a reconcile is in progress."""
CLAIMS: Final = "ClaimsAsSpecified"
"""Condition: no disk differs from the spec in what cannot be changed."""
HELD: Final = "BuilderChangeHeld"
"""Condition: a new manager would build objects in another way, and has not."""
HALTED: Final = "RolloutHalted"
"""Condition: failed Pods halt a rollout; only with `strategy.haltOnFailures`."""
CRDS: Final = "CRDsAvailable"
"""Condition: the cluster serves snapshots; only where disks are filled from them."""
INVALID: Final = "InvalidSpec"
"""Reason of Ready: a field of the spec cannot be used; the message names it."""
STALLED: Final = "ChainStalled"
"""Reason of Ready: nodes have caught up, and none of their blocks is new."""
PASSING: Final = (HELD, CRDS, DISKS_FULL, HALTED, HUB_READY, LOSING)
"""Conditions that are there only where they say something."""
SECONDS_OF_A_WRITE: Final = 60
"""Heights alone are written once in that many seconds at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a pass found out."""

    generation: int
    phase: FullNodePhase
    message: str
    reason: str = "RolloutInProgress"
    """Of Ready, while the phase is Progressing."""
    is_invalid: bool = False
    """Whether a field of the spec cannot be used."""
    selector: str = ""
    replicas: int = 0
    """Pods of nodes that exist."""
    wanted: int = 0
    """Nodes that are to run: neither disabled nor down for a snapshot."""
    nodes: Collection[str] = ()
    """Names of the Pods whose height is kept: those wanted, and those whose disk is still there."""
    sync: Mapping[str, SyncInfo] = field(default_factory=dict)
    """What they said; see `synced`."""
    heights: Mapping[str, int] = field(default_factory=dict)
    """The next height of each node, as far as it is known from the nodes."""
    lowered: Mapping[str, int] = field(default_factory=dict)
    """Heights of nodes that are recorded too high."""
    disk_heights: Mapping[str, int] = field(default_factory=dict)
    """The next height that was recorded on a node's disk, by Pod: it counts until another one is known."""
    images: Mapping[int, str] = field(default_factory=dict)
    """The image that nodes without one of their own run from each height on."""
    crossed: bool = False
    """Whether one of them decides on another version: then they are written at once."""
    peers: Sequence[str] | None = None
    """Addresses for peers outside, once all are known."""
    rollout: RolloutStatus | None = None
    """None: the Pods were not looked at."""
    waiting: ChangesWaiting | None = None
    """Changes that a freeze holds."""
    sidecar_image: str = ""
    emptied: Collection[str] = ()
    """Claims that were made or taken away: what was known of their nodes is no longer so."""
    emptied_nodes: Collection[str] = ()
    """The Pods of those claims."""
    conditions: Sequence[Condition] = ()
    """Beside Ready and Progressing."""


def set_status(status: CosmosFullNodeStatus, facts: Facts, now: datetime) -> None:
    """Put the facts into a status, which may be newer than the one that they were found with."""
    status.observed_generation = facts.generation
    status.phase, status.status = facts.phase, facts.message
    status.replicas, status.selector = facts.replicas, facts.selector
    status.ready_replicas = ready_count(facts.sync)
    if facts.peers is not None:
        status.peers = list(facts.peers)
    if facts.rollout is not None:
        status.rollout = facts.rollout.model_copy()
    status.waiting = facts.waiting
    if facts.sidecar_image and not status.sidecar_image:
        status.sidecar_image = facts.sidecar_image
    set_sync(status, facts, now)
    status.version = _version(facts.images, max(status.height.values(), default=0))
    for claim in facts.emptied:
        status.self_healing.pvc_auto_scaler.pop(claim, None)
    _set_conditions(status, facts, now)


def refuse(status: CosmosFullNodeStatus, generation: int, message: str, now: datetime) -> None:
    """Record that the spec cannot be read: nothing was done for it."""
    status.observed_generation = generation
    status.phase, status.status = FullNodePhase.ERROR, message
    facts = Facts(generation=generation, phase=status.phase, message=message, is_invalid=True)
    for condition in (_ready(status, facts), _progressing(facts)):
        stamped = condition.model_copy(update={"observed_generation": generation})
        set_condition(status.conditions, stamped, now)


def lose_hub(
    status: CosmosFullNodeStatus, generation: int, trouble: ClusterTrouble, now: datetime
) -> None:
    """Record that the objects on the hub are unknown: nothing was done for the set."""
    status.observed_generation = generation
    status.phase, status.status = FullNodePhase.TRANSIENT_ERROR, trouble.message
    facts = Facts(generation=generation, phase=status.phase, message=trouble.message)
    for condition in (_ready(status, facts), _progressing(facts), hub_condition([trouble])):
        stamped = condition.model_copy(update={"observed_generation": generation})
        set_condition(status.conditions, stamped, now)


def set_sync(status: CosmosFullNodeStatus, facts: Facts, now: datetime) -> None:
    """Set what the nodes reported. Heights alone are written at most once a minute."""
    heights = {pod: height for pod, height in status.height.items() if pod in facts.nodes}
    for pod in facts.emptied_nodes:
        heights.pop(pod, None)
    known_of_disks = {pod: at for pod, at in facts.disk_heights.items() if pod in facts.nodes}
    heights = {**known_of_disks, **heights}
    if (
        _is_news(status.sync, facts.sync)
        or facts.crossed
        or not until_due(status.sync.values(), now)
    ):
        status.sync = dict(facts.sync)
        known = {pod: height for pod, height in facts.heights.items() if pod in facts.nodes}
        heights = highest(heights, known)
    heights.update({pod: at for pod, at in facts.lowered.items() if pod in heights})
    if heights != status.height:
        status.height = heights
    blocks = [info.height for info in status.sync.values() if info.height is not None]
    status.last_block = max(blocks, default=status.last_block)


def _version(images: Mapping[int, str], height: int) -> str:
    """Return the tag of the image for a height; empty where none is listed."""
    reached = [start for start in images if start <= height]
    return image_tag(images[max(reached)]) if reached else ""


def highest(*known: Mapping[str, int]) -> dict[str, int]:
    """Return the greatest height that is known of each node, by name."""
    found: dict[str, int] = {}
    for heights in known:
        for pod, height in heights.items():
            found[pod] = max(height, found.get(pod, 0))
    return dict(sorted(found.items()))


def next_heights(observations: Iterable[Observation]) -> dict[str, int]:
    """Return the height that each node makes next, of those that answered."""
    return {
        each.pod: each.height + 1
        for each in observations
        if each.is_reachable and each.height is not None
    }


def answers_of_own(observations: Iterable[Observation], peers: Peers) -> list[Observation]:
    """Return those that the node itself may have given.

    The address of a Pod that is gone may be another node's by now, of the same chain: its key has another id.
    """
    ids = {peer.pod: peer.id for peer in peers.nodes}
    return [each for each in observations if each.node_id in ("", ids.get(each.pod, each.node_id))]


def earlier_heights(observations: Iterable[Observation]) -> dict[str, int]:
    """Return the same by the answers before the last."""
    return {
        each.pod: each.earlier_height + 1
        for each in observations
        if each.earlier_height is not None
    }


def synced(
    before: Mapping[str, SyncInfo],
    observations: Iterable[Observation],
    now: datetime,
    made: Collection[str] = (),
    used: Mapping[str, int] = MappingProxyType({}),
) -> dict[str, SyncInfo]:
    """`status.sync`. The time of a node is kept as long as it is the same. `used`: percent of each disk, by Pod.

    One that this manager has not asked yet is as an earlier one left it, unless its Pod was `made` anew. One whose
    Pod is being deleted or has no address is not asked either, but known not to work.
    """
    minute = now.replace(second=0, microsecond=0)
    found: dict[str, SyncInfo] = {}
    for each in sorted(observations, key=lambda item: (item.ordinal, item.pod)):
        info, old = _info(each, minute), before.get(each.pod)
        unasked = each.at is None and not each.error.startswith(OF_POD)
        if old is not None and unasked and each.pod not in made:
            info = old.model_copy()
        before_used = None if old is None or each.pod in made else old.disk_used_percentage
        info.disk_used_percentage = used.get(each.pod, before_used)
        same = old is not None and old.model_copy(update={"timestamp": minute}) == info
        found[each.pod] = old if old is not None and same else info
    return found


def stalled_nodes(observations: Sequence[Observation], before: CosmosFullNodeStatus) -> list[str]:
    """Return the nodes that have caught up and have no new block.

    Those that this manager has not asked yet are as an earlier one left them.
    """
    found = [each.pod for each in observations if each.is_stalled]
    ready = find_condition(before.conditions, READY)
    if found or ready is None or ready.reason != STALLED:
        return found
    return [each.pod for each in observations if each.at is None]


def ready_count(sync: Mapping[str, SyncInfo]) -> int:
    """Nodes that have caught up."""
    return sum(info.in_sync is True for info in sync.values())


def _info(observation: Observation, minute: datetime) -> SyncInfo:
    if observation.is_reachable:
        in_sync = observation.is_in_sync
        return SyncInfo(timestamp=minute, height=observation.height, in_sync=in_sync)
    error = observation.error or "It has not been asked yet."
    return SyncInfo(timestamp=minute, error=error)


def until_due(sync: Iterable[SyncInfo], now: datetime) -> float:
    """Return the seconds until heights may be written again; 0: they may now.

    A time in the future is of a manager whose clock is ahead, and delays nothing.
    """
    times = [info.timestamp for info in sync if info.timestamp is not None]
    passed = (now - max(times)).total_seconds() if times else -1.0
    return max(SECONDS_OF_A_WRITE - passed, 0.0) if passed >= 0 else 0.0


def until_complete(status: CosmosFullNodeStatus, facts: Facts, now: datetime) -> float | None:
    """Return the seconds until heights and usages may be written that `set_status` left out; None if it left out none."""
    if _shown(status.sync) == _shown(facts.sync):
        known = {pod: at for pod, at in facts.heights.items() if pod in facts.nodes}
        if highest(status.height, known) == highest(status.height):
            return None
    return max(until_due(status.sync.values(), now), 1.0)


def _shown(sync: Mapping[str, SyncInfo]) -> dict[str, object]:
    return {
        pod: (info.height, info.disk_used_percentage, of_pod(info)) for pod, info in sync.items()
    }


def _is_news(before: Mapping[str, SyncInfo], after: Mapping[str, SyncInfo]) -> bool:
    """Whether another node has caught up or cannot be reached, or a Pod shows another trouble: worth a write at once.

    That a trouble is over, and the node has not answered yet, can wait: a container that keeps ending runs at times.
    """
    if before.keys() != after.keys():
        return True
    return any(
        (info.in_sync, info.error is None) != (before[pod].in_sync, before[pod].error is None)
        or (of_pod(info) and info.error != before[pod].error)
        for pod, info in after.items()
    )


def of_pod(info: SyncInfo) -> bool:
    """Whether the node is silent for a reason that its Pod shows."""
    return (info.error or "").startswith(OF_POD)


def _set_conditions(status: CosmosFullNodeStatus, facts: Facts, now: datetime) -> None:
    told = [_ready(status, facts), _progressing(facts), *facts.conditions]
    for condition in told:
        stamped = condition.model_copy(update={"observed_generation": facts.generation})
        set_condition(status.conditions, stamped, now)
    for kind in set(PASSING) - {condition.type for condition in told}:
        remove_condition(status.conditions, kind)


def _ready(status: CosmosFullNodeStatus, facts: Facts) -> Condition:
    """Never better than the phase: what was not carried out is not ready."""
    count = f"{status.ready_replicas} of {facts.wanted} nodes have caught up."
    reason, message = "InSync", count
    if facts.phase is FullNodePhase.ERROR:
        reason, message = INVALID if facts.is_invalid else "ReconcileError", facts.message
    elif facts.phase is FullNodePhase.TRANSIENT_ERROR:
        reason, message = "TransientError", facts.message
    elif status.ready_replicas < facts.wanted:
        reason = "NodesBehind"
    elif facts.phase is FullNodePhase.PROGRESSING:
        reason, message = facts.reason, facts.message
    return Condition(
        type=READY,
        status="True" if reason == "InSync" else "False",
        reason=reason,
        message=message,
    )


def _progressing(facts: Facts) -> Condition:
    busy = facts.phase in (FullNodePhase.PROGRESSING, FullNodePhase.TRANSIENT_ERROR)
    return Condition(
        type=PROGRESSING,
        status="True" if busy else "False",
        reason=facts.phase.value,
        message=facts.message,
    )

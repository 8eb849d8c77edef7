"""Which node's disk is copied. Pure."""

from apis.cosmos import ScheduledVolumeSnapshotSpec
from internal.cosmos.snapshots.facts import Facts, Node


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

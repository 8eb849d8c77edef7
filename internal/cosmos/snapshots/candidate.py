"""Which node's disk is copied. Pure."""

from apis.cosmos import ScheduledVolumeSnapshotSpec
from internal.cosmos.snapshots.facts import Facts, Node


class NoCandidate(Exception):
    """No node can be taken now; the message gives the reason."""


def choose(spec: ScheduledVolumeSnapshotSpec, facts: Facts) -> Node:
    """Return the node that is pinned, else the first that is in sync. Raises NoCandidate."""
    reference, synced = spec.full_node_ref, facts.synced
    if not facts.node_set:
        raise NoCandidate(f"CosmosFullNode {reference.name} does not exist")
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
    if reference.ordinal is None:
        return synced[0]
    for node in synced:
        if node.ordinal == reference.ordinal:
            return node
    raise NoCandidate(f"node {reference.ordinal} of {reference.name} is not in sync")


def is_still(pod: str, spec: ScheduledVolumeSnapshotSpec, facts: Facts) -> bool:
    """Whether a node chosen earlier could be chosen now."""
    try:
        choose(spec, facts)
    except NoCandidate:
        return False
    pinned = spec.full_node_ref.ordinal
    return any(
        node.pod == pod and (pinned is None or node.ordinal == pinned) for node in facts.synced
    )

"""Changes of a set of nodes that a freeze holds. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from apis.cosmos import CosmosFullNode
from ctrlruntime.cache.entry import Entry
from ctrlruntime.resources.ordinal import ordinal_of
from internal.cosmos.fullnode.metadata import named
from internal.cosmos.fullnode.phase import Found
from internal.cosmos.labels import pod_name


def keep_nodes(node_set: CosmosFullNode, pods: Iterable[Entry]) -> frozenset[str]:
    """Give the set, in memory, as many replicas that its nodes which exist stay; return the Pods of those beyond.

    So all that belongs to them stays as well: disks, Services and ConfigMaps.
    """
    spec = node_set.spec
    end = spec.ordinals.start + spec.replicas
    name = named(node_set)
    numbers = [ordinal_of(pod) for pod in pods if pod.name == pod_name(name, ordinal_of(pod))]
    beyond = [number for number in numbers if number >= end]
    if beyond:
        spec.replicas = max(beyond) + 1 - spec.ordinals.start
    return frozenset(pod_name(name, number) for number in beyond)


def frozen_changes(found: Found, kept: frozenset[str]) -> int:
    """Return how many changes were not made; a Pod that is `kept` and outdated too counts once."""
    parts = (found.pods, found.additional)
    names = kept.union(*(part.frozen for part in parts if part is not None))
    return len(names) + (0 if found.claims is None else found.claims.frozen)

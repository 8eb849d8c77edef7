"""The ConfigMaps with what is laid over the configuration of each node."""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from apis.cosmos import CosmosFullNode, PeerRollout
from ctrlruntime.controller.aggregate_error import TransientError, UnrecoverableError
from ctrlruntime.resources import Action, Desired, Outcome, Owner
from internal.cosmos.fullnode.configmap_builder import build_config_maps, steady_checksums
from internal.cosmos.fullnode.errors import Findings
from internal.cosmos.fullnode.metadata import named, node_ordinals
from internal.cosmos.fullnode.node_key import NodeKey
from internal.cosmos.fullnode.objects import Objects
from internal.cosmos.fullnode.peers import Peers
from internal.cosmos.labels import pod_name
from internal.cosmos.workload.checksums import (
    CONFIG_CHECKSUM,
    checksum_in_effect,
    checksummed,
    sticky_checksummed,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ConfigMapControl:
    """Makes, updates and deletes them."""

    config_maps: Objects

    async def reconcile(
        self,
        node_set: CosmosFullNode,
        owner: Owner,
        keys: Mapping[str, NodeKey],
        peers: Peers,
        findings: Findings,
        staying: Collection[int] = (),
    ) -> dict[str, str]:
        """Return the checksum of what each node reads, by name of its Pod.

        That is of what is there, not of what should be: a Pod that was made anew before its configuration
        was written would never learn of it. A node is left out if nothing is there.
        Those of nodes of the numbers `staying` are not deleted.
        """
        desired: dict[str, Desired] = {}
        done: dict[str, Outcome] = {}
        try:
            built = await self._built(node_set, keys, peers)
            _check_keys(node_set, keys)
        except (UnrecoverableError, TransientError) as error:
            findings.append(error)
        else:
            desired = {item.name: item for item in built}
            done = await self.config_maps.reconcile(
                built, owner, findings, deletes=True, staying=staying
            )
        found = {
            pod: self._checksum(node_set, pod, desired.get(pod), done.get(pod))
            for pod in _pods(node_set)
        }
        return {pod: checksum for pod, checksum in found.items() if checksum}

    async def _built(
        self, node_set: CosmosFullNode, keys: Mapping[str, NodeKey], peers: Peers
    ) -> list[Desired]:
        found = await _in_turns(build_config_maps(node_set, keys, peers))
        if node_set.spec.peers.rollout is PeerRollout.ROLLING:
            return [checksummed(item) for item in found]
        steady = dict(await _in_turns(steady_checksums(node_set, peers)))
        place = node_set.metadata.namespace
        return [
            sticky_checksummed(item, steady[item.name], self.config_maps.find(item.name, place))
            for item in found
        ]

    def _checksum(
        self, node_set: CosmosFullNode, pod: str, desired: Desired | None, outcome: Outcome | None
    ) -> str:
        if desired is not None and outcome is not None and outcome.action is not Action.CONFLICT:
            return checksum_in_effect(desired, outcome.entry)
        entry = self.config_maps.find(pod, node_set.metadata.namespace)
        return "" if entry is None else entry.annotations.get(CONFIG_CHECKSUM, "")


async def _in_turns(made: Iterable[T]) -> list[T]:
    """Return what is made, with a turn of the loop after each: two files take some milliseconds to write."""
    found = []
    for each in made:
        found.append(each)
        await asyncio.sleep(0)
    return found


def _pods(node_set: CosmosFullNode) -> list[str]:
    return [pod_name(named(node_set), ordinal) for ordinal in node_ordinals(node_set)]


def _check_keys(node_set: CosmosFullNode, keys: Mapping[str, NodeKey]) -> None:
    """Raise TransientError while a node cannot be given to others: their configuration would change twice."""
    lacking = [pod for pod in _pods(node_set) if pod not in keys]
    if lacking:
        raise TransientError(f"no ConfigMap is changed while {lacking[0]} has no node key")

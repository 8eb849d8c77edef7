"""Who the nodes of a set are to others: their keys, and the addresses that load balancers gave them."""

from collections.abc import Mapping
from dataclasses import dataclass

from apis.cosmos import CosmosFullNode
from ctrlruntime.resources import Owner
from internal.cosmos.fullnode.node_key import NodeKey
from internal.cosmos.fullnode.objects import Objects
from internal.cosmos.fullnode.peers import Peers, build_peers


@dataclass(frozen=True, slots=True)
class PeerCollector:
    """Reads the Services as they are in the cache."""

    services: Objects

    def collect(self, node_set: CosmosFullNode, owner: Owner, keys: Mapping[str, NodeKey]) -> Peers:
        """Return the nodes whose keys are known."""
        found = {entry.name: entry.decode() for entry in self.services.of(owner).values()}
        return build_peers(node_set, keys, found)

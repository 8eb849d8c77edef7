"""Who the nodes of a set are to each other and to peers outside. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apis.cosmos import CosmosFullNode
from internal.cosmos.fullnode.metadata import named, node_ordinals
from internal.cosmos.fullnode.node_key import NodeKey
from internal.cosmos.fullnode.ports import P2P
from internal.cosmos.labels import p2p_service_name, pod_name

Service = Mapping[str, Any]
"""A Service as it is in the cluster, with its status."""


@dataclass(frozen=True, slots=True)
class Peer:
    """One node, as others see it."""

    pod: str
    """Name of its Pod."""
    id: str
    """Id of its key."""
    address: str
    """`host:port` within the cluster."""
    external: str = ""
    """`host:port` for peers outside; empty if it has none, or none yet."""
    awaited: bool = False
    """Whether it gets an address for peers outside and has none yet."""

    @property
    def private_peer(self) -> str:
        """`id@host:port` within the cluster."""
        return f"{self.id}@{self.address}"

    @property
    def external_peer(self) -> str:
        """`id@host:port` for peers outside; empty if there is none."""
        return f"{self.id}@{self.external}" if self.external else ""


@dataclass(frozen=True, slots=True)
class Peers:
    """The nodes of a set, by number."""

    nodes: tuple[Peer, ...] = ()
    _by_pod: dict[str, Peer] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_pod", {peer.pod: peer for peer in self.nodes})

    def get(self, pod: str) -> Peer | None:
        return self._by_pod.get(pod)

    def others(self, pod: str) -> tuple[Peer, ...]:
        """All but one."""
        return tuple(peer for peer in self.nodes if peer.pod != pod)

    @property
    def external(self) -> list[str]:
        """`id@host:port` of those that peers outside can reach."""
        return [peer.external_peer for peer in self.nodes if peer.external]

    @property
    def awaited(self) -> list[str]:
        """Pods that are to have an address for peers outside and have none yet."""
        return [peer.pod for peer in self.nodes if peer.awaited]


def build_peers(
    node_set: CosmosFullNode, keys: Mapping[str, NodeKey], services: Mapping[str, Service]
) -> Peers:
    """Return the nodes, by their keys (by name of the Pod) and the Services that exist (by name).

    A node without key is left out: no peer could connect to it by id.
    """
    name, spec = named(node_set), node_set.spec
    domain = f"{node_set.metadata.namespace}.svc.{spec.service.cluster_domain}"
    found = []
    for ordinal in node_ordinals(node_set):
        pod, service = pod_name(name, ordinal), p2p_service_name(name, ordinal)
        if pod not in keys:
            continue
        override = spec.instance_overrides.get(pod)
        given = (override.external_address or "") if override is not None else ""
        existing = services.get(service)
        external = given or external_address(existing)
        awaits = not external and (existing is None or _is_balanced(existing))
        wants = ordinal - spec.ordinals.start < spec.service.max_p2p_external_addresses
        found.append(
            Peer(
                pod,
                keys[pod].id,
                f"{service}.{domain}:{P2P}",
                external=external,
                awaited=wants and awaits and _wants_balancer(node_set),
            )
        )
    return Peers(tuple(found))


def external_address(service: Service | None) -> str:
    """`host:port` that a load balancer gave a Service; empty if it gave none."""
    if service is None or not _is_balanced(service):
        return ""
    ingress = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    host = next((each.get("ip") or each.get("hostname") for each in ingress), None)
    ports = (service.get("spec") or {}).get("ports") or []
    port = next((each.get("port") for each in ports if each.get("name") == "p2p"), P2P)
    if not host:
        return ""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_balanced(service: Service) -> bool:
    return (service.get("spec") or {}).get("type") == "LoadBalancer"


def _wants_balancer(node_set: CosmosFullNode) -> bool:
    return (node_set.spec.service.p2p_template.type or "LoadBalancer") == "LoadBalancer"

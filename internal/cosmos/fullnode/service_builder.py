"""Services: one for requests to all nodes, one per node for its peers, one per sentry for its signer. Pure.

Peers are never spread over several nodes: a peer that meets another node at the same address would take
it for a node that lies.
"""

from typing import Any

from apis.cosmos import CosmosFullNode, FullNodeType, ServiceOverride
from ctrlruntime.resources import Desired
from internal.cosmos import labels as label_keys
from internal.cosmos.fullnode.desired_objects import SERVICE, built, inputs_of
from internal.cosmos.fullnode.metadata import (
    default_labels,
    metadata,
    named,
    node_ordinals,
    node_selector,
)
from internal.cosmos.fullnode.ports import (
    API,
    GRPC,
    GRPC_WEB,
    P2P,
    PRIVVAL,
    ROSETTA,
    RPC,
    service_port,
)
from internal.cosmos.names import to_label_value

_EXTERNAL = ("LoadBalancer", "NodePort")


def build_services(node_set: CosmosFullNode) -> list[Desired]:
    """All Services of a set: those of its nodes by number, then the one for requests."""
    services = []
    for place, ordinal in enumerate(node_ordinals(node_set)):
        services.append(_p2p(node_set, place, ordinal))
        if node_set.spec.type is FullNodeType.SENTRY:
            services.append(_privval(node_set, place, ordinal))
    return [*services, _rpc(node_set)]


def _p2p(node_set: CosmosFullNode, place: int, ordinal: int) -> Desired:
    template = node_set.spec.service.p2p_template
    spec = {
        "type": "ClusterIP",
        "ports": [service_port("p2p", P2P)],
        "selector": _one_node(node_set, ordinal),
    }
    external = place < node_set.spec.service.max_p2p_external_addresses
    if external:
        kind = template.type or "LoadBalancer"
        local = {"externalTrafficPolicy": "Local"} if kind in _EXTERNAL else {}
        spec = overridden({**spec, "type": kind, **local}, template)
    return _service(
        node_set,
        label_keys.p2p_service_name(named(node_set), ordinal),
        spec,
        component="p2p",
        template=template if external else None,
        ordinal=place,
        instance=ordinal,
    )


def _privval(node_set: CosmosFullNode, place: int, ordinal: int) -> Desired:
    """Return the Service by which a signer finds a sentry, which is ready only after that: its address is published before."""
    spec = {
        "type": "ClusterIP",
        "ports": [service_port("privval", PRIVVAL)],
        "selector": _one_node(node_set, ordinal),
        "publishNotReadyAddresses": True,
    }
    name = label_keys.privval_service_name(named(node_set), ordinal)
    return _service(
        node_set, name, spec, component=label_keys.SENTRY, ordinal=place, instance=ordinal
    )


def _rpc(node_set: CosmosFullNode) -> Desired:
    template = node_set.spec.service.rpc_template
    ports = {"api": API, "rosetta": ROSETTA, "grpc": GRPC, "rpc": RPC, "grpc-web": GRPC_WEB}
    spec = {
        "type": "ClusterIP",
        "ports": [service_port(name, port) for name, port in ports.items()],
        "selector": node_selector(node_set),
    }
    return _service(
        node_set,
        label_keys.rpc_service_name(named(node_set)),
        overridden(spec, template),
        component="rpc",
        template=template,
        ordinal=node_set.spec.replicas,
    )


def _one_node(node_set: CosmosFullNode, ordinal: int) -> dict[str, str]:
    pod = label_keys.pod_name(named(node_set), ordinal)
    return {**node_selector(node_set), label_keys.INSTANCE: to_label_value(pod)}


def overridden(spec: dict[str, Any], template: ServiceOverride) -> dict[str, Any]:
    """Return a Service's spec with a template's changes. A port of a name we use is merged into the manager's."""
    made = dict(spec)
    said = {
        "type": template.type,
        "clusterIP": template.cluster_ip,
        "externalTrafficPolicy": template.external_traffic_policy,
    }
    made.update({key: value for key, value in said.items() if value is not None})
    if template.ports:
        theirs = {port.get("name"): port for port in template.ports}
        ours = [{**port, **theirs.pop(port["name"], {})} for port in spec["ports"]]
        added = [port for port in template.ports if port.get("name") in theirs]
        made["ports"] = [*ours, *({"protocol": "TCP", **port} for port in added)]
    return made


def _service(
    node_set: CosmosFullNode,
    name: str,
    spec: dict[str, Any],
    *,
    component: str,
    ordinal: int,
    template: ServiceOverride | None = None,
    instance: int | None = None,
) -> Desired:
    labels = default_labels(node_set, component=component, ordinal=instance)
    given = None if template is None else template.metadata
    return built(
        node_set,
        SERVICE,
        {"metadata": metadata(node_set, name, labels, given), "spec": spec},
        inputs_of(name, component, labels, template),
        ordinal=ordinal,
        instance=instance,
    )

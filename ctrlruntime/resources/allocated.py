"""What a server gave a Service stays with it where all of its spec is replaced.

From 1.22 on (1.21.5, 1.20.11) a server carries these values over itself where an update names none of
them. Before, it refuses the update for its addresses, and allocates other node ports each time.
"""

from typing import Any, Final

from ctrlruntime.api.kinds import GroupKind

Manifest = dict[str, Any]

SERVICE: Final = GroupKind("", "Service")
ADDRESSES: Final = ("clusterIP", "clusterIPs")
WITHOUT_ADDRESSES: Final = "ExternalName"
WITH_NODE_PORTS: Final = ("NodePort", "LoadBalancer")


def with_allocated(kind: GroupKind, wanted: Manifest, live: Manifest) -> Manifest:
    """The spec to replace `live` by: the wanted one, and of a Service what it does not name."""
    if kind != SERVICE or not live:
        return wanted
    made = dict(wanted)
    type_ = wanted.get("type", "ClusterIP")
    if type_ != WITHOUT_ADDRESSES and not any(name in wanted for name in ADDRESSES):
        made |= {name: live[name] for name in ADDRESSES if name in live}
    if type_ in WITH_NODE_PORTS and "ports" in wanted:
        given = {
            _port(each): each["nodePort"] for each in live.get("ports", ()) if "nodePort" in each
        }
        made["ports"] = [_with_node_port(each, given) for each in wanted["ports"]]
    return made


def _port(port: Manifest) -> tuple[Any, Any]:
    return port.get("port"), port.get("protocol", "TCP")


def _with_node_port(port: Manifest, given: dict[tuple[Any, Any], int]) -> Manifest:
    number = given.get(_port(port))
    return port if "nodePort" in port or number is None else {**port, "nodePort": number}

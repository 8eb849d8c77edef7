"""Where a node listens. Pure."""

from __future__ import annotations

import re
from typing import Any, Final

from apis.cosmos import CosmosFullNode, FullNodeType
from internal.cosmos.labels import RPC_PORT

API: Final = 1317
ROSETTA: Final = 8080
GRPC: Final = 9090
GRPC_WEB: Final = 9091
PROMETHEUS: Final = 26660
RPC: Final = 26657
P2P: Final = 26656
PRIVVAL: Final = 1234

_PORT = re.compile(r":([0-9]{1,5})/?$")


def port_of(address: str, default: int) -> int:
    """Return the port of an address such as tcp://0.0.0.0:26657."""
    match = _PORT.search(address)
    return int(match[1]) if match else default


def rpc_port(node_set: CosmosFullNode) -> int:
    """Where a node answers requests."""
    return port_of(node_set.spec.chain.config.rpc_listen_address, RPC)


def p2p_port(node_set: CosmosFullNode) -> int:
    """Where peers connect to a node."""
    return port_of(node_set.spec.chain.config.p2p_listen_address, P2P)


def container_ports(node_set: CosmosFullNode) -> list[dict[str, Any]]:
    """Ports of the container `node`."""
    ports = {
        "api": API,
        "rosetta": ROSETTA,
        "grpc": GRPC,
        "prometheus": PROMETHEUS,
        "p2p": p2p_port(node_set),
        RPC_PORT: rpc_port(node_set),
        "grpc-web": GRPC_WEB,
    }
    if node_set.spec.type is FullNodeType.SENTRY:
        ports["privval"] = PRIVVAL
    return [
        {"name": name, "containerPort": port, "protocol": "TCP"} for name, port in ports.items()
    ]


def service_port(name: str, port: int) -> dict[str, Any]:
    """Return a Service's port that leads to the container's port of the same name."""
    return {"name": name, "port": port, "protocol": "TCP", "targetPort": name}

"""Where a node listens. Pure."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import lru_cache
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

MOST_CHARACTERS: Final = 65_536
"""Of overrides of a file: 20 ms of a parser."""
DEEPEST: Final = 32
"""Levels of tables and lists in them. A parser's time grows by the square of the parts of a dotted key."""

Places = Mapping[str, tuple[tuple[str, ...], ...]]
"""By name of the port: where its listen address is in a file, in either spelling of the keys."""
IN_CONFIG: Final[Places] = {
    RPC_PORT: (("rpc", "laddr"),),
    "p2p": (("p2p", "laddr"),),
    "prometheus": (
        ("instrumentation", "prometheus_listen_addr"),
        ("instrumentation", "prometheus-listen-addr"),
    ),
    "privval": (("priv_validator_laddr",), ("priv-validator", "laddr")),
}
IN_APP: Final[Places] = {
    "api": (("api", "address"),),
    "grpc": (("grpc", "address"),),
    "grpc-web": (("grpc-web", "address"),),
}
_LONG_KEY = re.compile(rf"""(?<![\w"'-])(?:[\w"'-]++[ \t]*+\.[ \t]*+){{{DEEPEST + 1}}}""")
_LOOPBACK = re.compile(r"^([a-z]+://)?(localhost|127\.[0-9.]+|\[?::1\]?):[0-9]+/?$")
_PORT = re.compile(r":([0-9]{1,5})/?$")


def port_of(address: str, default: int) -> int:
    """Return the port of an address such as tcp://0.0.0.0:26657."""
    match = _PORT.search(address)
    return int(match[1]) if match else default


def rpc_port(node_set: CosmosFullNode) -> int:
    """Where a node answers requests."""
    return _numbers(node_set)[RPC_PORT]


def container_ports(node_set: CosmosFullNode) -> list[dict[str, Any]]:
    """Ports of the container `node`, where its configuration has it listen, overrides included."""
    return [
        {"name": name, "containerPort": port, "protocol": "TCP"}
        for name, port in _numbers(node_set).items()
    ]


def too_long(overrides: str) -> str:
    """Return why overrides of a file would take a parser long; empty if they would not."""
    if len(overrides) > MOST_CHARACTERS:
        return f"has more than {MOST_CHARACTERS} characters"
    if _LONG_KEY.search(overrides):
        return f"has a key of more than {DEEPEST} parts"
    return ""


def moved(overrides: Mapping[str, Any], places: Places) -> dict[str, int]:
    """Return the ports that overrides of a file move, by name. Raises ValueError for an address that cannot be used."""
    found: dict[str, int] = {}
    for name, paths in places.items():
        for path in paths:
            address: Any = overrides
            for key in path:
                address = address.get(key) if isinstance(address, Mapping) else None
            if address is None or (name != RPC_PORT and _has_no_port(address)):
                continue
            if not isinstance(address, str) or not 0 < port_of(address, 0) < 1 << 16:
                raise ValueError(
                    f"{'.'.join(path)} is {address!r}, and has to be an address with a port, "
                    "such as tcp://0.0.0.0:26657"
                )
            if name == RPC_PORT and _LOOPBACK.match(address):
                raise ValueError(
                    f"{'.'.join(path)} is {address!r}, where neither the manager nor probes reach the node: "
                    "listen at 0.0.0.0"
                )
            found[name] = port_of(address, 0)
    return found


def _has_no_port(address: object) -> bool:
    """Whether a node listens nowhere by it, or at a socket beside other containers of its Pod, as signers do."""
    return isinstance(address, str) and (not address or address.startswith("unix://"))


@lru_cache(maxsize=1024)
def _moved_by(text: str, app: str) -> Mapping[str, int]:
    """Return the same by both texts; what cannot be used there moves nothing: the ConfigMap is refused for it."""
    found: dict[str, int] = {}
    for overrides, places in ((text, IN_CONFIG), (app, IN_APP)):
        if too_long(overrides):
            continue
        try:
            found |= moved(tomllib.loads(overrides), places)
        except ValueError:
            continue
    return found


def _numbers(node_set: CosmosFullNode) -> dict[str, int]:
    config, app = node_set.spec.chain.config, node_set.spec.chain.app
    ports = {
        "api": API,
        "rosetta": ROSETTA,
        "grpc": GRPC,
        "prometheus": PROMETHEUS,
        "p2p": port_of(config.p2p_listen_address, P2P),
        RPC_PORT: port_of(config.rpc_listen_address, RPC),
        "grpc-web": GRPC_WEB,
    }
    if node_set.spec.type is FullNodeType.SENTRY:
        ports["privval"] = PRIVVAL
    changed = _moved_by(config.overrides, "" if app is None else app.overrides)
    return {name: changed.get(name, port) for name, port in ports.items()}


def service_port(name: str, port: int) -> dict[str, Any]:
    """Return a Service's port that leads to the container's port of the same name."""
    return {"name": name, "port": port, "protocol": "TCP", "targetPort": name}

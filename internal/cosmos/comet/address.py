"""Where the node of a Pod, and the container beside it, answer. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from yarl import URL

from internal.cosmos.comet import status, usage
from internal.cosmos.fullnode.ports import RPC
from internal.cosmos.labels import HEALTH, HEALTH_PORT, HEALTHCHECK, NODE, RPC_PORT


@dataclass(frozen=True)
class Address:
    """Of one Pod."""

    host: str
    """The Pod's IP address; empty as long as it has none."""
    rpc_port: int
    """Of the node."""
    health_port: int
    """Of the container beside it."""

    @cached_property
    def rpc(self) -> URL:
        """The node. Made once: it is asked every few seconds."""
        return URL(f"http://{self._host}:{self.rpc_port}")

    @cached_property
    def status(self) -> URL:
        """Where the node tells its status."""
        return self.rpc / status.PATH

    @cached_property
    def usage(self) -> URL:
        """Where the container beside it tells the usage of the disk."""
        return URL(f"http://{self._host}:{self.health_port}") / usage.PATH

    @property
    def _host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


def address_of(spec: Mapping[str, Any], status: Mapping[str, Any]) -> Address:
    """Return the address that a Pod's spec and status tell."""
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    return Address(
        host=str(status.get("podIP") or ""),
        rpc_port=_port(containers, NODE, RPC_PORT, RPC),
        health_port=_port(containers, HEALTHCHECK, HEALTH, HEALTH_PORT),
    )


def _port(containers: list[Any], container: str, name: str, default: int) -> int:
    found = (each for each in containers if each.get("name") == container)
    ports = (port for each in found for port in each.get("ports") or ())
    named = (int(port["containerPort"]) for port in ports if port.get("name") == name)
    return next(named, default)

"""Addresses and node ports of Services."""

from __future__ import annotations

import ipaddress
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.errors import StatusError, bad_value, invalid

_PORTS: Final = range(30000, 32768)
_HEADLESS: Final = "None"
_WITH_PORTS: Final = frozenset({"NodePort", "LoadBalancer"})


class Allocator:
    """Allocates cluster addresses and node ports, each once."""

    def __init__(self, cidr: str) -> None:
        self._network = ipaddress.ip_network(cidr)
        self._addresses: set[str] = set()
        self._ports: set[int] = set()
        self._next_address = 10
        self._next_port = 0

    def assign(self, service: Manifest, *, dry_run: bool = False) -> None:
        """Fill in what a new Service needs. Raises Invalid for what is taken or out of range.

        A dry run reserves nothing: it shows the network's address, and ports past the last one.
        """
        if dry_run:
            _DryRun(str(self._network)).assign(service)
            return
        spec = service.get("spec")
        if not isinstance(spec, dict):
            return
        if spec.get("type") == "ExternalName":
            return
        self._assign_address(service, spec)
        if spec.get("type") in _WITH_PORTS and spec.get("allocateLoadBalancerNodePorts", True):
            self._assign_ports(service, spec)
        if spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local":
            spec.setdefault("healthCheckNodePort", self._take_port())

    def reassign(self, new: Manifest, old: Manifest) -> None:
        """Carry over allocations: an update keeps the address; node ports follow the type."""
        after, before = new.get("spec") or {}, old.get("spec") or {}
        if after.get("type") == "ExternalName":
            if before.get("type") != "ExternalName":
                self.release(old)
                for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
                    after.pop(name, None)
            return
        if before.get("type") == "ExternalName":
            self.assign(new)
            return
        for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if not after.get(name) and before.get(name):
                after[name] = before[name]
        self._move_ports(new, after, before)

    def _move_ports(self, new: Manifest, after: dict[str, Any], before: dict[str, Any]) -> None:
        had = {port.get("nodePort") for port in before.get("ports") or ()} - {None}
        if after.get("type") not in _WITH_PORTS:
            after.pop("externalTrafficPolicy", None)
            after.pop("allocateLoadBalancerNodePorts", None)
            for port in after.get("ports") or ():
                if port.get("nodePort") in had:
                    port.pop("nodePort", None)
            self._ports -= had
            return
        known = {_port_key(port): port.get("nodePort") for port in before.get("ports") or ()}
        for port in after.get("ports") or ():
            if not port.get("nodePort") and known.get(_port_key(port)):
                port["nodePort"] = known[_port_key(port)]
        self._ports -= had
        if after.get("allocateLoadBalancerNodePorts", True):
            self._assign_ports(new, after)

    def release(self, service: Manifest) -> None:
        spec = service.get("spec") or {}
        self._addresses.discard(spec.get("clusterIP", ""))
        for port in spec.get("ports") or ():
            self._ports.discard(port.get("nodePort", 0))
        self._ports.discard(spec.get("healthCheckNodePort", 0))

    def _assign_address(self, service: Manifest, spec: dict[str, Any]) -> None:
        listed = spec.get("clusterIPs") or []
        address = spec.get("clusterIP") or (listed[0] if listed else "")
        if not address:
            address = self._free_address()
        elif address != _HEADLESS:
            self._check_address(service, address)
        if address != _HEADLESS:
            self._addresses.add(address)
        spec["clusterIP"] = address
        if not listed:
            spec["clusterIPs"] = [address]
        if address == _HEADLESS and not spec.get("selector"):
            spec.setdefault("ipFamilies", ["IPv4", "IPv6"])
            spec.setdefault("ipFamilyPolicy", "RequireDualStack")
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")

    def _free_address(self) -> str:
        size = self._network.num_addresses - 2
        for _ in range(size):
            self._next_address = self._next_address % size + 1
            address = str(self._network[self._next_address])
            if address not in self._addresses:
                return address
        raise StatusError(500, "InternalError", "failed to allocate a serviceIP: range is full")

    def _check_address(self, service: Manifest, address: str) -> None:
        try:
            inside = ipaddress.ip_address(address) in self._network
        except ValueError:
            text = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            raise _refused(service, "spec.clusterIPs[0]", address, text) from None
        if why := self._refusal(address, inside=inside):
            text = f"failed to allocate IP {address}: {why}"
            raise _refused(service, "spec.clusterIPs", [address], text)

    def _refusal(self, address: str, *, inside: bool) -> str:
        ends = {self._network.network_address, self._network.broadcast_address}
        if not inside or ipaddress.ip_address(address) in ends:
            return "the provided network does not match the current range"
        return "provided IP is already allocated" if address in self._addresses else ""

    def _assign_ports(self, service: Manifest, spec: dict[str, Any]) -> None:
        for index, port in enumerate(spec.get("ports") or ()):
            number = port.get("nodePort")
            if not number:
                port["nodePort"] = self._take_port()
                continue
            field = f"spec.ports[{index}].nodePort"
            if number not in _PORTS:
                text = "provided port is not in the valid range. The range of valid ports is 30000-32767"
                raise _refused(service, field, number, text)
            if number in self._ports:
                raise _refused(service, field, number, "provided port is already allocated")
            self._ports.add(number)

    def _take_port(self) -> int:
        for _ in _PORTS:
            port = _PORTS[self._next_port % len(_PORTS)]
            self._next_port += 1
            if port not in self._ports:
                self._ports.add(port)
                return port
        raise StatusError(500, "InternalError", "failed to allocate a nodePort: range is full")


class _DryRun(Allocator):
    """What a dry run is shown: nothing is free, and nothing is taken."""

    def _free_address(self) -> str:
        return str(self._network.network_address)

    def _refusal(self, address: str, *, inside: bool) -> str:
        if inside and ipaddress.ip_address(address) != self._network.network_address:
            return ""
        return (
            f"the provided IP ({address}) is not in the valid range. "
            f"The range of valid IPs is {self._network}"
        )

    def _take_port(self) -> int:
        self._next_port += 1
        return _PORTS.stop + self._next_port


def _port_key(port: dict[str, Any]) -> tuple[Any, Any]:
    return port.get("protocol"), port.get("port")


def _refused(service: Manifest, field: str, value: object, text: str) -> StatusError:
    name = service["metadata"].get("name", "")
    return invalid("", "Service", name, [bad_value(field, value, text)])

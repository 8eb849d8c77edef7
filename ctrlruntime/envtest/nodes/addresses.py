"""Addresses of simulated Pods, all of them on loopback (127.128.0.0/9). No I/O.

A request to a simulated Pod reaches this machine, never a host of the network that it is in. Who listens at all addresses
can play the Pods, and distinguish them by the address that a connection came to.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

Key = tuple[str, str]
"""Namespace and name."""

_HOSTS = 254
"""Addresses in a network of 24 bits, without its first and its last."""
_NETWORKS = 127 * 256
"""Networks of 24 bits in the range."""


class PodAddresses:
    """Gives each Pod an address that no other Pod has while it exists."""

    def __init__(self) -> None:
        self._by_pod: dict[Key, tuple[str, str]] = {}
        self._taken: set[str] = set()

    def of(self, pod: Mapping[str, Any]) -> str:
        """Return the Pod's address: the one that its status tells, or else one that goes by its UID."""
        metadata = pod["metadata"]
        key, uid = (metadata["namespace"], metadata["name"]), metadata["uid"]
        known = self._by_pod.get(key)
        if known is not None and known[0] == uid:
            return known[1]
        self.release(key)
        address = str((pod.get("status") or {}).get("podIP") or "") or self._free(uid)
        self._by_pod[key] = uid, address
        self._taken.add(address)
        return address

    def release(self, key: Key) -> None:
        """Forget a Pod that is gone."""
        known = self._by_pod.pop(key, None)
        if known is not None:
            self._taken.discard(known[1])

    def _free(self, uid: str) -> str:
        number = zlib.crc32(uid.encode())
        while (address := self._address(number)) in self._taken:
            number += 1
        return address

    def _address(self, number: int) -> str:
        network, host = divmod(number % (_NETWORKS * _HOSTS), _HOSTS)
        return f"127.{128 + network // 256}.{network % 256}.{1 + host}"

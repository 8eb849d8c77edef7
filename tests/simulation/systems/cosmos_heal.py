"""Nodes that hang, fall behind, or fill their disks: what self-healing may take down and grow, and has to."""

from __future__ import annotations

import asyncio
import random
from typing import Any, Final

from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.api.scalars import Quantity
from ctrlruntime.envtest.server.storage import Bucket, Change
from ctrlruntime.envtest.simulation import Simulation
from ctrlruntime.envtest.simulation.server import Call
from tests.cosmos.servers.comet import GIB
from tests.simulation.systems.machines import CLASS_OF_DISKS, Machines, begins_to_go

HEALS: Final = "heals"
NO_REASON: Final = "no reason"
GROWS: Final = "grows"
_BEHIND: Final = 20
_AFTER: Final = 30
_ANSWERED: Final = 90.0
"""Seconds after its start in which a node that does not answer counts as one that starts."""
_WITHIN: Final = 1800.0
SEEN: Final = 150.0
"""Seconds until a status shows what a disk has: usages are polled once a minute, and written once in another."""
_STORAGE_CLASS: Final = BUILTIN[GroupVersionKind("storage.k8s.io", "v1", "StorageClass")]
Manifest = dict[str, Any]


class Healing:
    """What nodes suffer that a restart mends, and disks. A witness: of a set whose spec stays nothing goes without a reason."""

    def __init__(self, sim: Simulation, draw: random.Random, machines: Machines) -> None:
        self.steady = draw.random() < 0.5
        """Whether users leave the set as it is: only then is each restart one of self-healing."""
        self._sim = sim
        self._draw = draw
        self._machines = machines
        self._time = asyncio.get_running_loop().time
        self._full: set[str] = set()
        """Names of claims that were full once."""

    @property
    def policy(self) -> Manifest:
        """The part of the set's spec."""
        return {
            "heightDriftMitigation": {"threshold": _BEHIND, "cooldownSeconds": 60},
            "unresponsive": {"afterSeconds": _AFTER},
            "pvcAutoScale": {
                "usedSpacePercentage": 80,
                "increaseQuantity": "1Gi",
                "maxSize": "2Gi",
            },
        }

    async def start(self) -> None:
        """Let disks grow, and look on."""
        await self._sim.client.create(
            {
                "apiVersion": _STORAGE_CLASS.gvk.api_version,
                "kind": "StorageClass",
                "metadata": {"name": CLASS_OF_DISKS},
                "provisioner": "csi.test",
                "allowVolumeExpansion": True,
            }
        )
        self._sim.shows(self)

    def strike(self, name: str) -> None:
        """Let one thing happen to a node: what a restart mends only once it has worked for a while."""
        kinds = ("hangs", "behind", "a little behind", "full")
        kind = self._draw.choice(kinds if self.steady else kinds[:3])
        if kind == "full":
            if (claim := f"pvc-{name}") not in self._full:
                self._full.add(claim)
                self._machines.suffers(name, disk_total=GIB, disk_free=GIB // 10)
            return
        since = self._machines.since.get(name, 0.0)
        if not self._machines.up.get(name) or self._time() < since + _ANSWERED:
            return
        behind = {"behind": 5 * _BEHIND, "a little behind": _BEHIND - 1}.get(kind, 0)
        self._machines.suffers(name, hangs=kind == "hangs", behind=behind)

    def _is_ill(self, name: str) -> bool:
        node = self._machines.nodes.node(name)
        return node.hangs or node.behind >= _BEHIND

    async def mends(self, nodes: frozenset[str]) -> None:
        """Wait for everything that is to be mended. Of fewer than three nodes none is known to be behind."""
        end = self._time() + _WITHIN
        while left := self._left(nodes):
            if self._time() > end:
                self._sim.breaks(HEALS, f"after {_WITHIN:g} s this is left: {', '.join(left)}")
            await self._sim.sleep(5.0, exactly=True)
        await self._sim.sleep(SEEN if self._full else 0.0, exactly=True)

    def _left(self, nodes: frozenset[str]) -> list[str]:
        few = len(nodes) < 3
        told = {name: self._machines.nodes.node(name) for name in sorted(nodes)}
        ill = [
            name for name, node in told.items() if node.hangs or (self._is_ill(name) and not few)
        ]
        sizes = {
            each["metadata"]["name"]: _size(each)
            for each in self._sim.objects("persistentvolumeclaims")
        }
        return ill + [claim for claim in sorted(self._full) if sizes.get(claim) != 2 * GIB]

    # -- what it is shown --------------------------------------------------------------------------------

    def changed(self, call: Call | None, bucket: Bucket, change: Change) -> None:
        """Judge what managers take down, and what they let grow."""
        if not self.steady or call is None or call.process is None:
            return
        name, before = change.record.name, change.previous
        if bucket.resource == "pods" and begins_to_go(change) and not self._is_ill(name):
            self._sim.breaks(NO_REASON, f"{name} is taken down, which neither hangs nor is behind")
        if bucket.resource == "persistentvolumeclaims" and before is not None:
            grown = _size(change.record.obj) != _size(before.obj)
            if grown and (name not in self._full or _size(change.record.obj) > 2 * GIB):
                self._sim.breaks(GROWS, f"{name} becomes {_size(change.record.obj)} bytes")

    def answered(self, call: Call) -> None:
        """Leave it: requests alone mend nothing."""


def _size(claim: Manifest) -> int:
    return int(Quantity(claim["spec"]["resources"]["requests"]["storage"]).value)

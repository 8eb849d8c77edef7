"""A rollout of a version to all instances, good or bad, and what may never happen while it goes on."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from apis.cloud import FleetRollout
from ctrlruntime.client.client import Client
from ctrlruntime.envtest.simulation import Simulation
from internal.cloud.labels import APPROVED_WAVES
from internal.cloud.rollouts.strategy import approval_digest, approve_wave
from internal.cloud.runs import RunRequest

FIRST: Final = "i0"
"""The instance of the first wave."""
BAD: Final = "6.0.0"
"""A version to which nothing can be brought."""
ROLLOUT: Final = "rollout"
_GOOD: Final = "5.4.0"
_NAME: Final = "release"
_LAST: Final = "all"


@dataclass(slots=True)
class Rollout:
    """What users meant by it."""

    target: str
    concurrent: int
    manual: bool
    """Whether the second wave waits for an approval."""
    approved: bool = False

    @classmethod
    def drawn(cls, draw: random.Random) -> Rollout:
        """Draw one."""
        return cls(draw.choice((_GOOD, _GOOD, BAD)), draw.choice((1, 2)), draw.random() < 0.4)

    @property
    def is_bad(self) -> bool:
        """Whether its version fails."""
        return self.target == BAD

    @property
    def end(self) -> str:
        """The phase in which it ends."""
        return "RolledBack" if self.is_bad else "Complete"

    def manifest(self) -> FleetRollout:
        """Return the object."""
        waves: list[dict[str, Any]] = [
            {"name": "first", "groups": {"internal": 100}},
            {"name": _LAST, "approval": "Manual" if self.manual else "Automatic"},
        ]
        spec = {
            "targetVersion": self.target,
            "waves": waves,
            "maxConcurrent": self.concurrent,
            "progressDeadlineSeconds": 86400,  # more than a clock jumps: that would be a failure of a good version
            "onHalt": "Rollback",
        }
        metadata = {"name": _NAME, "namespace": "default"}
        return FleetRollout.from_manifest({"metadata": metadata, "spec": spec})

    async def approve(self, client: Client) -> None:
        """Let the last wave begin, if that waits for a person."""
        if not self.manual or self.approved:
            return
        self.approved = True
        found = await client.get(FleetRollout, _NAME, namespace="default")
        value = approve_wave(found.metadata.annotations or {}, _LAST, approval_digest(found.spec))
        patch = {"metadata": {"annotations": {APPROVED_WAVES: value}}}
        await client.patch(FleetRollout, _NAME, patch, namespace="default")


@dataclass(slots=True)
class RolloutRules:
    """No wave before its turn, no more at once than may be, and nothing further after a failure."""

    sim: Simulation
    deployed: Mapping[str, str]
    """By instance, the version that its data have."""
    _changing: dict[str, str] = field(default_factory=dict)
    """By instance, the version of the rollout that it is on its way to."""

    def begins(self, rollout: Rollout | None, name: str, version: str) -> None:
        """Judge the begin of an upgrade."""
        if rollout is None or version != rollout.target:
            self._changing.pop(name, None)
            return
        if name != FIRST:
            if self.deployed.get(FIRST) != version:
                what = f"{name} gets {version}, and {FIRST}, which is to show it first, has it not"
                self.sim.breaks(ROLLOUT, what)
            if rollout.manual and not rollout.approved:
                self.sim.breaks(ROLLOUT, f"{name} gets {version} without an approval of its wave")
        self._changing[name] = version
        if len(self._changing) > rollout.concurrent:
            names = ", ".join(sorted(self._changing))
            self.sim.breaks(ROLLOUT, f"{names} change at once, {rollout.concurrent} may")

    def ends(self, request: RunRequest) -> None:
        """Take a run that succeeded: with its workload an instance has changed."""
        given = request.input
        if given.task == "kubernetes" and self._changing.get(given.instance) == str(
            given.spec["version"]
        ):
            del self._changing[given.instance]

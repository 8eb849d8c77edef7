"""Maintenance windows and freezes: what waits for them in the tenancy system, and what may never happen before."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Final

from ctrlruntime.envtest.server.storage import Bucket, Change
from ctrlruntime.envtest.simulation import Simulation
from ctrlruntime.envtest.simulation.server import Call
from tests.simulation.systems.tenancy_rules import TENANTS, goes, is_ready, mark, split
from tests.simulation.systems.tenancy_world import Wanted

WINDOW: Final = "window"
FREEZE: Final = "freeze"
_PERIOD: Final = 600.0
_OPEN: Final = 180.0
PATIENCE: Final = 6 * _PERIOD
"""Seconds that windows may hold up the end: a rollout needs several."""
_DECIDED: Final = 75.0
"""Seconds from a decision to its write at most: a process may stand still for a minute in between, and try again."""
_SPEC: Final = [{"schedule": "*/10 * * * *", "duration": f"{_OPEN:g}s"}]
_FREEZES: Final = "changefreezes."


def drawn(draws: random.Random) -> dict[str, Any]:
    """Draw whether a registry or a rollout has windows; return the part of its spec."""
    return {"maintenanceWindows": _SPEC} if draws.random() < 0.3 else {}


@dataclass(slots=True)
class Windows:
    """A witness: tenants that are there are changed and removed in windows alone, and not in freezes."""

    sim: Simulation
    world: Wanted
    _frozen: float = -1.0
    """Since when there is a freeze; -1: there is none."""

    def changed(self, call: Call | None, bucket: Bucket, change: Change) -> None:
        """Judge a change."""
        if bucket.resource.startswith(_FREEZES) and change.type != "MODIFIED":
            now = self.sim.now().timestamp()
            self._frozen = now if change.type == "ADDED" else -1.0
        if bucket.resource != TENANTS or call is None or call.process is None:
            return
        before = change.previous.obj if change.previous is not None else None
        if before is None or call.who == "kubelets":
            return
        name, tenant = change.record.name, change.record.obj
        if call.request.verb == "delete" and goes(change):
            self._must_be_open(call, f"deletes the Tenant {name}", of_registry=True)
        elif before["spec"] != tenant["spec"] and int(mark(tenant)) >= int(mark(before)):
            what = f"changes the Tenant {name} from {mark(before)} to {mark(tenant)}"
            self._must_be_open(call, what, of_registry=True)
            blueprint = self.world.blueprints.get(split(name)[1])
            rollout = {} if blueprint is None else blueprint.spec.get("rollout", {})
            rolls = "maintenanceWindows" in rollout and mark(before) != mark(tenant)
            if rolls and is_ready(before):  # what is not ready is mended at once
                self._must_be_open(call, what, of_registry=False)

    def answered(self, call: Call) -> None:
        """Leave it: what counts is what changes."""

    def _must_be_open(self, call: Call, what: str, *, of_registry: bool) -> None:
        now = self.sim.now().timestamp()
        if 0 <= self._frozen < now - _DECIDED and not self.sim.stale:
            self.sim.breaks(FREEZE, f"{call.who} {what}, frozen for {now - self._frozen:.3g} s")
        if self.sim.has_fired("clock jump"):
            return  # windows open by the clock of a manager
        if (self.world.windows or not of_registry) and now % _PERIOD > _OPEN + _DECIDED:
            self.sim.breaks(WINDOW, f"{call.who} {what} {now % _PERIOD:.3g} s after the opening")

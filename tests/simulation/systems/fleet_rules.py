"""What must never happen in scale mode, judged by what users meant: the product is never consulted."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from apis.fleet.labels import DATA_PLANE, ORPHAN_RECORD
from ctrlruntime.envtest.server.storage import Bucket, Change
from ctrlruntime.envtest.simulation import Simulation
from ctrlruntime.envtest.simulation.server import Call
from ctrlruntime.envtest.simulation.state import counts
from tests.simulation.systems.fleet_world import SHOP, Hub, Key, Meant, Plane, Wanted, mark_of

TENANTS: Final = "tenants.tenancy.ctrlruntime.dev"
OF_TENANTS: Final = ("deployments.apps", "configmaps")
_STACKS: Final = ("deployments.apps", "statefulsets.apps", "services", "serviceaccounts")
_UNSEEN: Final = 300.0
"""Seconds for which an operator may act on what was so before: a watch may be silent for so long."""
Manifest = dict[str, Any]


@dataclass(slots=True)
class HubRules:
    """A witness of a hub."""

    sim: Simulation
    world: Meant
    hub: Hub
    stacks: Mapping[str, str]
    """The id of the data plane that each program of a stack works for."""
    _made: set[Key] = field(default_factory=set)
    _marks: dict[Key, int] = field(default_factory=dict)
    """By object: the place of its content among those that its tenant had, as a stack wrote it last."""

    def changed(self, call: Call | None, bucket: Bucket, change: Change) -> None:
        """Take a change of an object, while it is made."""
        if call is None or call.process is None or not counts(bucket.resource):
            return
        if call.who in self.stacks:
            self._stack_writes(call, bucket, change)
        elif call.who.startswith("operator") and bucket.resource in _STACKS and goes(change):
            self._stack_goes(call, bucket, change)

    def answered(self, call: Call) -> None:
        """Leave it: what counts is what changes."""

    def _stack_goes(self, call: Call, bucket: Bucket, change: Change) -> None:
        name, now = change.record.namespace, asyncio.get_running_loop().time()
        known = now - self.hub.since.get(name, 0.0) > _UNSEEN
        if self.hub.labelled.get(name) and known:
            what = f"{call.who} deletes {bucket.resource} {change.record.name} of {name}"
            self.sim.breaks("stack goes", f"{what}, which has its label")

    def _stack_writes(self, call: Call, bucket: Bucket, change: Change) -> None:
        record = change.record
        if record.namespace != SHOP or bucket.resource not in OF_TENANTS:
            if record.name != ORPHAN_RECORD:
                what = f"{call.who} writes {bucket.resource} {record.namespace}/{record.name}"
                self.sim.breaks("place", what)
            return
        key = (bucket.resource, record.name)
        if call.process is not None and not call.process.root.led:
            self.sim.breaks("without the lease", f"{call.who} writes {record.name}")
        self._of_its_plane(call, change)
        tenant = self.world.tenant(record.name.rpartition("-")[0])
        if tenant is None:
            self.sim.breaks("place", f"{call.who} writes {record.name}, of no tenant")
        elif goes(change):
            if tenant.name not in self.world.leaving:
                self.sim.breaks("workload goes", f"{call.who} deletes {record.name}")
        elif change.type == "ADDED":
            if key in self._made and key not in self.world.by_hand:
                self.sim.breaks("made again", f"{call.who} makes {record.name} again")
            self._made.add(key)
            self._content(call, tenant, key, record.obj)
        elif change.type == "MODIFIED":
            self._content(call, tenant, key, record.obj)

    def _of_its_plane(self, call: Call, change: Change) -> None:
        own = self.stacks[call.who]
        labels = [_plane_of(change.record.obj)]
        if change.previous is not None:
            labels.append(_plane_of(change.previous.obj))
        if {*labels} != {own}:
            what = f"{call.who}, of {own}, writes {change.record.name} of {labels[-1]}"
            self.sim.breaks("planes", what)

    def _content(self, call: Call, tenant: Wanted, key: Key, obj: Manifest) -> None:
        mark, marks = mark_of(key[0], obj), [str(each) for each in tenant.marks]
        if mark not in marks:
            self.sim.breaks("content", f"{call.who} sets {key[1]} to {mark}, which was not meant")
            return
        at = marks.index(mark)
        if at < self._marks.get(key, 0):
            self.sim.breaks("goes back", f"{call.who} sets {key[1]} back to {mark} of {marks}")
        self._marks[key] = at


@dataclass(slots=True)
class PlaneRules:
    """A witness of a data plane."""

    sim: Simulation
    world: Meant
    plane: Plane
    stacks: Mapping[str, str]

    def changed(self, call: Call | None, bucket: Bucket, change: Change) -> None:
        """Take a change of an object, while it is made."""
        if call is None or call.process is None or not counts(bucket.resource):
            return
        record = change.record
        what = f"{call.who} writes {bucket.resource} {record.name} on {self.plane.name}"
        if call.who not in self.stacks:
            self.sim.breaks("planes", what)
        elif self.stacks[call.who] != self.plane.id:
            self.sim.breaks("planes", f"{what}, and is of another data plane")
        elif not call.process.root.led:
            self.sim.breaks("without the lease", what)
        elif bucket.resource == TENANTS:
            if goes(change) and call.request.verb == "delete":
                self.sim.breaks("tenant goes", f"{call.who} deletes {record.name}")
        else:
            self._object(call, bucket, change)

    def answered(self, call: Call) -> None:
        """Leave it: what counts is what changes."""

    def _object(self, call: Call, bucket: Bucket, change: Change) -> None:
        name, _, kind = change.record.name.rpartition("-")
        tenant = self.world.tenant(name)
        if (bucket.resource, kind) != ("configmaps", "note") or tenant is None:
            what = f"{call.who} writes {bucket.resource} {change.record.name}"
            self.sim.breaks("place", f"{what} on {self.plane.name}")
        elif self.plane.name not in {tenant.plane, *tenant.former}:
            self.sim.breaks("planes", f"{call.who} writes {change.record.name} of {tenant.plane}")
        elif goes(change):
            left = tenant.name in self.world.leaving or self.plane.name in tenant.former
            if not left:
                self.sim.breaks("object goes", f"{call.who} deletes {change.record.name}")


def goes(change: Change) -> bool:
    """Whether an object begins to go."""
    before = change.previous.obj["metadata"] if change.previous is not None else {}
    if before.get("deletionTimestamp"):
        return False
    return change.type == "DELETED" or bool(change.record.obj["metadata"].get("deletionTimestamp"))


def _plane_of(obj: Manifest) -> str:
    return str((obj["metadata"].get("labels") or {}).get(DATA_PLANE, ""))

"""FleetRollouts on an API server: the product's controllers, and a simulated driver that upgrades instances.

    async with Fleet.start(folder) as fleet:
        await fleet.create_instances(8)
        await fleet.roll_out("5.3.0", maxConcurrent=2)
        await fleet.reaches("Complete")

The driver plays the Instance controller's part at its end: it writes the status of an instance that has the version
that counts. test_instances.py has the real Instance controller.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from apis.cloud import FleetRollout, FleetRolloutStatus, Instance, Phase, Waiting, WaitingReason
from apis.operations import FrozenSystem
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.patches import difference
from ctrlruntime.envtest import Environment
from ctrlruntime.manager import Manager
from internal.cloud.release_assignment import (
    assigned_version,
    is_same_assignment,
    recorded_assignment,
    with_progress,
)
from internal.cloud.subresources import SUBRESOURCES
from manager.controllers.change_freezes import add_change_freezes
from manager.controllers.cloud_options import CloudOptions
from manager.controllers.cloud_parts import make_parts
from manager.controllers.cloud_rollouts import add_rollout_controller
from manager.kinds import KINDS
from tests.backends import SharedServer
from tests.cloud.rbac import embedded
from tests.support.manager_harness import ManagerHarness
from tests.support.waiting import eventually

CRD = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
NAMESPACE = "default"
OLD, NEW = "5.2.0", "5.3.0"
"""Seconds for what takes a second or two on an idle machine."""


def add_rollouts(manager: Manager) -> None:
    """Add the controller of FleetRollouts alone."""
    freezes = add_change_freezes(manager, FrozenSystem.CLOUD)
    add_rollout_controller(make_parts(manager, CloudOptions(), SUBRESOURCES), freezes)


def instance(name: str, kind: str = "production", **spec: object) -> dict[str, Any]:
    return {
        "apiVersion": Instance.gvk().api_version,
        "kind": "Instance",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {"instance-type": kind},
        },
        "spec": {"version": OLD, **spec},
    }


@dataclass(slots=True)
class Fleet(ManagerHarness):
    """What runs, and what people and the simulated driver do."""

    bad: set[str] = field(default_factory=set)
    """Versions that fail."""
    held: set[str] = field(default_factory=set)
    """Versions whose upgrades do not end."""
    working: set[str] = field(default_factory=set)
    """Instances that are at work, as after an edit."""
    lost: set[str] = field(default_factory=set)
    """Instances that fail whatever their version."""
    queued: set[str] = field(default_factory=set)
    """Instances whose runs, if there is something to do, wait for a place."""
    most_changing: int = 0
    """Instances that were at once in another version than their status shows."""
    assignments: list[tuple[str, str]] = field(default_factory=list)
    """Name and version of each assignment, as the driver saw them."""
    _known: dict[str, str] = field(default_factory=dict)

    @classmethod
    @contextlib.asynccontextmanager
    async def start(
        cls,
        folder: Path,
        *,
        manager: bool = True,
        server: SharedServer | None = None,
        tls: bool = False,
    ) -> AsyncIterator[Self]:
        """Start a server with all kinds, or use a real one, with the controller and the driver.

        Without `tls` an embedded server knows no user of kubectl, which sends no token then.
        """
        async with cls._environment(folder, server, tls=tls) as env:
            await env.install_crds(*KINDS)
            fleet = cls(env, folder)
            driver = asyncio.create_task(fleet._drive())
            if manager:
                await fleet.start_manager()
            try:
                yield fleet
                assert not driver.done(), driver
            finally:
                await fleet.stop_manager()
                driver.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await driver
                if server is not None:
                    await fleet._remove_kinds()

    @staticmethod
    @contextlib.asynccontextmanager
    async def _environment(
        folder: Path, server: SharedServer | None, *, tls: bool
    ) -> AsyncIterator[Environment]:
        if server is None:
            async with embedded("manager", folder=folder, tls=tls) as env:
                yield env
            return
        users = ("manager", "envtest")
        async with server.environment(users=users, proxy=True, folder=folder) as env:
            yield env

    async def _remove_kinds(self) -> None:
        for kind in KINDS:
            name = f"{kind.mapping().plural}.{kind.gvk().group}"
            await self.client.delete(CRD, name)

        async def gone() -> bool:
            return not [
                item
                for item in await self.client.list(CRD)
                if item["metadata"]["name"].endswith(".ctrlruntime.dev")
            ]

        await self.wait(gone, "the CRDs are gone")

    async def add_controllers(self, manager: Manager) -> None:
        add_rollouts(manager)

    # -- people ----------------------------------------------------------------------------

    async def create_instances(self, count: int, kind: str = "production", **spec: object) -> None:
        for number in range(count):
            await self.client.create(instance(f"{kind}-{number}", kind, **spec))
        await self.wait(lambda: self._all_reported(), "instances are reported")

    async def roll_out(self, version: str = NEW, name: str = "release", **spec: object) -> None:
        manifest = {
            "apiVersion": FleetRollout.gvk().api_version,
            "kind": "FleetRollout",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"targetVersion": version, **spec},
        }
        await self.client.apply(manifest, field_manager="people", force=True)

    async def annotate(self, name: str = "release", **values: str | None) -> None:
        named = {f"cloud.ctrlruntime.dev/{k.replace('_', '-')}": v for k, v in values.items()}
        patch = {"metadata": {"annotations": named}}
        await self.client.patch(FleetRollout, name, patch, namespace=NAMESPACE)

    # -- what is there ---------------------------------------------------------------------

    async def instances(self) -> list[Instance]:
        return list(await self.client.list(Instance, NAMESPACE))

    async def versions(self) -> dict[str, str]:
        """Return by instance the version that counts."""
        found = {}
        for item in await self.instances():
            assigned = assigned_version(item)
            wanted = item.spec.wanted_version if assigned is None else assigned.version
            found[item.metadata.name or ""] = wanted
        return found

    async def status(self, name: str = "release") -> FleetRolloutStatus:
        return (await self.client.get(FleetRollout, name, namespace=NAMESPACE)).status

    async def reaches(self, phase: str, name: str = "release", **fields: int) -> FleetRolloutStatus:
        """Wait until a rollout is in a phase, for its present generation."""

        reached: list[FleetRolloutStatus] = []

        async def holds() -> bool:
            found = await self.client.get(FleetRollout, name, namespace=NAMESPACE)
            current = found.status.observed_generation == found.metadata.generation
            same = all(getattr(found.status, key) == value for key, value in fields.items())
            reached[:] = [found.status]
            return current and found.status.phase == phase and same

        await self.wait(holds, f"{name} reaches {phase} {fields}")
        return reached[0]

    async def wait(self, holds: Callable[[], Any], what: str) -> None:
        """Wait until something `holds`; `what` is in the error."""
        try:
            await eventually(holds)
        except AssertionError as error:
            raise AssertionError(f"not so: {what}") from error

    # -- the driver ------------------------------------------------------------------------

    async def _all_reported(self) -> bool:
        return all(item.status.phase == "Ready" for item in await self.instances())

    async def _drive(self) -> None:
        while True:
            found = await self.instances()
            wanted = await self._wanted(found)
            self.most_changing = max(self.most_changing, sum(wanted.values()))
            for item in found:
                await self._report(item)
            await asyncio.sleep(0.05)

    async def _wanted(self, found: list[Instance]) -> dict[str, int]:
        changing = {}
        for item in found:
            name = item.metadata.name or ""
            record = recorded_assignment(item)
            if record is not None:
                at = f"{record.version}@{record.change.at}"
                if self._known.get(name) != at:
                    self._known[name] = at
                    self.assignments.append((name, record.version))
            version = item.spec.wanted_version if record is None else record.version
            ready = item.status.version == version and item.status.phase == "Ready"
            broken = item.status.phase == "Failed"
            changing[name] = int(record is not None and not ready and not broken)
        return changing

    async def _report(self, item: Instance) -> None:
        assigned = assigned_version(item)
        wanted = item.spec.wanted_version if assigned is None else assigned.version
        if wanted in self.held:
            return
        name = item.metadata.name or ""
        failed = wanted in self.bad or name in self.lost
        queued = name in self.queued and item.status.version != wanted
        at_work = name in self.working or queued
        phase = Phase.FAILED if failed else Phase.READY
        if at_work:
            phase = Phase.WAITING if queued else Phase.RUNNING
        version = item.status.version if wanted in self.bad or queued else wanted
        now = datetime.now(UTC)
        waiting = Waiting(reason=WaitingReason.LIMIT, since=now) if queued else None
        fields = {"phase": phase, "version": version, "waiting": waiting}
        after = item.status.model_copy(update=fields)
        generation = item.metadata.generation or 0
        assigned = with_progress(assigned, item.status, after, generation, now)
        failed = failed or at_work
        status = {
            "observedGeneration": item.metadata.generation,
            "phase": phase.value,
            "version": version,
            "waiting": None if waiting is None else waiting.to_wire(),
            "assignedVersion": None if assigned is None else assigned.to_wire(),
            "conditions": [
                {
                    "type": "Ready",
                    "status": "False" if failed else "True",
                    "reason": phase.value,
                    "message": "",
                    "observedGeneration": item.metadata.generation,
                    "lastTransitionTime": _since(item, failed=failed),
                }
            ],
        }
        reported = (item.status.phase, item.status.version, item.status.assigned_version)
        same = reported[:2] == (status["phase"], status["version"]) and is_same_assignment(
            reported[2], assigned
        )
        if same and item.status.observed_generation == item.metadata.generation:
            return
        before = item.to_manifest().get("status", {})
        patch = {"status": difference(before, {**before, **status})}
        await self.client.patch_status(
            Instance, item.metadata.name or "", patch, namespace=NAMESPACE
        )


def _since(item: Instance, *, failed: bool) -> str:
    for condition in item.status.conditions:
        if (condition.status == "False") is failed and condition.last_transition_time:
            return condition.last_transition_time.isoformat()
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

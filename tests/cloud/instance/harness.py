"""The Instance controller on an embedded API server, and a hand that plays the task driver.

    async with InstanceHarness.start(tmp_path) as harness:
        await harness.apply(instance("src-1"))
        await harness.carry_out("InstanceTerraform", outputs={"project_id": "p"})

Nothing is run: the hand writes what a driver would write into the status of a subresource.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from apis.cloud import (
    FleetRollout,
    Instance,
    InstanceInvariants,
    InstanceKubernetes,
    InstanceKubernetesPVC,
    InstanceTerraform,
    UpgradeInstanceTask,
)
from apis.operations import FrozenSystem
from ctrlruntime.api import Resource, find_condition
from ctrlruntime.client.errors import NotFound
from ctrlruntime.manager import Manager
from internal.cloud.subresources import SUBRESOURCES
from internal.cloud.taskdriver.inputs import inputs_of
from manager.controllers.change_freezes import add_change_freezes
from manager.controllers.cloud import add_instance_controller
from manager.controllers.cloud_options import CloudOptions
from manager.controllers.cloud_parts import make_parts
from tests.cloud.rbac import embedded
from tests.support.manager_harness import ManagerHarness
from tests.support.waiting import TIMEOUT, eventually

KINDS = (
    Instance,
    InstanceTerraform,
    InstanceKubernetes,
    InstanceKubernetesPVC,
    InstanceInvariants,
    UpgradeInstanceTask,
)
BY_NAME = {str(kind.gvk().kind): kind for kind in KINDS}
NAMESPACE = "default"


def instance(name: str = "src-1", **fields: object) -> dict[str, Any]:
    """A manifest: with Terraform, version 5.1.0, no protection; `fields` of the spec are added."""
    spec = {
        "version": "5.1.0",
        "infrastructure": {"terraform": {}},
        "debug": {"enableDeletionProtection": False},
        **fields,
    }
    return {
        "apiVersion": Instance.gvk().api_version,
        "kind": "Instance",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"instance-type": "internal"}},
        "spec": spec,
    }


@dataclass(slots=True)
class InstanceHarness(ManagerHarness):
    """What runs, and the words of the tests."""

    @classmethod
    @contextlib.asynccontextmanager
    async def start(cls, folder: Path, **more: object) -> AsyncIterator[Self]:
        """A server with our kinds, and the controller."""
        async with embedded("manager", folder=folder) as env:
            await env.install_crds(*KINDS, FleetRollout)
            given: dict[str, Any] = {"environment": env, "folder": folder, **more}
            harness = cls(**given)
            await harness.start_manager()
            try:
                yield harness
            finally:
                await harness.stop_manager()

    async def add_controllers(self, manager: Manager) -> None:
        freezes = add_change_freezes(manager, FrozenSystem.CLOUD)
        add_instance_controller(make_parts(manager, CloudOptions(), SUBRESOURCES), freezes)

    # -- what people do --------------------------------------------------------------------

    async def apply(self, manifest: Mapping[str, Any]) -> None:
        await self.client.apply(dict(manifest), field_manager="people", force=True)

    async def annotate(
        self, name: str = "src-1", kind: str = "Instance", **values: str | None
    ) -> None:
        """Annotations of the group, underscores for dashes; None takes one away."""
        named = {f"cloud.ctrlruntime.dev/{k.replace('_', '-')}": v for k, v in values.items()}
        patch = {"metadata": {"annotations": named}}
        await self.client.patch(
            BY_NAME[kind], name, patch, namespace=NAMESPACE, field_manager="people"
        )

    async def edit(self, kind: str, spec: Mapping[str, Any], name: str = "src-1") -> None:
        """Change a spec by hand."""
        await self.client.patch(
            BY_NAME[kind], name, {"spec": dict(spec)}, namespace=NAMESPACE, field_manager="people"
        )

    async def delete(self, name: str = "src-1", kind: str = "Instance") -> None:
        await self.client.delete(BY_NAME[kind], name, namespace=NAMESPACE)

    # -- what a driver does ----------------------------------------------------------------

    async def say(self, kind: str, name: str = "src-1", **status: object) -> None:
        """Merge fields into a subresource's status, for its present generation."""
        found = await self.there(kind, name)
        body = {"observedGeneration": found.metadata.generation, **status}
        await self.client.patch_status(BY_NAME[kind], name, {"status": body}, namespace=NAMESPACE)

    async def begin(self, kind: str, name: str = "src-1", **status: object) -> None:
        """A run is under way."""
        found = await self.there(kind, name)
        run = {
            "runID": f"{kind.lower()}-0123456789ab",
            "inputsVersion": inputs_of(found).version,
            "state": "Started",
            "outcome": None,
            "createdAt": _now(),
            "startedAt": _now(),
            "finishedAt": None,
        }
        unready = {"phase": "Running", "conditions": [_ready(found, "False")]}
        await self.say(kind, name, run=run, **unready, **status)

    async def carry_out(self, kind: str, name: str = "src-1", **status: object) -> None:
        """A run began and succeeded, with what the controller wants once it has nothing left to do.

        With less, a run of what a change is about to replace would be recorded, and none after it.
        """
        await self.there(kind, name)
        if self.manager is not None:
            await self.idle()
        await self.begin(kind, name)
        found = await self.there(kind, name)
        run = {"state": "Done", "outcome": "Succeeded", "finishedAt": _now()}
        done = {
            "inputsVersion": inputs_of(found).version,
            "runID": f"{kind.lower()}-0123456789ab",
            "finishedAt": _now(),
        }
        ready = {"conditions": [_ready(found, "True")], "phase": "Ready", "message": "Done"}
        await self.say(kind, name, run=run, succeeded=done, **ready, **status)

    async def fail(
        self, kind: str, message: str, name: str = "src-1", phase: str = "Failed"
    ) -> None:
        """A run failed, and nothing more is tried unless `phase` says so."""
        await self.begin(kind, name)
        found = await self.there(kind, name)
        run = {"state": "Done", "outcome": "Failed", "finishedAt": _now()}
        await self.say(
            kind, name, run=run, phase=phase, message=message, conditions=[_ready(found, "False")]
        )

    async def let_go(self, kind: str, name: str = "src-1") -> None:
        """The runs of an object that is being deleted are gone."""
        patch = {"metadata": {"finalizers": None}}
        await self.client.patch(BY_NAME[kind], name, patch, namespace=NAMESPACE)

    # -- what is seen ----------------------------------------------------------------------

    async def read(self, kind: str, name: str = "src-1") -> Resource[Any, Any]:
        """The object. Raises NotFound."""
        return await self.client.get(BY_NAME[kind], name, namespace=NAMESPACE)

    async def get(self, kind: str, name: str = "src-1") -> Resource[Any, Any] | None:
        """The object, None if there is none."""
        try:
            return await self.read(kind, name)
        except NotFound:
            return None

    async def there(
        self, kind: str, name: str = "src-1", timeout: float = TIMEOUT
    ) -> Resource[Any, Any]:
        """The object, as soon as it is there."""
        return await self.until(kind, lambda found: found is not None, name, timeout)

    async def until(
        self,
        kind: str,
        is_so: Callable[[Any], bool],
        name: str = "src-1",
        timeout: float = TIMEOUT,
    ) -> Resource[Any, Any]:
        """The object, as soon as it is so."""
        found = await self._until(kind, is_so, name, timeout)
        assert found is not None
        return found

    async def _until(
        self, kind: str, is_so: Callable[[Any], bool], name: str, timeout: float
    ) -> Resource[Any, Any] | None:
        return await eventually(lambda: self.get(kind, name), is_so, timeout=timeout)

    async def gone(self, kind: str, name: str = "src-1", timeout: float = TIMEOUT) -> None:
        await self._until(kind, lambda found: found is None, name, timeout)

    async def phase(self, phase: str, name: str = "src-1") -> Resource[Any, Any]:
        """The instance, once it is in that phase for its present generation."""

        def is_so(found: Resource[Any, Any] | None) -> bool:
            return (
                found is not None
                and found.status.phase == phase
                and found.status.observed_generation == found.metadata.generation
            )

        return await self.until("Instance", is_so, name)

    async def upgrades(self) -> list[UpgradeInstanceTask]:
        return list(await self.client.list(UpgradeInstanceTask, NAMESPACE))

    async def upgrade(self, to: str, *, other_than: tuple[str, ...] = ()) -> str:
        """The name of the upgrade to a version, as soon as there is one."""

        async def names() -> list[str]:
            found = [item for item in await self.upgrades() if item.spec.to_version == to]
            return [
                each.metadata.name or "" for each in found if each.metadata.name not in other_than
            ]

        return (await eventually(names))[0]

    async def roll_out(self, name: str = "src-1") -> Resource[Any, Any]:
        """Everything carried out, up to Ready."""
        for kind in ("InstanceTerraform", "InstanceKubernetes", "InstanceInvariants"):
            await self.carry_out(kind, name)
        return await self.phase("Ready", name)

    # -- what was asked of the server ------------------------------------------------------


def ready_of(found: Resource[Any, Any]) -> str:
    """Status of the condition Ready."""
    condition = find_condition(found.status.conditions, "Ready")
    return "" if condition is None else condition.status


def _ready(found: Resource[Any, Any], status: str) -> dict[str, Any]:
    return {
        "type": "Ready",
        "status": status,
        "reason": "ByHand",
        "message": "",
        "observedGeneration": found.metadata.generation,
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")

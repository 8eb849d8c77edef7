"""The life of an object of a library's user: what is written, and what stays, whatever its functions do."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from ctrlruntime.api import ApiModel, Conditions, Resource
from ctrlruntime.controller.builder import Builder
from ctrlruntime.controller.reconcile import Result
from ctrlruntime.envtest import Environment
from ctrlruntime.lifecycle import Later, Lifecycle, ObjectPass, PerObject
from ctrlruntime.manager import Manager
from ctrlruntime.queue import Request
from tests.support.manager_harness import ManagerHarness
from tests.support.waiting import eventually

pytestmark = pytest.mark.criterion("L-4")
PLACE = {"name": "hall", "namespace": "default"}
FINALIZER = "example.com/lamp"


class LampSpec(ApiModel):
    """A lamp."""

    on: bool = True


class LampStatus(ApiModel):
    """How it is."""

    observed_generation: int = 0
    last_handled_reconcile: str = ""
    conditions: Conditions = Field(default_factory=list)


class Lamp(Resource[LampSpec, LampStatus], group="example.com", version="v1"):
    """A lamp."""


class Lamps(ManagerHarness):
    """Counts passes, and fails on request."""

    fails: bool = False
    in_use: bool = True
    period: float = 0.0

    async def add_controllers(self, manager: Manager) -> None:
        self.passes = PerObject[int](manager.cache.declare(Lamp).informer)
        life = Lifecycle(
            Lamp,
            finalizer=FINALIZER,
            reconcile=self.switch,
            tear_down=self.unscrew,
            memory=[self.passes],
            status_period=self.period,
        )
        Builder(manager).for_(Lamp).build(life.reconciler(manager))

    async def switch(self, lamp: Lamp, this: ObjectPass) -> Result | None:
        request = Request(this.entry.name, namespace=this.entry.namespace)
        self.passes.put(request, self.passes.get(request, 0) + 1)
        if self.fails:
            raise RuntimeError("secret")
        if this.wait > 0:
            return Later(requeue_after=this.wait)
        if not lamp.spec.on:
            this.set_ready(lamp, False, "Off", "it is off")
        return None

    async def unscrew(self, lamp: Lamp, this: ObjectPass) -> Result | None:
        return Result(requeue_after=60) if self.in_use else None

    async def lamp(self) -> dict[str, Any]:
        found = await self.client.list(Lamp.gvk(), "default")
        return dict(found[0]) if found else {}

    async def change(self, **patch: object) -> None:
        await self.client.patch(Lamp.mapping(), "hall", patch, namespace="default")

    async def annotate(self, **annotations: str | None) -> None:
        keys = {"paused": "ctrlruntime.dev/paused", "now": "ctrlruntime.dev/reconcile-now"}
        found = {keys[key]: value for key, value in annotations.items()}
        await self.change(metadata={"annotations": found})

    async def until(self, kind: str, reason: str) -> dict[str, Any]:
        def shows(lamp: dict[str, Any]) -> bool:
            conditions = lamp.get("status", {}).get("conditions", [])
            return (kind, reason) in {(each["type"], each["reason"]) for each in conditions}

        return await eventually(self.lamp, shows)


async def test_an_object_has_its_life_by_one_declaration(tmp_path: Path) -> None:
    async with Environment(proxy=True, folder=tmp_path) as environment:
        await environment.install_crds(Lamp.crd())
        lamps = Lamps(environment, tmp_path)
        await lamps.start_manager()
        since = lamps.mark()
        await lamps.client.create(Lamp.from_manifest({"metadata": PLACE, "spec": {}}))
        made = await lamps.until("Ready", "Reconciled")
        assert made["metadata"]["finalizers"] == [FINALIZER]
        assert made["status"]["observedGeneration"] == 1
        await lamps.idle()
        assert len(lamps.writes(since)) == 2  # finalizer, status

        since = lamps.mark()
        await lamps.restart_manager()
        await lamps.idle()
        assert lamps.writes(since) == []

        lamps.fails = True
        await lamps.annotate(now="1")
        failed = await lamps.until("Ready", "ReconcileError")
        assert "secret" not in str(failed["status"])
        await eventually(
            lamps.lamp, lambda found: found["status"].get("lastHandledReconcile") == "1"
        )
        lamps.fails = False
        await lamps.annotate(paused="true")
        await lamps.until("Paused", "PausedByAnnotation")
        await lamps.client.delete(Lamp.mapping(), "hall", namespace="default")
        await lamps.idle()
        assert (await lamps.lamp())["metadata"]["finalizers"] == [FINALIZER]
        await lamps.annotate(paused=None)
        await lamps.until("Ready", "Deleting")
        lamps.in_use = False
        await lamps.annotate(now="2")
        await eventually(lamps.lamp, lambda found: not found)
        await lamps.idle()
        assert len(lamps.passes) == 0
        await lamps.stop_manager()


async def test_a_pass_within_the_status_period_reports_nothing(tmp_path: Path) -> None:
    async with Environment(proxy=True, folder=tmp_path) as environment:
        await environment.install_crds(Lamp.crd())
        lamps = Lamps(environment, tmp_path)
        lamps.period = 3600.0
        await lamps.start_manager()
        await lamps.client.create(Lamp.from_manifest({"metadata": PLACE, "spec": {}}))
        await lamps.until("Ready", "Reconciled")
        await lamps.idle()
        since = lamps.mark()
        await lamps.change(spec={"on": False})
        await lamps.annotate(now="1")
        await lamps.idle()
        assert lamps.writes(since) == [], "nor is the request reported as handled"
        await lamps.restart_manager()
        assert (await lamps.until("Ready", "Off"))["status"]["lastHandledReconcile"] == "1"
        await lamps.stop_manager()


def test_a_finalizer_needs_what_it_waits_for() -> None:
    with pytest.raises(ValueError, match="Lamp: give finalizer and tear_down together"):
        Lifecycle(Lamp, reconcile=lambda _lamp, _this: asyncio.sleep(0), finalizer=FINALIZER)

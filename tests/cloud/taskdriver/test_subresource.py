"""The reconciler of a subresource: whose object it is, and whether it may be worked on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from apis.cloud import Instance, InstanceTerraform, Phase, TaskState, UpgradeInstanceTask
from ctrlruntime.api import Resource, find_condition
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.controller.reconcile import Result
from ctrlruntime.envtest.proxy import Mark
from ctrlruntime.queue import Request
from ctrlruntime.resources import Definitions
from ctrlruntime.resources.revision import REVISION
from internal.cloud.labels import CONTROL_PLANE_MODE, PAUSED, RETRY, RUNS_FINALIZER, SUPERSEDED
from internal.cloud.runs import RunState
from internal.cloud.subresource import Subresource
from internal.cloud.subresource_reconciler import SubresourceReconciler, TaskReads
from internal.cloud.taskdriver.inputs import spec_revision, typed
from tests.cloud.taskdriver.harness import NAMESPACE, PLAIN, Life, TaskDriverHarness, run_of

ACME = Request("acme", namespace=NAMESPACE)
EVENT = GroupVersionKind("events.k8s.io", "v1", "Event")


def subresource(kind: type[Any]) -> Subresource[Any]:
    return Subresource(kind=kind, definition=PLAIN, desired=lambda _instance, _upstream: None)


async def reconcile(
    life: Life, kind: type[Any] = InstanceTerraform, request: Request = ACME
) -> Result | None:
    """Pass until nothing is due at once."""
    reconciler = SubresourceReconciler(
        subresource(kind), life.tools, TaskReads(Definitions(life.tools.client.live))
    )
    for _ in range(30):
        result = await reconciler.reconcile(request)
        if result is None or not result.requeue_after or result.requeue_after >= 1.0:
            return result
        life.harness.clock.advance(result.requeue_after)
    raise AssertionError("it never comes to rest")


async def instance(
    harness: TaskDriverHarness, annotations: dict[str, str] | None = None
) -> Resource[Any, Any]:
    spec = {"version": "5.3.0"}
    return await harness.make(
        kind=Instance, spec=spec, finalizers=(), annotations=annotations or {}
    )


def owned(owner: Resource[Any, Any]) -> dict[str, Any]:
    reference = {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
    }
    return {"ownerReferences": [reference]}


async def steer(harness: TaskDriverHarness, life: Life, annotation: str, value: str | None) -> None:
    patch = {"metadata": {"annotations": {annotation: value}}}
    await harness.admin.patch(Instance, "acme", patch, namespace=NAMESPACE)
    await life.seen("acme", Instance)


def writes(harness: TaskDriverHarness, mark: Mark) -> int:
    return harness.env.proxy.log.since(mark).select(user="manager").writes


@pytest.mark.criterion("SG-13")
async def test_an_object_that_is_not_there_is_no_error(harness: TaskDriverHarness) -> None:
    async with harness.life() as life:
        mark = harness.env.proxy.log.mark()
        assert await reconcile(life) is None
        requests = harness.env.proxy.log.since(mark).select(user="manager")
        assert (requests.writes, requests.reads) == (0, 0)
    assert not harness.outside.calls


@pytest.mark.criterion("H-B8")
async def test_h_b8_a_task_of_an_unknown_instance_reports_that(harness: TaskDriverHarness) -> None:
    spec = {"instanceName": "nobody", "toVersion": "5.4.0"}
    await harness.make("stray", kind=UpgradeInstanceTask, spec=spec, finalizers=())
    await harness.make("lost", finalizers=())
    async with harness.life() as life:
        for name, kind in (("stray", UpgradeInstanceTask), ("lost", InstanceTerraform)):
            await life.seen(name, kind)
            await reconcile(life, kind, Request(name, namespace=NAMESPACE))
            mark = harness.env.proxy.log.mark()
            await life.seen(name, kind)
            await reconcile(life, kind, Request(name, namespace=NAMESPACE))
            assert writes(harness, mark) == 0, "reported once"
    stray = await harness.read("stray", UpgradeInstanceTask)
    assert "Instance default/nobody does not exist" in stray.status.message
    assert reported(stray) == ("False", "InstanceUnknown", stray.metadata.generation)
    assert reported(await harness.read("lost"))[1] == "InstanceUnknown"
    assert not stray.metadata.finalizers, "nothing of it has to be cleaned up"
    assert not harness.outside.calls
    events = await harness.admin.list(EVENT, NAMESPACE)
    assert sorted(item["reason"] for item in events) == ["InstanceUnknown", "InstanceUnknown"]


def reported(found: Resource[Any, Any]) -> tuple[str, str, int | None]:
    """Status, reason and generation of the condition Ready."""
    condition = find_condition(found.status.conditions, "Ready")
    assert condition is not None
    assert found.status.observed_generation == found.metadata.generation
    return condition.status, condition.reason, condition.observed_generation


@pytest.mark.criterion("H-B6")
@pytest.mark.parametrize("kind", [UpgradeInstanceTask, InstanceTerraform])
@pytest.mark.parametrize("owner", ["nothing", "no controller"])
async def test_h_b6_what_its_instance_does_not_own_is_reported_and_not_run(
    harness: TaskDriverHarness, kind: type[Any], owner: str
) -> None:
    acme = await instance(harness)
    spec = {"instanceName": "acme", "toVersion": "5.4.0"} if kind is UpgradeInstanceTask else {}
    metadata = {} if owner == "nothing" else owned(acme)
    for reference in metadata.get("ownerReferences", ()):
        reference["controller"] = False
    await harness.make(kind=kind, spec=spec, finalizers=(), **metadata)
    async with harness.life() as life:
        await life.seen("acme", kind)
        await reconcile(life, kind)
        found = await harness.read("acme", kind)
        assert reported(found)[:2] == ("False", "NotOwned")
        assert "Change the Instance's spec instead" in found.status.message
        assert not harness.outside.calls
        await harness.admin.patch(kind, "acme", {"metadata": owned(acme)}, namespace=NAMESPACE)
        await life.seen("acme", kind)
        await reconcile(life, kind)
    assert len(harness.outside.begun) == 1, "its Instance owns it now"


@pytest.mark.criterion("H-B6")
async def test_h_b6_an_upgrade_that_is_superseded_is_not_paused(harness: TaskDriverHarness) -> None:
    acme = await instance(harness)
    spec = {"instanceName": "acme", "toVersion": "5.4.0"}
    for name in ("done", "failed", "unborn"):
        await harness.make(name, kind=UpgradeInstanceTask, spec=spec, finalizers=(), **owned(acme))
    async with harness.life() as life:
        for name in ("done", "failed"):
            await reconcile_upgrade(life, name)
            run = run_of((await harness.read(name, UpgradeInstanceTask)).status)
            end = RunState.SUCCEEDED if name == "done" else RunState.FAILED
            supersede = {"metadata": {"annotations": {SUPERSEDED: "true", PAUSED: "true"}}}
            await harness.admin.patch(UpgradeInstanceTask, name, supersede, namespace=NAMESPACE)
            await reconcile_upgrade(life, name)
            running = await harness.read(name, UpgradeInstanceTask)
            assert running.status.phase is Phase.RUNNING
            harness.outside.move(run.run_id, end, retryable=True)
            await reconcile_upgrade(life, name)
        await harness.admin.patch(UpgradeInstanceTask, "unborn", supersede, namespace=NAMESPACE)
        await reconcile_upgrade(life, "unborn")
        for name in ("failed", "unborn"):
            patch = {"metadata": {"annotations": {PAUSED: None, RETRY: "again"}}}
            await harness.admin.patch(UpgradeInstanceTask, name, patch, namespace=NAMESPACE)
            harness.clock.advance(7200)
            await reconcile_upgrade(life, name)
        shown = life.registry.get_sample_value
        for phase in ("Paused", "Failed", "Retrying"):
            labels = {"task": "terraform", "phase": phase}
            assert shown("cloud_task_objects", labels) == 0, "no alert counts it"
    found = {item.metadata.name: item for item in await harness.admin.list(UpgradeInstanceTask)}
    assert {item.status.phase for item in found.values()} == {Phase.SUPERSEDED}
    assert reported(found["done"])[0] == "True"
    assert reported(found["failed"])[:2] == ("False", "Superseded")
    assert found["failed"].status.message.startswith("Task failed. Another version")
    assert len(harness.outside.begun) == 2, (
        "no attempt follows, whatever becomes of the annotations"
    )


async def reconcile_upgrade(life: Life, name: str) -> None:
    """Pass over an upgrade, whose task is carried out once."""
    await life.seen(name, UpgradeInstanceTask)
    once = replace(PLAIN, once=True)
    sub = replace(subresource(UpgradeInstanceTask), definition=once)
    reconciler = SubresourceReconciler(
        sub, life.tools, TaskReads(Definitions(life.tools.client.live))
    )
    for _ in range(30):
        result = await reconciler.reconcile(Request(name, namespace=NAMESPACE))
        if result is None or not result.requeue_after or result.requeue_after >= 1.0:
            return
        life.harness.clock.advance(result.requeue_after)
    raise AssertionError("it never becomes idle")


async def test_an_object_of_its_instance_is_driven(harness: TaskDriverHarness) -> None:
    await harness.make(**owned(await instance(harness)), finalizers=())
    async with harness.life() as life:
        await life.seen()
        result = await reconcile(life)
        assert result is not None
        resource = await harness.read()
        assert resource.metadata.finalizers == [RUNS_FINALIZER]
        run = run_of(resource.status)
        assert harness.outside.requests[run.run_id].input.instance == "acme"


async def test_an_upgrade_goes_without_its_instance_too(harness: TaskDriverHarness) -> None:
    owner = owned(await instance(harness))
    spec = {"instanceName": "acme", "toVersion": "5.4.0"}
    await harness.make("good", kind=UpgradeInstanceTask, spec=spec, finalizers=(), **owner)
    stray = {**spec, "instanceName": "nobody"}
    await harness.make("stray", kind=UpgradeInstanceTask, spec=stray, finalizers=())
    async with harness.life() as life:
        for name in ("good", "stray"):
            await life.seen(name, UpgradeInstanceTask)
            await reconcile(life, UpgradeInstanceTask, Request(name, namespace=NAMESPACE))
        good = await harness.read("good", UpgradeInstanceTask)
        other = await harness.read("stray", UpgradeInstanceTask)
        assert harness.outside.requests[run_of(good.status).run_id].input.instance == "acme"
        assert other.status.run is None
        await harness.admin.delete(Instance, "acme", namespace=NAMESPACE)
        await harness.admin.delete(UpgradeInstanceTask, "good", namespace=NAMESPACE)
        harness.outside.move(run_of(good.status).run_id, RunState.SUCCEEDED)
        await life.seen("good", UpgradeInstanceTask)
        await reconcile(life, UpgradeInstanceTask, Request("good", namespace=NAMESPACE))
    left = await harness.admin.list(UpgradeInstanceTask, NAMESPACE)
    assert [item.metadata.name for item in left] == ["stray"], "it goes without its instance too"
    assert not harness.outside.runs


@pytest.mark.criterion("SG-70")
async def test_while_the_instance_is_extracted_nothing_is_written_or_asked(
    harness: TaskDriverHarness,
) -> None:
    await harness.make(**owned(await instance(harness)))
    async with harness.life() as life:
        await life.seen()
        await reconcile(life)
        run = run_of((await harness.read()).status)
        await steer(harness, life, CONTROL_PLANE_MODE, "false")
        harness.outside.move(run.run_id, RunState.SUCCEEDED)
        await harness.change(domain="new.example.com")
        await life.seen()
        mark, calls = harness.env.proxy.log.mark(), harness.outside.calls.total()
        result = await reconcile(life)
        assert result is not None
        assert result.requeue_after is not None
        assert life.tools.limiter.holds(run_owner(life)), "its run may be under way still"  # type: ignore[attr-defined]
        harness.clock.advance(result.requeue_after)
        assert await reconcile(life) is None
        assert not life.tools.limiter.holds(run_owner(life))  # type: ignore[attr-defined]
        assert (writes(harness, mark), harness.outside.calls.total()) == (0, calls)
        await harness.admin.patch(
            InstanceTerraform, "acme", {"spec": {"domain": None}}, namespace=NAMESPACE
        )
        await steer(harness, life, CONTROL_PLANE_MODE, None)
        await life.seen()
        await reconcile(life)
    status = (await harness.read()).status
    assert status.phase is Phase.READY, "on backfill what is unchanged is not run again"
    assert len(harness.outside.begun) == 1


def run_owner(life: Life) -> str:
    entry = life.cache.entry(InstanceTerraform, "acme", namespace=NAMESPACE)
    assert entry is not None
    return entry.uid


async def test_a_paused_instance_pauses_what_it_has(harness: TaskDriverHarness) -> None:
    await harness.make(**owned(await instance(harness, {PAUSED: "true"})))
    async with harness.life() as life:
        await life.seen()
        await reconcile(life)
        assert (await harness.read()).status.phase is Phase.PAUSED
        await steer(harness, life, PAUSED, None)
        await life.seen()
        await reconcile(life)
    assert run_of((await harness.read()).status).state is TaskState.CREATING


@pytest.mark.criterion("SG-10")
async def test_no_run_is_started_for_a_spec_that_was_edited_by_hand(
    harness: TaskDriverHarness,
) -> None:
    spec = InstanceTerraform.from_manifest(
        {"metadata": {"name": "x"}, "spec": {"domain": "a.example.com"}}
    ).spec
    owner = await instance(harness)
    await harness.make(
        spec={"domain": "a.example.com"},
        annotations={REVISION: spec_revision(spec)},
        **owned(owner),
    )
    async with harness.life() as life:
        await life.seen()
        await reconcile(life)
        harness.outside.move(run_of((await harness.read()).status).run_id, RunState.SUCCEEDED)
        await reconcile(life)
        await harness.change(domain="by-hand.example.com")
        await life.seen()
        await reconcile(life)
        assert "changed by hand" in (await harness.read()).status.message
        assert len(harness.outside.begun) == 1
        await harness.change(domain="a.example.com")
        await life.seen()
        await reconcile(life)
    assert (await harness.read()).status.phase is Phase.READY
    assert len(harness.outside.begun) == 1


async def test_a_status_that_cannot_be_read_counts_as_none(harness: TaskDriverHarness) -> None:
    await harness.make(**owned(await instance(harness)))
    async with harness.life() as life:
        await life.seen()
        await reconcile(life)
        run = run_of((await harness.read()).status)
        entry = life.cache.entry(InstanceTerraform, "acme", namespace=NAMESPACE)
        assert entry is not None
        spoilt = {**entry.decode(), "status": {"run": {"attempt": "many"}}}
        read = typed(InstanceTerraform, spoilt)
        assert read is not None
        assert read.status.run is None
        progress = await life.step(resource=read)
        assert progress.requeue_after is not None
    assert list(harness.outside.begun) == [run.run_id]

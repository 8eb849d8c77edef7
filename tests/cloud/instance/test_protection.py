"""Subresources that people delete while their instance is protected from deletion."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any

import pytest

from ctrlruntime.api import Resource, find_condition
from ctrlruntime.client.errors import NotFound
from tests.cloud.instance.e2e_harness import E2EHarness
from tests.cloud.instance.harness import BY_NAME, NAMESPACE, instance

PROTECTED: dict[str, Any] = {"debug": {"enableDeletionProtection": True}}
UNPROTECTED: dict[str, Any] = {"debug": {"enableDeletionProtection": False}}


async def test_what_is_deleted_by_hand_is_made_anew_and_nothing_torn_down(
    e2e_harness: E2EHarness,
) -> None:
    await e2e_harness.apply(instance(**PROTECTED))
    await e2e_harness.phase("Ready")
    first = await e2e_harness.there("InstanceTerraform")
    await e2e_harness.delete(kind="InstanceTerraform")

    def is_another(found: object) -> bool:
        uid = getattr(getattr(found, "metadata", None), "uid", first.metadata.uid)
        return bool(uid != first.metadata.uid)

    await e2e_harness.until("InstanceTerraform", is_another)
    await e2e_harness.until("InstanceTerraform", lambda found: found.status.phase == "Ready")
    await e2e_harness.phase("Ready")
    assert e2e_harness.elsewhere.tasks() == ["terraform", "kubernetes", "invariants", "terraform"]


async def test_without_protection_it_is_torn_down_first(e2e_harness: E2EHarness) -> None:
    await e2e_harness.apply(instance(**UNPROTECTED))
    await e2e_harness.phase("Ready")
    await e2e_harness.delete(kind="InstanceInvariants")
    await e2e_harness.until("Instance", lambda _found: len(e2e_harness.elsewhere.started) == 5)
    assert e2e_harness.elsewhere.tasks()[3:] == ["-invariants", "invariants"]


async def test_what_would_not_be_recreated_is_kept_until_it_may_go(e2e_harness: E2EHarness) -> None:
    """The instance itself is being deleted: who would know of the infrastructure afterwards?"""
    await e2e_harness.apply(instance(**PROTECTED))
    await e2e_harness.phase("Ready")
    await e2e_harness.delete()
    await e2e_harness.phase("Deleting")
    await e2e_harness.delete(kind="InstanceTerraform")
    kept = await e2e_harness.until(
        "InstanceTerraform", lambda found: "held back" in found.status.message
    )
    assert kept.metadata.deletion_timestamp is not None
    await e2e_harness.idle()
    assert await e2e_harness.get("InstanceTerraform") is not None
    assert len(e2e_harness.elsewhere.started) == 3

    await e2e_harness.edit("Instance", UNPROTECTED)
    await e2e_harness.gone("Instance")
    torn_down = e2e_harness.elsewhere.tasks()[3:]
    assert sorted(torn_down) == ["-invariants", "-kubernetes", "-terraform"]
    assert torn_down.index("-invariants") < torn_down.index("-kubernetes")


@pytest.mark.criterion("H-B2")
class TestWithoutTheInstance:
    """Its finalizer was stripped: the Instance is gone, and its subresources are deleted after it."""

    async def strip(self, e2e_harness: E2EHarness) -> None:
        await e2e_harness.client.patch(
            BY_NAME["Instance"], "src-1", {"metadata": {"finalizers": None}}, namespace=NAMESPACE
        )
        with contextlib.suppress(NotFound):
            await e2e_harness.delete()
        await e2e_harness.gone("Instance")
        for kind in ("InstanceTerraform", "InstanceKubernetes", "InstanceInvariants"):
            with contextlib.suppress(NotFound):
                await e2e_harness.delete(kind=kind)

    async def ready_and_stripped(
        self, e2e_harness: E2EHarness, spec: dict[str, Any]
    ) -> Resource[Any, Any]:
        await e2e_harness.apply(instance(**spec))
        await e2e_harness.phase("Ready")
        await e2e_harness.idle()
        await e2e_harness.stop_manager()
        await self.strip(e2e_harness)
        await e2e_harness.start_manager()
        return await e2e_harness.until("InstanceTerraform", is_held, timeout=60)

    @pytest.mark.parametrize("spec", [PROTECTED, UNPROTECTED])
    async def test_h_b2_a_child_without_its_instance_holds_and_reports_what_to_do(
        self, e2e_harness: E2EHarness, spec: dict[str, Any]
    ) -> None:
        found = await self.ready_and_stripped(e2e_harness, spec)
        on = spec["debug"]["enableDeletionProtection"]
        recorded = found.metadata.annotations["cloud.ctrlruntime.dev/deletion-protection"]
        assert recorded == ("true" if on else "false")
        condition = find_condition(found.status.conditions, "Held")
        assert condition is not None
        assert (condition.status, condition.reason) == ("True", "InstanceMissing")
        approval = f"cloud.ctrlruntime.dev/teardown-approved={found.metadata.uid}"
        assert approval in condition.message
        assert "Create the Instance again" in condition.message
        await e2e_harness.idle()
        assert e2e_harness.elsewhere.tasks() == ["terraform", "kubernetes", "invariants"]

    async def test_h_b2_an_approval_of_another_object_is_none(
        self, e2e_harness: E2EHarness
    ) -> None:
        await self.ready_and_stripped(e2e_harness, PROTECTED)
        await e2e_harness.annotate(kind="InstanceTerraform", teardown_approved="true")
        await e2e_harness.idle()
        assert await e2e_harness.get("InstanceTerraform") is not None
        assert len(e2e_harness.elsewhere.started) == 3

    async def test_h_b2_an_approved_child_is_torn_down(self, e2e_harness: E2EHarness) -> None:
        found = await self.ready_and_stripped(e2e_harness, PROTECTED)
        await e2e_harness.annotate(kind="InstanceTerraform", teardown_approved=found.metadata.uid)
        await e2e_harness.gone("InstanceTerraform")
        assert e2e_harness.elsewhere.tasks()[3:] == ["-terraform"]
        assert e2e_harness.elsewhere.started[-1].input.protected is False
        assert await e2e_harness.get("InstanceKubernetes") is not None

    async def test_h_b2_the_instance_made_again_keeps_what_was_made(
        self, e2e_harness: E2EHarness
    ) -> None:
        before = await self.ready_and_stripped(e2e_harness, PROTECTED)
        await e2e_harness.apply(instance(**PROTECTED))
        ready = await e2e_harness.phase("Ready")
        after = await e2e_harness.there("InstanceTerraform")
        assert after.metadata.uid != before.metadata.uid
        assert e2e_harness.elsewhere.tasks()[3:] == ["terraform", "kubernetes", "invariants"]
        assert {run.input.instance_uid for run in e2e_harness.elsewhere.started[3:]} == {
            ready.metadata.uid
        }


async def test_h_b2_the_record_follows_the_spec(e2e_harness: E2EHarness) -> None:
    await e2e_harness.apply(instance(**UNPROTECTED))
    await e2e_harness.phase("Ready")
    for spec, value in ((PROTECTED, "true"), (UNPROTECTED, "false")):
        await e2e_harness.edit("Instance", spec)
        for kind in ("InstanceTerraform", "InstanceKubernetes", "InstanceInvariants"):
            await e2e_harness.until(kind, partial(records, value))
    await e2e_harness.idle()
    assert e2e_harness.elsewhere.tasks() == ["terraform", "kubernetes", "invariants"], (
        "it is no input"
    )


def is_held(found: Resource[Any, Any] | None) -> bool:
    return found is not None and find_condition(found.status.conditions, "Held") is not None


def records(value: str, found: Resource[Any, Any]) -> bool:
    annotations = found.metadata.annotations or {}
    return bool(annotations.get("cloud.ctrlruntime.dev/deletion-protection") == value)

"""Subresources that people delete while their instance is protected from deletion."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any

import pytest

from ctrlruntime.api import Resource, find_condition
from ctrlruntime.client.errors import NotFound
from tests.cloud.instance.e2e_harness import Theatre
from tests.cloud.instance.harness import BY_NAME, NAMESPACE, instance

PROTECTED: dict[str, Any] = {"debug": {"enableDeletionProtection": True}}
UNPROTECTED: dict[str, Any] = {"debug": {"enableDeletionProtection": False}}


async def test_what_is_deleted_by_hand_is_made_anew_and_nothing_torn_down(
    theatre: Theatre,
) -> None:
    await theatre.apply(instance(**PROTECTED))
    await theatre.phase("Ready")
    first = await theatre.there("InstanceTerraform")
    await theatre.delete(kind="InstanceTerraform")

    def is_another(found: object) -> bool:
        uid = getattr(getattr(found, "metadata", None), "uid", first.metadata.uid)
        return bool(uid != first.metadata.uid)

    await theatre.until("InstanceTerraform", is_another)
    await theatre.until("InstanceTerraform", lambda found: found.status.phase == "Ready")
    await theatre.phase("Ready")
    assert theatre.elsewhere.tasks() == ["terraform", "kubernetes", "invariants", "terraform"]


async def test_without_protection_it_is_torn_down_first(theatre: Theatre) -> None:
    await theatre.apply(instance(**UNPROTECTED))
    await theatre.phase("Ready")
    await theatre.delete(kind="InstanceInvariants")
    await theatre.until("Instance", lambda _found: len(theatre.elsewhere.started) == 5)
    assert theatre.elsewhere.tasks()[3:] == ["-invariants", "invariants"]


async def test_what_nobody_would_make_anew_is_kept_until_it_may_go(theatre: Theatre) -> None:
    """The instance itself is being deleted: who would know of the infrastructure afterwards?"""
    await theatre.apply(instance(**PROTECTED))
    await theatre.phase("Ready")
    await theatre.delete()
    await theatre.phase("Deleting")
    await theatre.delete(kind="InstanceTerraform")
    kept = await theatre.until(
        "InstanceTerraform", lambda found: "held back" in found.status.message
    )
    assert kept.metadata.deletion_timestamp is not None
    await theatre.idle()
    assert await theatre.get("InstanceTerraform") is not None
    assert len(theatre.elsewhere.started) == 3

    await theatre.edit("Instance", UNPROTECTED)
    await theatre.gone("Instance")
    torn_down = theatre.elsewhere.tasks()[3:]
    assert sorted(torn_down) == ["-invariants", "-kubernetes", "-terraform"]
    assert torn_down.index("-invariants") < torn_down.index("-kubernetes")


@pytest.mark.criterion("H-B2")
class TestWithoutTheInstance:
    """Its finalizer was stripped: the Instance is gone, and its subresources are deleted after it."""

    async def strip(self, theatre: Theatre) -> None:
        await theatre.client.patch(
            BY_NAME["Instance"], "src-1", {"metadata": {"finalizers": None}}, namespace=NAMESPACE
        )
        with contextlib.suppress(NotFound):
            await theatre.delete()
        await theatre.gone("Instance")
        for kind in ("InstanceTerraform", "InstanceKubernetes", "InstanceInvariants"):
            with contextlib.suppress(NotFound):
                await theatre.delete(kind=kind)

    async def ready_and_stripped(
        self, theatre: Theatre, spec: dict[str, Any]
    ) -> Resource[Any, Any]:
        await theatre.apply(instance(**spec))
        await theatre.phase("Ready")
        await theatre.idle()
        await theatre.stop_manager()
        await self.strip(theatre)
        await theatre.start_manager()
        return await theatre.until("InstanceTerraform", is_held, timeout=60)

    @pytest.mark.parametrize("spec", [PROTECTED, UNPROTECTED])
    async def test_h_b2_a_child_without_its_instance_holds_and_says_what_to_do(
        self, theatre: Theatre, spec: dict[str, Any]
    ) -> None:
        found = await self.ready_and_stripped(theatre, spec)
        on = spec["debug"]["enableDeletionProtection"]
        recorded = found.metadata.annotations["cloud.ctrlruntime.dev/deletion-protection"]
        assert recorded == ("true" if on else "false")
        condition = find_condition(found.status.conditions, "Held")
        assert condition is not None
        assert (condition.status, condition.reason) == ("True", "InstanceMissing")
        approval = f"cloud.ctrlruntime.dev/teardown-approved={found.metadata.uid}"
        assert approval in condition.message
        assert "Create the Instance again" in condition.message
        await theatre.idle()
        assert theatre.elsewhere.tasks() == ["terraform", "kubernetes", "invariants"]

    async def test_h_b2_an_approval_of_another_object_is_none(self, theatre: Theatre) -> None:
        await self.ready_and_stripped(theatre, PROTECTED)
        await theatre.annotate(kind="InstanceTerraform", teardown_approved="true")
        await theatre.idle()
        assert await theatre.get("InstanceTerraform") is not None
        assert len(theatre.elsewhere.started) == 3

    async def test_h_b2_an_approved_child_is_torn_down(self, theatre: Theatre) -> None:
        found = await self.ready_and_stripped(theatre, PROTECTED)
        await theatre.annotate(kind="InstanceTerraform", teardown_approved=found.metadata.uid)
        await theatre.gone("InstanceTerraform")
        assert theatre.elsewhere.tasks()[3:] == ["-terraform"]
        assert theatre.elsewhere.started[-1].input.protected is False
        assert await theatre.get("InstanceKubernetes") is not None

    async def test_h_b2_the_instance_made_again_keeps_what_was_made(self, theatre: Theatre) -> None:
        before = await self.ready_and_stripped(theatre, PROTECTED)
        await theatre.apply(instance(**PROTECTED))
        ready = await theatre.phase("Ready")
        after = await theatre.there("InstanceTerraform")
        assert after.metadata.uid != before.metadata.uid
        assert theatre.elsewhere.tasks()[3:] == ["terraform", "kubernetes", "invariants"]
        assert {run.input.instance_uid for run in theatre.elsewhere.started[3:]} == {
            ready.metadata.uid
        }


async def test_h_b2_the_record_follows_the_spec(theatre: Theatre) -> None:
    await theatre.apply(instance(**UNPROTECTED))
    await theatre.phase("Ready")
    for spec, value in ((PROTECTED, "true"), (UNPROTECTED, "false")):
        await theatre.edit("Instance", spec)
        for kind in ("InstanceTerraform", "InstanceKubernetes", "InstanceInvariants"):
            await theatre.until(kind, partial(records, value))
    await theatre.idle()
    assert theatre.elsewhere.tasks() == ["terraform", "kubernetes", "invariants"], "it is no input"


def is_held(found: Resource[Any, Any] | None) -> bool:
    return found is not None and find_condition(found.status.conditions, "Held") is not None


def records(value: str, found: Resource[Any, Any]) -> bool:
    annotations = found.metadata.annotations or {}
    return bool(annotations.get("cloud.ctrlruntime.dev/deletion-protection") == value)

"""Subresources that people delete while their instance is protected from deletion."""

from __future__ import annotations

from typing import Any

from tests.cloud.instance.stage import instance
from tests.cloud.instance.theatre import Theatre

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
    await theatre.rest()
    assert await theatre.get("InstanceTerraform") is not None
    assert len(theatre.elsewhere.started) == 3

    await theatre.edit("Instance", UNPROTECTED)
    await theatre.gone("Instance")
    torn_down = theatre.elsewhere.tasks()[3:]
    assert sorted(torn_down) == ["-invariants", "-kubernetes", "-terraform"]
    assert torn_down.index("-invariants") < torn_down.index("-kubernetes")

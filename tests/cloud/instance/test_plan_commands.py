"""`manager instance approve` and `reject`, typed against an API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from apis.cloud import InstanceTerraform
from ctrlruntime.envtest import Environment
from internal.cloud.labels import APPROVED_PLAN, INSTANCE, REJECTED_PLAN
from internal.cloud.subresources import SUBRESOURCES
from tests.cloud.ephemeral.test_commands import Terminal

DIGEST = "1f2e3d4c5b6a7980"


@pytest.fixture
async def terminal(tmp_path: Path) -> AsyncIterator[Terminal]:
    async with Environment(folder=tmp_path) as environment:
        await environment.install_crds(*(each.kind for each in SUBRESOURCES))
        yield Terminal(environment)


async def plan_waits(terminal: Terminal, operation: str = "Apply") -> None:
    metadata = {"name": "acme", "namespace": "default", "labels": {INSTANCE: "acme"}}
    await terminal.client.create(
        InstanceTerraform.from_manifest({"metadata": metadata, "spec": {}})
    )
    plan = {
        "digest": DIGEST,
        "runID": "terraform-1",
        "content": "run-1",
        "operation": operation,
        "add": 1,
        "destroy": 3,
        "replace": 1,
        "destroys": [
            "destroy google_sql_database_instance.main",
            "replace google_compute_disk.data",
        ],
        "link": "https://app.terraform.io/app/acme/workspaces/acme/runs/run-1",
        "since": "2026-01-01T00:00:00.000000Z",
        "checkedAt": "2026-01-01T00:00:00.000000Z",
    }
    status = {"status": {"plan": plan}}
    await terminal.client.patch_status(InstanceTerraform, "acme", status, namespace="default")


async def decided(terminal: Terminal) -> tuple[str | None, str | None]:
    found = await terminal.client.get(InstanceTerraform, "acme", namespace="default")
    annotations = found.metadata.annotations or {}
    return annotations.get(APPROVED_PLAN), annotations.get(REJECTED_PLAN)


@pytest.mark.criterion("ISSUE14-2-TERRAFORM-APPROVAL")
async def test_approve_shows_the_summary_and_names_the_digest(terminal: Terminal) -> None:
    await plan_waits(terminal)
    shown = await terminal.types("instance", "approve", "acme", "--plan", DIGEST)
    assert shown.splitlines() == [
        f"InstanceTerraform acme: plan {DIGEST}, since 2026-01-01T00:00:00Z",
        "  1 to add, 0 to change, 3 to destroy, 1 of them replaced",
        "  destroy google_sql_database_instance.main",
        "  replace google_compute_disk.data",
        "  and 1 more that are destroyed or replaced",
        "  https://app.terraform.io/app/acme/workspaces/acme/runs/run-1",
        f"InstanceTerraform acme: plan {DIGEST} is approved",
    ]
    assert await decided(terminal) == (DIGEST, None)


async def test_without_a_digest_the_plan_is_shown_and_nothing_is_approved(
    terminal: Terminal,
) -> None:
    await plan_waits(terminal)
    refused = await terminal.refused("instance", "approve", "acme")
    assert "nothing was decided: `manager instance approve acme --plan DIGEST`" in refused
    assert "3 to destroy" in refused
    assert await decided(terminal) == (None, None)


@pytest.mark.criterion("ISSUE14-2-TERRAFORM-APPROVAL")
async def test_a_wrong_digest_is_refused(terminal: Terminal) -> None:
    await plan_waits(terminal)
    refused = await terminal.refused("instance", "approve", "acme", "--plan", "ffffffffffffffff")
    assert "acme: no plan ffffffffffffffff waits, nothing was decided" in refused
    assert await decided(terminal) == (None, None)
    refused = await terminal.refused("instance", "approve", "other", "--plan", DIGEST)
    assert "other: no plan waits" in refused


async def test_a_rejection_takes_the_approval_back_and_the_other_way_round(
    terminal: Terminal,
) -> None:
    await plan_waits(terminal)
    await terminal.types("instance", "approve", "acme", "--plan", DIGEST)
    shown = await terminal.types("instance", "reject", "acme", "--plan", DIGEST)
    assert "To plan again: manager instance retry acme" in shown
    assert await decided(terminal) == (None, DIGEST)
    await terminal.types("instance", "approve", "acme", "--plan", DIGEST)
    assert await decided(terminal) == (DIGEST, None)


async def test_what_is_only_a_plan_cannot_be_approved(terminal: Terminal) -> None:
    await plan_waits(terminal, operation="Plan")
    refused = await terminal.refused("instance", "approve", "acme", "--plan", DIGEST)
    assert "set spec.terraformRuns.operation of the Instance to Apply" in refused

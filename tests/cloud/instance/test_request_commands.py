"""`manager instance cancel` and `reconcile`, typed against an API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from apis.cloud import InstanceKubernetes, InstanceTerraform, TaskState
from ctrlruntime.envtest import Environment
from internal.cloud.labels import CANCEL, INSTANCE, RECONCILE, RETRY, UNLOCK
from internal.cloud.subresources import SUBRESOURCES
from tests.cloud.ephemeral.test_commands import Terminal


@pytest.fixture
async def terminal(tmp_path: Path) -> AsyncIterator[Terminal]:
    async with Environment(folder=tmp_path) as environment:
        await environment.install_crds(*(each.kind for each in SUBRESOURCES))
        yield Terminal(environment)


async def running(
    terminal: Terminal, kind: type[Any], run_id: str, *, instance: str = "acme", **run: object
) -> str:
    """Make a subresource with a run under way; return its UID."""
    name = f"{instance}-{kind.__name__.lower()}"
    spec = {} if kind is InstanceTerraform else {"version": "5.1.0"}
    metadata = {"name": name, "namespace": "default", "labels": {INSTANCE: instance}}
    made = await terminal.client.create(kind.from_manifest({"metadata": metadata, "spec": spec}))
    status = {"run": {"runID": run_id, "state": TaskState.STARTED.value, **run}}
    await terminal.client.patch_status(kind, name, {"status": status}, namespace="default")
    return str(made.metadata.uid)


async def annotation(
    terminal: Terminal, kind: type[Any], key: str = CANCEL, *, instance: str = "acme"
) -> str | None:
    name = f"{instance}-{kind.__name__.lower()}"
    found = await terminal.client.get(kind, name, namespace="default")
    return (found.metadata.annotations or {}).get(key)


async def test_every_run_under_way_of_the_instance_alone(terminal: Terminal) -> None:
    await running(terminal, InstanceTerraform, "terraform-1")
    await running(terminal, InstanceKubernetes, "other-1", state=TaskState.DONE.value)
    await running(terminal, InstanceTerraform, "terraform-2", instance="other")
    shown = await terminal.types("instance", "cancel", "acme")
    assert shown.splitlines() == [
        "InstanceTerraform acme-instanceterraform: run terraform-1 is being cancelled",
        "To go on: manager instance retry acme",
    ]
    assert await annotation(terminal, InstanceTerraform) == "terraform-1"
    assert await annotation(terminal, InstanceKubernetes) is None
    assert await annotation(terminal, InstanceTerraform, instance="other") is None


async def test_one_run_by_its_id(terminal: Terminal) -> None:
    await running(terminal, InstanceTerraform, "terraform-1")
    await running(terminal, InstanceKubernetes, "other-1")
    await terminal.types("instance", "cancel", "acme", "--run", "other-1")
    assert await annotation(terminal, InstanceTerraform) is None
    assert await annotation(terminal, InstanceKubernetes) == "other-1"


async def test_nothing_under_way_is_an_error_that_names_the_next_step(terminal: Terminal) -> None:
    await running(terminal, InstanceTerraform, "terraform-1")
    refused = await terminal.refused("instance", "cancel", "acme", "--run", "terraform-0")
    assert "acme: run terraform-0 is not under way; `manager instance describe acme`" in refused
    refused = await terminal.refused("instance", "cancel", "nobody")
    assert "nobody: nothing is under way" in refused


async def test_reconcile_requests_a_run_of_each_subresource(terminal: Terminal) -> None:
    done = TaskState.DONE.value
    await running(terminal, InstanceTerraform, "terraform-1", state=done)
    await running(terminal, InstanceKubernetes, "kubernetes-1", state=done)
    await running(terminal, InstanceTerraform, "terraform-2", instance="other", state=done)
    shown = await terminal.types("instance", "reconcile", "acme")
    assert sorted(shown.splitlines()) == [
        "InstanceKubernetes acme-instancekubernetes: a run is requested",
        "InstanceTerraform acme-instanceterraform: a run is requested",
    ]
    first = await annotation(terminal, InstanceTerraform, RECONCILE)
    assert first is not None
    assert await annotation(terminal, InstanceTerraform, RECONCILE, instance="other") is None
    await terminal.types("instance", "reconcile", "acme", "--kind", "InstanceTerraform")
    assert await annotation(terminal, InstanceTerraform, RECONCILE) != first
    assert await annotation(terminal, InstanceKubernetes, RECONCILE) == first


async def test_reconcile_without_such_a_subresource_is_an_error(terminal: Terminal) -> None:
    refused = await terminal.refused("instance", "reconcile", "acme", "--kind", "InstancePlan")
    assert "acme: it has no InstancePlan to reconcile" in refused


async def locked(terminal: Terminal, run_id: str, state: TaskState) -> None:
    """An InstanceTerraform whose last run was refused for a lock; `run_id`: the run that left it behind."""
    await running(terminal, InstanceTerraform, "terraform-2", state=state.value)
    lock = {
        "id": "3f2a",
        "who": "root@host",
        "operation": "Apply",
        "created": "2026-01-01T00:00:00Z",
        "runID": run_id,
    }
    name = "acme-instanceterraform"
    status = {"status": {"stateLock": lock}}
    await terminal.client.patch_status(InstanceTerraform, name, status, namespace="default")


@pytest.mark.criterion("G-C3")
async def test_g_c3_an_orphaned_lock_is_given_back_by_the_next_run(terminal: Terminal) -> None:
    await locked(terminal, "terraform-1", TaskState.DONE)
    shown = await terminal.types("instance", "unlock", "acme")
    assert shown.splitlines() == [
        "InstanceTerraform acme-instanceterraform: the next run gives back lock 3f2a, left behind by terraform-1"
    ]
    assert await annotation(terminal, InstanceTerraform, UNLOCK) == "3f2a"
    assert (await annotation(terminal, InstanceTerraform, RETRY) or "").startswith("unlock-")


@pytest.mark.criterion("G-C3")
@pytest.mark.parametrize(
    ("left_by", "state", "told"),
    [
        ("terraform-1", TaskState.STARTED, "run terraform-2 is under way and may hold the lock"),
        ("terraform-1", TaskState.CREATING, "run terraform-2 is under way and may hold the lock"),
        ("", TaskState.DONE, "the lock may be in use. Terraform's state is locked"),
    ],
)
async def test_g_c3_a_lock_that_may_be_in_use_is_refused(
    terminal: Terminal, left_by: str, state: TaskState, told: str
) -> None:
    await locked(terminal, left_by, state)
    assert told in await terminal.refused("instance", "unlock", "acme")
    assert await annotation(terminal, InstanceTerraform, UNLOCK) is None
    assert await annotation(terminal, InstanceTerraform, RETRY) is None


@pytest.mark.criterion("G-C3")
async def test_g_c3_without_a_lock_nothing_is_given_back(terminal: Terminal) -> None:
    await running(terminal, InstanceTerraform, "terraform-1", state=TaskState.DONE.value)
    refused = await terminal.refused("instance", "unlock", "acme")
    assert "no run was refused for the lock of a state" in refused

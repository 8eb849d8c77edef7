"""`manager fleet move`: a Tenant goes to another data plane; what it has on the hub stays what it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from apis.fleet.labels import DATA_PLANE, DATA_PLANE_ID, MOVED_FROM, MOVING_TO, PARALLEL_PREFIX
from apis.tenancy import Tenant
from ctrlruntime.controller.annotations import PAUSED
from ctrlruntime.resources import OWNER
from internal.fleet.move import copied, next_step, next_step_back
from internal.fleet.move_state import MoveRefused, MoveState, Step
from tests.fleet.stack.harness import (
    CONFIG_MAP,
    DEPLOYMENT,
    NAMESPACE,
    Fleet,
    config_map,
    deployment,
    entry,
    read,
    ready,
    tenant,
)
from tests.fleet.stack.move_harness import (
    crash_until_done,
    hold_lease,
    hub_state,
    renewed,
    run,
    two_planes,
)


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[Fleet]:
    """Two data planes, both stacks running, and a Tenant with a workload on the first."""
    async with two_planes(tmp_path) as made:
        retained = entry("kept", "ConfigMap", data={"k": "v"}) | {"deletionPolicy": "Retain"}
        resources = (deployment(config="kept"), retained, config_map("notes"))
        await made.plane.client.create(tenant(*resources))
        await ready(made.plane)
        yield made


async def check_moved(servers: Fleet, before: dict[str, tuple[str, Any]]) -> None:
    """The end state: the Tenant is on the second data plane alone, and its workload is the same object."""
    first, second = servers.planes
    moved = await ready(second)
    assert await read(first) is None
    assert moved.metadata.annotations is not None
    assert moved.metadata.annotations[MOVED_FROM] == first.id
    assert not {PAUSED, MOVING_TO} & moved.metadata.annotations.keys()
    assert await hub_state(servers) == before
    for kind in (DEPLOYMENT, CONFIG_MAP):
        for each in await servers.hub.client.list(kind, "default", labels=DATA_PLANE):
            metadata = each["metadata"]
            assert metadata["labels"][DATA_PLANE] == second.id
            assert metadata["annotations"]["ctrlruntime.dev/owner-uid"] == moved.metadata.uid
            assert metadata["annotations"]["ctrlruntime.dev/owner"].endswith(f"@{second.id}")
    assert await first.names(CONFIG_MAP) == set()
    assert await second.names(CONFIG_MAP) == {"notes"}


async def test_a_tenant_moves_and_its_workload_keeps_uid_and_spec(servers: Fleet) -> None:
    before = await hub_state(servers)
    assert before.keys() == {"Deployment web", "ConfigMap kept"}
    code, text = await run(servers)
    assert code == 0, text
    await check_moved(servers, before)
    code, text = await run(servers)  # once more: nothing is left to do
    assert (code, text.split()[1:]) == (0, ["moved"]), text
    code, text = await run(servers, source="plane-1", target="plane-0")
    assert code == 0, text
    assert await hub_state(servers) == before


@pytest.mark.slow
@pytest.mark.parametrize("first", ["before", "after"])
async def test_a_move_that_is_killed_at_every_write_ends_the_same(
    first: str, servers: Fleet
) -> None:
    before = await hub_state(servers)
    kills = await crash_until_done(servers, first)
    # pause, copy, two objects of the hub, resume, delete, release
    assert kills >= 7
    await check_moved(servers, before)


async def test_a_move_to_where_the_other_stack_may_not_write_is_refused_with_the_command(
    servers: Fleet,
) -> None:
    patch = {"metadata": {"labels": {f"{PARALLEL_PREFIX}plane-1": None}}}
    await servers.hub.client.patch(NAMESPACE, "default", patch)
    code, text = await run(servers)
    assert code == 1
    label = f"{PARALLEL_PREFIX}plane-1=true"
    assert f"kubectl label namespace default {label}" in text
    assert MOVING_TO not in str(await read(servers.plane))


async def check_untouched(servers: Fleet, before: dict[str, tuple[str, Any]]) -> None:
    """Nothing was paused, recorded, made or handed over."""
    left = await ready(servers.plane)
    assert not {PAUSED, MOVING_TO} & (left.metadata.annotations or {}).keys()
    assert await read(servers.planes[1]) is None
    assert await hub_state(servers) == before
    for kind in (DEPLOYMENT, CONFIG_MAP):
        for each in await servers.hub.client.list(kind, "default", labels=DATA_PLANE):
            assert each["metadata"]["labels"][DATA_PLANE] == servers.plane.id


@pytest.fixture
async def alone(tmp_path: Path) -> AsyncIterator[Fleet]:
    """Two data planes whose Leases a test writes; the stack of the first runs, with a Tenant."""
    async with two_planes(tmp_path, stacks=1) as made:
        await made.plane.client.create(tenant(deployment()))
        await ready(made.plane)
        yield made


@pytest.mark.criterion("G-F4")
@pytest.mark.parametrize("trouble", ["no Lease", "released", "old", "in the future", "another"])
async def test_a_move_to_a_data_plane_whose_stack_does_not_run_changes_nothing(
    trouble: str, alone: Fleet
) -> None:
    other, before = alone.planes[1], await hub_state(alone)
    await hold_lease(alone.plane, "hub/plane-0/a")
    match trouble:
        case "released":
            await hold_lease(other, "")
        case "old":
            await hold_lease(other, "hub/plane-1/a", age=61)
        case "in the future":
            await hold_lease(other, "hub/plane-1/a", age=-3600)
        case "another":
            await hold_lease(other, "hub/elsewhere/a")
    code, text = await run(alone)
    assert code == 1, text
    if trouble == "another":
        assert "held by hub/elsewhere/a" in text
    else:
        assert "kubectl -n plane-1 get pods" in text
    await check_untouched(alone, before)


@pytest.mark.criterion("G-F4")
async def test_a_lease_that_is_renewed_by_another_clock_counts(alone: Fleet) -> None:
    await hold_lease(alone.plane, "hub/plane-0/a")
    other = alone.planes[1]
    async with renewed(other, "plane-1", age=3600), alone.running(other):
        code, text = await run(alone)
    assert code == 0, text


@pytest.mark.criterion("G-F4")
async def test_a_move_from_a_data_plane_whose_stack_does_not_run_pauses_nothing(
    alone: Fleet,
) -> None:
    before = await hub_state(alone)
    await hold_lease(alone.plane, "hub/plane-0/a", age=61)
    await hold_lease(alone.planes[1], "hub/plane-1/a")
    code, text = await run(alone)
    assert (code, "kubectl -n plane-0 get pods" in text) == (1, True), text
    await check_untouched(alone, before)


@pytest.mark.criterion("G-F4")
async def test_a_move_by_a_kubeconfig_of_another_data_plane_changes_nothing(
    servers: Fleet,
) -> None:
    before = await hub_state(servers)
    for name in ("plane-1", "plane-0"):
        patch = {"metadata": {"annotations": {DATA_PLANE_ID: "third"}}}
        await servers.hub.client.patch(NAMESPACE, name, patch)
        for option in ((), ("--abort",)):
            code, text = await run(servers, *option)
            assert code == 1, text
            assert f"the kubeconfig of namespace {name} leads to data plane" in text
        own = {"plane-0": servers.plane.id, "plane-1": servers.planes[1].id}[name]
        patch = {"metadata": {"annotations": {DATA_PLANE_ID: own}}}
        await servers.hub.client.patch(NAMESPACE, name, patch)
    await check_untouched(servers, before)


async def test_a_tenant_of_that_name_on_the_other_data_plane_is_left_and_the_move_refused(
    servers: Fleet,
) -> None:
    await servers.planes[1].client.create(tenant(config_map("other")))
    await ready(servers.planes[1])
    code, text = await run(servers)
    assert code == 1
    assert "a Tenant of this name that was not moved from here" in text
    assert MOVING_TO not in str(await read(servers.plane))


def manifest(**metadata: object) -> dict[str, Any]:
    """A Tenant as a server returns it."""
    made = tenant(config_map("notes"))
    return {**made, "metadata": {**made["metadata"], "uid": "u", "generation": 1, **metadata}}


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"annotations": {PAUSED: "true"}}, "is paused"),
        ({"annotations": {MOVING_TO: "elsewhere"}}, "being moved to data plane elsewhere"),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, "is being deleted"),
        ({"ownerReferences": [{"kind": "TenantRegistry"}]}, "has an owner that is no registry"),
        (
            {"annotations": {OWNER: "TenantRegistry.tenancy.ctrlruntime.dev/shop/orders"}},
            "no TenantTemplate web that can be read; apply it there",
        ),
    ],
)
def test_what_cannot_be_moved_is_refused_with_the_reason(
    metadata: dict[str, Any], message: str
) -> None:
    with pytest.raises(MoveRefused, match=message):
        next_step(MoveState("a", "b", manifest(**metadata), None))


@pytest.mark.parametrize("field", ["hooks", "generate"])
def test_a_tenant_whose_hooks_or_drawn_values_would_come_twice_is_refused(field: str) -> None:
    left = manifest()
    left["spec"][field] = {"password": {}} if field == "generate" else [{"id": "dump"}]
    with pytest.raises(MoveRefused, match=f"its spec.{field} would"):
        next_step(MoveState("a", "b", left, None))


def test_a_move_can_be_given_up_until_something_was_handed_over() -> None:
    left = manifest(annotations={MOVING_TO: "b", PAUSED: "true"})
    assert next_step_back(MoveState("a", "b", left, None)) is Step.UNRECORD
    made = copied(left, "a")
    assert next_step_back(MoveState("a", "b", left, made, ["u"])) is Step.DROP_COPY
    assert next_step_back(MoveState("a", "b", manifest(), None)) is Step.ABORTED
    with pytest.raises(MoveRefused, match="handed over already"):
        next_step_back(MoveState("a", "b", left, made, ["u"], [""]))
    with pytest.raises(MoveRefused, match="being moved to data plane b"):
        next_step_back(MoveState("a", "c", left, made))
    with pytest.raises(MoveRefused, match="not on the data plane any more"):
        next_step_back(MoveState("a", "b", None, made))


async def test_a_move_that_is_given_up_leaves_the_tenant_at_work(servers: Fleet) -> None:
    before = await hub_state(servers)
    moved = {"metadata": {"annotations": {MOVING_TO: servers.planes[1].id, PAUSED: "true"}}}
    await servers.plane.client.patch(Tenant, "acme", moved, namespace="default")
    paused = await servers.plane.client.get(Tenant, "acme", namespace="default")
    await servers.planes[1].client.create(copied(paused.to_manifest(), servers.plane.id))
    code, text = await run(servers, "--abort")
    assert (code, "not moved" in text) == (0, True), text
    assert "deleting the paused copy" in text
    left = await ready(servers.plane)
    assert not {PAUSED, MOVING_TO} & (left.metadata.annotations or {}).keys()
    assert await read(servers.planes[1]) is None
    assert await hub_state(servers) == before


def test_nothing_is_handed_over_before_the_former_stack_has_stopped() -> None:
    left = manifest(annotations={MOVING_TO: "b", PAUSED: "true"})
    assert next_step(MoveState("a", "b", left, None, ["u"])) is Step.AWAIT_PAUSE
    left["status"] = {"conditions": [{"type": "Paused", "status": "True"}]}
    assert next_step(MoveState("a", "b", left, None, ["u"])) is Step.COPY
    made = copied(left, "a")
    assert next_step(MoveState("a", "b", left, made, ["u"])) is Step.HAND_OVER
    assert next_step(MoveState("a", "b", None, made)) is Step.RESUME
    made["metadata"]["annotations"].pop(MOVING_TO)
    assert next_step(MoveState("a", "b", None, made)) is Step.DONE  # paused by its owner

"""`manager fleet adopt`: what the hub has of a data plane that was replaced stays what it is."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import pytest

from apis.fleet.labels import (
    DATA_PLANE,
    DATA_PLANE_ID,
    KUBECONFIG_KEY,
    KUBECONFIG_SECRET,
    PARALLEL_PREFIX,
    TARGET_NAMESPACE,
)
from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.resources import OWNER, OWNER_UID
from internal.fleet.adoption import plan_adoption
from tests.fleet.stack.adopt_harness import (
    NAMES,
    copied,
    crash_until_done,
    hub_objects,
    identities,
    replaced,
    run,
    tear_down,
)
from tests.fleet.stack.harness import (
    DEPLOYMENT,
    NAMESPACE,
    SECRET,
    Fleet,
    condition,
    idle,
    ready,
    with_expired_token,
)
from tests.fleet.stack.move_harness import hold_lease, renewed


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[Fleet]:
    """A data plane that was replaced, and the one that took its place."""
    async with replaced(tmp_path) as made:
        yield made


async def check_adopted(servers: Fleet, before: dict[str, dict[str, Any]]) -> None:
    """The end: all objects are the same, and those of Tenants that were restored are of the new data plane."""
    first, second = servers.planes
    after = await hub_objects(servers)
    assert identities(after) == identities(before)
    uids = {name: (await ready(second, name)).metadata.uid for name in NAMES}
    for name, each in after.items():
        metadata = each["metadata"]
        owner = name.split()[1].partition("-")[0]
        if owner == "lost":
            assert metadata == before[name]["metadata"]
            continue
        assert metadata["labels"][DATA_PLANE] == second.id
        assert metadata["annotations"][OWNER].endswith(f"/default/{owner}@{second.id}")
        assert metadata["annotations"][OWNER_UID] == uids[owner]
    assert first.id in str(after["Deployment lost"]["metadata"])


@pytest.mark.criterion("G-F5")
async def test_tenants_that_are_in_conflict_with_themselves_get_their_workloads_as_they_are(
    servers: Fleet,
) -> None:
    before, since = await hub_objects(servers), servers.hub.mark()
    second = servers.planes[1]
    async with servers.running(second) as stack, renewed(second, "plane-1"):
        await condition(second, "Ready", "False", "ResourcesConflicted", name="a")
        code, text = await run(servers, "--dry-run")
        assert code == 0, text
        assert "nothing was changed" in text
        assert "2 Deployment" in text
        assert await hub_objects(servers) == before
        code, text = await run(servers)
        assert code == 0, text
        assert "8 object(s) adopted" in text
        assert "Tenant.tenancy.ctrlruntime.dev/default/lost@" in text
        assert "Create these there and run this again" in text
        await check_adopted(servers, before)
        await idle(stack, second, servers.hub)
        await check_adopted(servers, before)
        code, text = await run(servers)
        assert (code, "0 object(s) adopted" in text) == (0, True), text
    assert not [row for row in servers.hub.counts(since) if row.verb == "delete"]


@pytest.mark.criterion("G-F5")
async def test_workloads_that_are_adopted_before_the_stack_runs_are_never_in_conflict(
    servers: Fleet,
) -> None:
    before = await hub_objects(servers)
    patch: dict[str, Any] = {"labels": {DATA_PLANE: None}, "annotations": {DATA_PLANE_ID: None}}
    await servers.hub.client.patch(NAMESPACE, "plane-1", {"metadata": patch})
    code, text = await run(servers)
    assert code == 0, text
    async with servers.running(servers.planes[1]):
        await check_adopted(servers, before)


@pytest.mark.slow
@pytest.mark.criterion("G-F5")
@pytest.mark.parametrize("first", ["before", "after"])
async def test_an_adoption_that_is_killed_at_every_write_ends_the_same(
    first: Literal["before", "after"], servers: Fleet
) -> None:
    before = await hub_objects(servers)
    second = servers.planes[1]
    async with servers.running(second):
        kills = await crash_until_done(servers, first)
        assert kills >= 8
        await check_adopted(servers, before)


@pytest.mark.criterion("G-F5")
async def test_a_tenant_that_is_restored_later_is_adopted_by_another_run(servers: Fleet) -> None:
    before, second = await hub_objects(servers), servers.planes[1]
    async with servers.running(second):
        assert (await run(servers))[0] == 0
        await second.client.create(copied("lost"))
        code, text = await run(servers)
        assert (code, "4 object(s) adopted" in text) == (0, True), text
        await ready(second, "lost")
        after = await hub_objects(servers)
        assert identities(after) == identities(before)
        assert servers.plane.id not in str(after)


async def check_refused(servers: Fleet, message: str, **options: str) -> None:
    """The command refuses, with what to do, and changes nothing."""
    before = await hub_objects(servers)
    for arguments in ((), ("--dry-run",)):
        code, text = await run(servers, *arguments, **options)
        assert code == 1, text
        assert message in text
    assert await hub_objects(servers) == before


@pytest.mark.criterion("G-F5")
async def test_what_the_former_data_plane_may_be_at_work_on_is_not_adopted(
    servers: Fleet,
) -> None:
    hub, (first, second) = servers.hub.client, servers.planes
    for label in (DATA_PLANE, TARGET_NAMESPACE):
        metadata = {"labels": {label: "true"}, "annotations": {DATA_PLANE_ID: first.id}}
        await hub.patch(NAMESPACE, "plane-0", {"metadata": metadata})
        await check_refused(servers, f"kubectl label namespace plane-0 {DATA_PLANE}-")
        await tear_down(servers)
    await hold_lease(second, "hub/plane-0/a")
    await check_refused(servers, "has the stack hub/plane-0/a, by its Lease")
    await hold_lease(second, "hub/plane-0/a", age=61)  # as a backup has it
    await first.restart()
    await check_refused(servers, "answers (kubeconfig of namespace plane-0): it was not replaced")
    usable = await hub.get(SECRET, KUBECONFIG_SECRET, namespace="plane-0")
    expired = {KUBECONFIG_KEY: base64.b64encode(with_expired_token(first)).decode()}
    await hub.patch(SECRET, KUBECONFIG_SECRET, {"data": expired}, namespace="plane-0")
    await check_refused(servers, f"whether data plane {first.id} was replaced is not known")
    await hub.patch(SECRET, KUBECONFIG_SECRET, {"data": usable["data"]}, namespace="plane-0")
    await first.stop()
    await check_refused(servers, "itself: nothing to adopt", former=second.id)
    patch = {"metadata": {"annotations": {DATA_PLANE_ID: first.id}}}
    await hub.patch(NAMESPACE, "plane-1", patch)
    await check_refused(servers, "its stack was deployed for")
    await hub.delete(SECRET, KUBECONFIG_SECRET, namespace="plane-1")
    await check_refused(servers, "has no kubeconfig of a data plane that can be used")


@pytest.mark.criterion("G-F5")
async def test_where_the_stack_may_not_write_the_command_is_printed(servers: Fleet) -> None:
    label = f"{PARALLEL_PREFIX}plane-1"
    await servers.hub.client.patch(NAMESPACE, "default", {"metadata": {"labels": {label: None}}})
    code, text = await run(servers, "--dry-run")
    assert (code, f"kubectl label namespace default {label}=true" in text) == (0, True), text


def stored(mapping: RESTMapping, **annotations: str) -> tuple[RESTMapping, dict[str, Any]]:
    """The metadata of an object of the hub."""
    made = {"name": "x", "namespace": "default", "uid": "u", "resourceVersion": "1"}
    return mapping, {**made, "annotations": annotations}


@pytest.mark.criterion("G-F5")
def test_only_what_records_an_owner_that_the_new_data_plane_has_is_handed_over() -> None:
    key = "Tenant.tenancy.ctrlruntime.dev/default/a"
    objects = [
        stored(DEPLOYMENT, **{OWNER: f"{key}@old", OWNER_UID: "1"}),
        stored(SECRET, **{OWNER: f"{key}@old"}),
        stored(SECRET, **{OWNER: f"{key}@third", OWNER_UID: "1"}),
        stored(SECRET, **{OWNER: f"{key}b@old", OWNER_UID: "1"}),
        stored(SECRET, **{OWNER: key, OWNER_UID: "1"}),
        stored(SECRET),
    ]
    living = {("Tenant.tenancy.ctrlruntime.dev", "default", "a"): "2"}
    found = plan_adoption(objects, living, "old", "new")
    kept, workload = (each.patch["metadata"] for each in found.objects)
    assert kept["annotations"] == {OWNER: f"{key}@new"}
    assert workload["annotations"] == {OWNER: f"{key}@new", OWNER_UID: "2"}
    assert (found.left, found.unowned) == ({f"{key}b@old": 1}, 3)

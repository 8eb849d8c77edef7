"""Objects of the hub whose Tenant is gone: reported at once, deleted late, held if they are many."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apis.fleet.labels import APPROVE_ORPHANS
from apis.tenancy import Tenant
from internal.fleet.orphans import DELAY, OrphanSweep, is_held
from manager.controllers.hub import StackOptions, add_hub
from manager.controllers.orphan_sweep import OrphanSweeper, add_orphan_sweep
from manager.plane_objects import plane_objects
from tests.fleet.stack.harness import (
    CONFIG_MAP,
    DEPLOYMENT,
    NAMESPACE,
    Fleet,
    config_map,
    deployment,
    eventually,
    fleet,
    read,
    ready,
    tenant,
)
from tests.support.manager_harness import make_manager

NAMES = st.frozensets(st.sampled_from([f"t{number}" for number in range(30)]))


@pytest.mark.parametrize(
    ("orphaned", "owners", "held"),
    [(1, 5, False), (1, 4, True), (10, 50, False), (11, 1000, True), (0, 0, False)],
)
def test_above_ten_owners_or_a_fifth_approval_is_needed(
    orphaned: int, owners: int, held: bool
) -> None:
    assert is_held(orphaned, owners) is held


@given(owners=NAMES, living=NAMES, back=NAMES, approved=st.integers(0, 30))
def test_only_what_was_gone_all_the_time_and_is_few_or_approved_is_scheduled(
    owners: frozenset[str], living: frozenset[str], back: frozenset[str], approved: int
) -> None:
    sweep = OrphanSweep()
    first = sweep.look(owners, living, 0.0)
    assert first.reported == first.orphaned == owners - living
    assert not first.scheduled
    sweep.look(owners, living | back, DELAY / 2)
    last = sweep.look(owners, living, DELAY, approved)
    assert last.reported == (owners & back) - living, "what came back is a new case"
    allowed = not is_held(len(last.orphaned), len(owners)) or approved == len(last.orphaned)
    assert last.scheduled == ((owners - living - back) if allowed else frozenset())
    assert last.held == (0 if allowed else len(last.orphaned))


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with fleet(tmp_path) as made:
        yield made


async def lose(servers: Fleet, *names: str) -> None:
    """Have Tenants vanish without their finalizer, as from a backup that is older than they are."""
    client = servers.plane.client
    for name in names:
        await client.patch(Tenant, name, {"metadata": {"finalizers": None}}, namespace="default")
        await client.delete(Tenant, name, namespace="default")
        await eventually(partial(read, servers.plane, name), lambda found: found is None)


async def on_hub(servers: Fleet) -> int:
    """How many objects the hub has of the data plane, as `manager fleet top` counts them."""
    return len(await plane_objects(servers.hub.client, servers.plane.id))


async def looked(sweeper: OrphanSweeper, servers: Fleet, gone: int) -> None:
    """Look once the caches have seen that so many Tenants are gone."""

    async def look() -> int:
        return len((await sweeper.look()).orphaned)

    assert await eventually(look, lambda seen: seen == gone) == gone


@pytest.mark.criterion("D5-16")
async def test_orphans_are_deleted_after_the_delay_and_many_only_with_approval(
    servers: Fleet,
) -> None:
    hub, plane = servers.hub, servers.plane
    names = [f"t{number}" for number in range(6)]
    async with servers.running():
        for name in names:
            made = tenant(deployment(name), config_map(f"{name}-notes"), name=name)
            await plane.client.create(made)
        for name in names:
            await ready(plane, name)
    target = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "plane-0"}}
    await hub.client.create(target)
    now = 0.0
    manager = make_manager(plane.environment.config("manager"), name="manager")
    options = StackOptions(data_plane=plane.id, target_namespace="plane-0")
    connected = await add_hub(manager, hub.environment.config("manager"), options)
    sweeper = add_orphan_sweep(manager, connected, period=1e6)
    sweeper.clock = lambda: now
    async with manager.running():
        await connected.cluster.wait_synced(60.0)
        await lose(servers, "t0")
        await looked(sweeper, servers, 1)
        now = DELAY - 1
        assert not (await sweeper.look()).scheduled
        assert await hub.names(DEPLOYMENT) == set(names)
        now = DELAY
        await sweeper.look()
        assert await hub.names(DEPLOYMENT) == set(names[1:])

        await lose(servers, "t1", "t2")
        await looked(sweeper, servers, 2)
        now = 3 * DELAY
        held = await sweeper.look()
        assert (held.held, held.scheduled) == (2, frozenset())
        seen = (sweeper.metrics.orphans, sweeper.metrics.held, sweeper.metrics.objects)
        assert [each._value.get() for each in seen] == [2, 2, await on_hub(servers)]
        assert await hub.names(DEPLOYMENT) == set(names[1:])
        for number in ("1", "2"):
            patch = {"metadata": {"annotations": {APPROVE_ORPHANS: number}}}
            await hub.client.patch(NAMESPACE, "plane-0", patch)
            await sweeper.look()
            left = names[3:] if number == "2" else names[1:]
            assert await hub.names(DEPLOYMENT) == set(left), "exactly that number is approved"
        assert await plane.names(CONFIG_MAP) <= {f"{name}-notes" for name in names}


async def test_a_tenant_that_is_there_after_all_keeps_its_workload(servers: Fleet) -> None:
    """A cache that lacks Tenants deletes nothing: the live read finds them."""
    hub, plane = servers.hub, servers.plane
    async with servers.running():
        await plane.client.create(tenant(deployment()))
        await ready(plane)
    approved = {"annotations": {APPROVE_ORPHANS: "1"}, "name": "plane-0"}
    await hub.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": approved})
    manager = make_manager(plane.environment.config("manager"), name="manager")
    options = StackOptions(data_plane=plane.id, target_namespace="plane-0")
    connected = await add_hub(manager, hub.environment.config("manager"), options)
    sweeper = add_orphan_sweep(manager, connected, period=1e6, delay=0.0)
    none = manager.cache.declare(Tenant, labels="none=such", metadata_only=True)
    sweeper.owners[str(Tenant.gvk().group_kind)] = Tenant.mapping(), none
    async with manager.running():
        await connected.cluster.wait_synced(60.0)
        await manager.cache.wait_synced(60.0)
        key = f"Tenant.tenancy.ctrlruntime.dev/default/acme@{plane.id}"
        assert (await sweeper.look()).scheduled == {key}
        assert await hub.names(DEPLOYMENT) == {"web"}
        await lose(servers, "acme")
        await sweeper.look()
        assert await hub.names(DEPLOYMENT) == set()

"""Members of a stack as processes: they take over from its controllers, and share the Tenants of the data plane."""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path

import pytest

from apis.fleet.labels import DATA_PLANE, PLANE_NAMESPACE
from ctrlruntime.envtest.backends.ports import free_port
from ctrlruntime.manager.lease import LEASE
from ctrlruntime.sharding import SLOT_LABEL, slot_of
from manager.commands.plane_objects import ON_HUB
from manager.controllers.hub import StackOptions, add_hub
from manager.controllers.orphan_sweep import LeaderSweep
from tests.fleet.stack.harness import (
    DEPLOYMENT,
    Server,
    change,
    config_map,
    deployment,
    eventually,
    fleet,
    ready,
    server,
    tenant,
)
from tests.fleet.stack.test_plane_exclusive import is_ready
from tests.fleet.stack.test_processes import stack
from tests.fleet.stack.test_rights import grant, hub_and_plane, shipped
from tests.manager_cli.program import Program
from tests.support.manager_harness import PATIENT, make_manager

MEMBERS = ("one", "two")
TENANTS = [f"t{number}" for number in range(8)]


async def start(hub: Server, plane: Server, user: str, health: int = 0) -> Program:
    """Start a member with the arguments that the operator gives it; it reaches the data plane as a user of its name."""
    election = ("--leader-elect", f"--leader-election-namespace={PLANE_NAMESPACE}")
    flags = ("--role=workers", *election, "--shards", f"--shard-name={user}")
    more = ("--unrestricted-hub-secrets", f"--health-probe-bind-address=127.0.0.1:{health}")
    return await stack(hub, plane, user, *flags, *more)


async def allow(hub: Server) -> None:
    """Give a stack its rights on the hub."""
    await hub.client.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "planes"}}
    )
    for who in ("reader", "secret_reader"):
        await grant(hub.client, "ClusterRole", who.replace("_", "-"), shipped(who))
    await grant(hub.client, "Role", "writes", shipped("writer"), "default")
    await grant(hub.client, "Role", "records", shipped("recorder"), "planes")


@pytest.mark.criterion("SH-30", "SH-31")
async def test_members_take_over_from_controllers_and_no_other_stack_joins_them(
    tmp_path: Path,
) -> None:
    """Seconds: four processes start, and new members wait for others for 2 s."""
    (tmp_path / "other").mkdir()
    async with (
        hub_and_plane(tmp_path, *MEMBERS, "rival") as (hub, plane),
        server(tmp_path / "other", plane=False) as other,
    ):
        await allow(hub)
        controllers = ("--role=controllers", "--unrestricted-hub-secrets")
        async with await stack(hub, plane, "manager", *controllers) as alone:
            await alone.prints("Starting workers")
            for name in TENANTS:
                await plane.client.create(_tenant(name, "v"))
            for name in TENANTS:
                await ready(plane, name)
            ports = [free_port() for _ in MEMBERS]
            members = [await start(hub, plane, *each) for each in zip(MEMBERS, ports, strict=True)]
            async with members[0], members[1]:
                for each in members:
                    await each.prints("leads once")
                for port in ports:  # the operator takes the controllers away then
                    await eventually(partial(is_ready, port))
                assert [_wrote(plane, each) for each in MEMBERS] == [set(), set()]
                alone.send(signal.SIGTERM)
                for each in members:
                    await each.prints("Slots are held")
                async with await start(other, plane, "rival") as rival:
                    await rival.prints("DataPlaneNotUnique")
                    await rival.prints("leads once")
                    assert "DataPlaneNotUnique" not in "".join(each.output for each in members)
                    for name in TENANTS:
                        await change(plane, _tenant(name, "w"))
                    for name in TENANTS:
                        await ready(plane, name)
                    shares = [_wrote(plane, each) for each in (*MEMBERS, "rival")]
                    assert shares[2] == set()
        assert shares[0] | shares[1] == {*TENANTS}
        assert not shares[0] & shares[1]
        assert all(shares[:2])
        for made in await hub.client.list(DEPLOYMENT, "default"):
            metadata = made["metadata"]
            slot = slot_of(metadata["name"], namespace="default")
            assert {DATA_PLANE: plane.id, SLOT_LABEL: str(slot)}.items() <= metadata[
                "labels"
            ].items()
        refused = plane.environment.proxy.log.counts()
        assert [row for row in refused if row.code == 403] == []


@pytest.mark.criterion("SH-31")
async def test_the_leader_alone_caches_what_the_sweep_looks_at(tmp_path: Path) -> None:
    async with fleet(tmp_path) as servers:
        manager = make_manager(
            servers.plane.environment.config("manager"),
            name="manager",
            leader_election=True,
            leader_election_id="members",
            leader_election_namespace="default",
            election=PATIENT,
        )
        config = servers.hub.environment.config("manager")
        stack = StackOptions(data_plane=servers.plane.id, target_namespace="planes")
        hub = await add_hub(manager, config, stack)
        manager.add(LeaderSweep(manager, hub))
        await servers.plane.client.create(_held_lease("members"))
        async with manager.running(leading=False):
            assert hub.cluster.cache.informers() == ()
            await servers.plane.client.delete(LEASE, "members", namespace="default")
            await manager.elected.wait()
            kinds = {each.mapping for each in hub.cluster.cache.informers()}
            assert kinds == {*ON_HUB}


def _held_lease(name: str) -> dict[str, object]:
    spec = {"holderIdentity": "another", "leaseDurationSeconds": 3600}
    head = {"apiVersion": LEASE.api_version, "kind": LEASE.kind}
    return {**head, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def _tenant(name: str, value: str) -> dict[str, object]:
    """A Tenant with a Deployment on the hub and a ConfigMap on the data plane."""
    return tenant(deployment(name), config_map(f"{name}-notes", k=value), name=name)


def _wrote(plane: Server, user: str) -> set[str]:
    """Return the tenants whose ConfigMaps a member wrote."""
    found = plane.environment.proxy.log.entries(None)
    return {
        each.name.removesuffix("-notes")
        for each in found
        if each.user == user
        and each.resource == "configmaps"
        and each.verb not in ("get", "list", "watch")
    }

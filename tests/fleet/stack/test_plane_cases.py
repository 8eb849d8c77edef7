"""What stacks, as processes, do while a data plane is slow, stopped, full or restored from an older backup."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from apis.fleet.labels import PLANE_NAMESPACE
from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.backends import EmbeddedProcessBackend, KubeApiserverBackend
from ctrlruntime.envtest.proxy import Delay, Fail, Match
from tests.fleet.stack.harness import (
    DEPLOYMENT,
    NAMESPACE,
    Server,
    config_map,
    deployment,
    eventually,
    ready,
    server,
    tenant,
)
from tests.fleet.stack.pod import Pod
from tests.limits import CRD_SECONDS

pytestmark = pytest.mark.slow


@contextlib.asynccontextmanager
async def data_plane(folder: Path, backend: str) -> AsyncIterator[Server]:
    """A data plane that is a process of its own."""
    settings: dict[str, Any] = {}
    if backend == "kube-apiserver":
        settings = {"apiserver_flags": {"enable-priority-and-fairness": "false"}}
    environment = Environment(backend, proxy=True, folder=folder, server=settings)
    async with environment as env:
        made = Server(env)
        await env.install_crds(Tenant, TenantTemplate, TenantRegistry, timeout=CRD_SECONDS)
        metadata = {"name": PLANE_NAMESPACE}
        await made.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        found = await made.get(NAMESPACE, "kube-system")
        assert found is not None
        made.id = found["metadata"]["uid"]
        yield made


async def workloads(hub: Server) -> dict[str, tuple[str, Any]]:
    """UID and spec of all Deployments: where neither changes, nothing rolls."""
    found = await hub.client.list(DEPLOYMENT)
    return {each["metadata"]["name"]: (each["metadata"]["uid"], each["spec"]) for each in found}


async def all_but_new(hub: Server) -> dict[str, tuple[str, Any]]:
    """The workloads without that of the Tenant `new`."""
    return {name: found for name, found in (await workloads(hub)).items() if name != "new"}


def acme(name: str) -> dict[str, Any]:
    """A Tenant with a workload and a ConfigMap of its name."""
    return tenant(deployment(name), config_map(f"{name}-notes"), name=name)


@pytest.mark.criterion("FLEET-R20")
@pytest.mark.parametrize("trouble", ["slow", "stopped"])
async def test_a_data_plane_that_is_slow_or_stopped_delays_its_own_stack_alone(
    trouble: str, tmp_path: Path
) -> None:
    async with contextlib.AsyncExitStack() as opened:
        (tmp_path / "hub").mkdir()
        hub = await opened.enter_async_context(server(tmp_path / "hub", plane=False))
        east, west = [
            await opened.enter_async_context(data_plane(tmp_path / name, "embedded-process"))
            for name in ("east", "west")
        ]
        for name, plane in (("east", east), ("west", west)):
            pod = Pod(hub, plane, name, "controllers")
            await opened.enter_async_context(pod.running())
            await plane.client.create(acme(f"{name}-first"))
            await ready(plane, f"{name}-first")
        before, since = await workloads(hub), hub.mark()
        await east.client.create(acme("east-late"))  # in the middle of its work
        end = _disturb(east, trouble)
        try:
            for number in range(5):
                await west.client.create(acme(f"west-{number}"))
                await ready(west, f"west-{number}")
            during = await workloads(hub)
            assert {name: during[name] for name in before} == before
            assert not [row for row in hub.counts(since) if row.verb == "delete"]
        finally:
            end()
        await ready(east, "east-late")
        after = await workloads(hub)
        assert {name: after[name] for name in during} == during


def _disturb(plane: Server, trouble: str) -> Callable[[], None]:
    """Begin the trouble. Return what ends it."""
    if trouble == "slow":
        rule = plane.environment.proxy.add(Delay(seconds=5.0), Match(user="manager"), times=None)
        return lambda: plane.environment.proxy.remove(rule)
    backend = plane.environment.backend
    assert isinstance(backend, EmbeddedProcessBackend)
    pid = backend.child.pid
    os.kill(pid, signal.SIGSTOP)
    return lambda: os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize(
    "fault",
    [
        Fail(507, message="no room"),
        Fail(500, message="etcdserver: mvcc: database space exceeded"),
        Fail(403, reason="Forbidden", message="exceeded quota: objects"),
    ],
)
async def test_a_full_data_plane_is_written_ever_more_rarely_while_reads_go_on(
    fault: Fail, tmp_path: Path
) -> None:
    async with contextlib.AsyncExitStack() as opened:
        (tmp_path / "hub").mkdir()
        hub = await opened.enter_async_context(server(tmp_path / "hub", plane=False))
        plane = await opened.enter_async_context(data_plane(tmp_path / "p", "embedded-process"))
        pod = await opened.enter_async_context(Pod(hub, plane, "east", "controllers").running())
        await plane.client.create(acme("first"))
        await ready(plane, "first")
        proxy = plane.environment.proxy
        rule = proxy.add(
            fault,
            Match(user="manager", verb="write", resource="tenants.tenancy.ctrlruntime.dev*"),
            times=None,
        )
        mark = proxy.log.mark()
        await plane.client.create(acme("late"))

        async def refused() -> list[float]:
            return [
                each.began
                for each in proxy.log.entries(mark)
                if each.injected and each.name == "late"
            ]

        times = await eventually(refused, lambda seen: len(seen) >= 9)
        pauses = [after - before for before, after in itertools.pairwise(times)]
        # Each waits its own time at least; load can only lengthen a pause, also the first.
        assert all(pause >= 0.005 * 2**tries for tries, pause in enumerate(pauses)), pauses
        # What it reads it acts on, where there is room: a workload that was deleted is there again.
        await hub.client.delete(DEPLOYMENT, "first", namespace="default")
        await eventually(lambda: hub.get(DEPLOYMENT, "first"))
        assert pod.restarts == 0
        proxy.remove(rule)
        await ready(plane, "late")


async def test_after_an_older_backup_lost_tenants_are_held_and_those_that_return_adopted(
    tmp_path: Path,
) -> None:
    async with contextlib.AsyncExitStack() as opened:
        (tmp_path / "hub").mkdir()
        hub = await opened.enter_async_context(server(tmp_path / "hub", plane=False))
        target = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "east"}}
        await hub.client.create(target)
        plane = await opened.enter_async_context(data_plane(tmp_path / "p", "kube-apiserver"))
        pods = [Pod(hub, plane, "east", role) for role in ("controllers", "workers")]
        for pod in pods:
            await opened.enter_async_context(pod.running())
        for name in ("kept-0", "kept-1"):
            await plane.client.create(acme(name))
            await ready(plane, name)

        async def leads() -> bool:
            return "Became leader" in pods[1].output

        # By its Lease, if that is in the backup, a process sees that the plane is older.
        await eventually(leads)
        backend, backup = plane.environment.backend, tmp_path / "backup"
        assert isinstance(backend, KubeApiserverBackend)
        await backend.save(backup)
        for name in ("lost-0", "lost-1"):
            await plane.client.create(acme(name))
            await ready(plane, name)
        before = await workloads(hub)
        await backend.restore(backup)

        async def held() -> bool:
            return "Orphans held" in pods[1].output

        await eventually(held, timeout=420)
        await plane.client.create(acme("new"))
        await ready(plane, "new")
        assert await all_but_new(hub) == before
        await plane.client.create(acme("lost-0"))
        await ready(plane, "lost-0")
        assert await all_but_new(hub) == before

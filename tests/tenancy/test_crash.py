"""The manager, a real process, is killed before and after each of its writes in turn.

Once strictly: for every n a new tenant is made, and the manager dies at the n-th write that this takes,
before it reaches the server or after it is committed. And once at random moments: one fleet runs through
rows that come, change and go while every manager that is started dies at its first write, until one
finds nothing left to write. The end is always the same as without a single crash.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal

import orjson
import pytest
import yaml

from apis.tenancy import Tenant
from ctrlruntime.client.errors import NotFound
from ctrlruntime.envtest.process import ChildProcess
from ctrlruntime.envtest.proxy import Delay, Kill, Match
from ctrlruntime.json import Json
from ctrlruntime.resources import revision
from tests.support.manager_harness import is_silent
from tests.tenancy.forked_manager import fork_manager
from tests.tenancy.harness import (
    CONFIG_MAP,
    DEPLOYMENT,
    NAMESPACE_KIND,
    SAMPLES,
    SECRET,
    SERVICE,
    STATUS_PERIOD,
    TenancyHarness,
    is_ready,
    mapping,
)
from tests.tenancy.manager_forkserver import ForkServer

KINDS = (
    CONFIG_MAP,
    SECRET,
    SERVICE,
    DEPLOYMENT,
    mapping("v1", "ServiceAccount"),
    NAMESPACE_KIND,
    Tenant.mapping(),
)
MOST_LIVES = 200
OWN_WATCHES = 8
"""So many watches a manager has open once it is at work: our kinds, and those of the templates."""
WRITES_OF_A_FLEET = 30
"""A finalizer, four Tenants with their values, 14 objects, seven statuses. Each costs two lives."""
WRITES_OF_A_CHANGE = 13
"""Of a row that goes: two Tenants' deletions and finalizers, two values, seven objects."""
BESIDE_SECONDS = 1.0
"""So long a write waits for the first of its manager's life, which dies with the answer to it."""
QUIET_SECONDS = 2.5
"""A manager that has written nothing for so long has nothing left to write."""


async def start(harness: TenancyHarness, forkserver: ForkServer) -> ChildProcess:
    return await fork_manager(
        harness, forkserver, "--allow-foreign-namespaces", "*", status_period=STATUS_PERIOD
    )


async def live_once(harness: TenancyHarness, forkserver: ForkServer, when: str) -> bool:
    """One life of a manager. True if it was killed at its first write; False if it wrote nothing.

    What it sends beside its first write does not arrive: a life does one write, or none.
    """
    started = harness.mark()
    process = await start(harness, forkserver)
    killed = asyncio.Event()
    proxy = harness.environment.proxy
    beside = proxy.add(
        Delay(seconds=BESIDE_SECONDS), Match(user="manager", verb="write"), nth=2, times=None
    )
    rule = proxy.add(
        Kill(pid=process.pid, when="before" if when == "before" else "after"),
        Match(user="manager", verb="write"),
        notify=lambda *_: killed.set(),
    )
    try:
        while not killed.is_set():
            mark = harness.mark()
            if not await is_silent(lambda: "killed" if killed.is_set() else "", QUIET_SECONDS):
                break
            assert process.returncode is None, process.log_tail()
            at_work = harness.counts(started).watches >= OWN_WATCHES
            if at_work and harness.counts(mark).watches == 0 and await settled(harness):
                return False
        assert await process.wait() == -9
        return True
    finally:
        proxy.remove(rule)
        proxy.remove(beside)
        await process.stop(grace=0)


async def settled(harness: TenancyHarness) -> bool:
    """Whether everything there is says that it is ready, and nothing is on its way out."""
    tenants = await harness.client.list(Tenant, harness.namespace)
    return all(is_ready(t) and t.metadata.deletion_timestamp is None for t in tenants)


async def crash_until_done(harness: TenancyHarness, forkserver: ForkServer) -> int:
    """Kill managers at every write until one finds nothing to do. Returns the number of kills."""
    for kills in range(MOST_LIVES):
        if not await live_once(harness, forkserver, "before" if kills % 2 == 0 else "after"):
            return kills
    raise AssertionError(f"not done after {MOST_LIVES} lives of the manager")


async def inventory(harness: TenancyHarness) -> dict[str, Any]:
    """What exists of the kinds concerned, by name, without what differs from harness to harness."""
    found: dict[str, Any] = {}
    for kind in KINDS:
        for item in await harness.client.list(kind):
            metadata = item["metadata"]
            name, namespace = metadata["name"], metadata.get("namespace", "")
            if name in {"kube-root-ca.crt", "default"} or not is_of(harness, namespace or name):
                continue
            found[f"{kind.gvk.kind}/{namespace}/{name}"] = {
                "labels": metadata.get("labels"),
                "spec": essence(item.get("spec")),
                "data": item.get("data"),
                "applied": item.get("status", {}).get("appliedResources"),
            }
    told = orjson.dumps(found).replace(harness.namespace.encode(), b"SPACE")
    return dict(orjson.loads(told))


def is_of(harness: TenancyHarness, namespace: str) -> bool:
    """Whether a namespace is the harness's, or one of those that its tenants made."""
    return namespace == harness.namespace or namespace.startswith(f"{harness.namespace}-")


def space(harness: TenancyHarness, uid: str) -> str:
    """The Namespace of a tenant."""
    return f"{harness.namespace}-{uid}-space"


def essence(spec: object) -> Json:
    """What does not depend on the harness. A revision does, where lists name its namespaces."""
    if not isinstance(spec, dict):
        return spec
    found = {k: v for k, v in spec.items() if k not in ("clusterIP", "clusterIPs")}
    if "templateRevision" in spec:
        lists = {k: v for k, v in spec.items() if isinstance(v, list)}
        assert spec["templateRevision"] == revision(lists)
        found["templateRevision"] = "of its lists"
    return found


async def prepare(harness: TenancyHarness) -> None:
    harness.rows("a", "b")
    await harness.registry(
        extraValueMappings={
            "planId": "plan",
            "deployImage": {"column": "image", "sensitive": True},
            "replicas": "replicas",
        }
    )
    await harness.template()
    await harness.template(
        "space",
        namespaces=[
            {
                "id": "space",
                "nameTemplate": space(harness, "{{ .uid }}"),
                "spec": {"apiVersion": "v1", "kind": "Namespace"},
            }
        ],
        configMaps=[
            {
                "id": "inside",
                "nameTemplate": "inside",
                "targetNamespace": space(harness, "{{ .uid }}"),
                "dependIds": ["space"],
                "spec": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"uid": "{{ .uid }}"}},
            }
        ],
    )


async def change(harness: TenancyHarness) -> None:
    """One row changes, one goes."""
    harness.row("a", plan="gold", image="nginx:2")
    harness.row("b", active=0)


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.criterion("sigkill-at-each-write")
@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.matrix), "after"])
async def test_a_kill_at_the_nth_write_of_a_tenant_leaves_no_trace(
    tmp_path: Path, forkserver: ForkServer, when: Literal["before", "after"]
) -> None:
    async with TenancyHarness.start(tmp_path, nodes=True, manager=False) as harness:
        calm, _ = await tenant_with_a_kill(harness, forkserver, "calm", when, nth=10_000)
        assert len(calm) == 6, "five resources and the tenant"
        for nth in range(1, MOST_LIVES):
            found, killed = await tenant_with_a_kill(harness, forkserver, f"n{nth}", when, nth=nth)
            assert found == calm, f"killed {when} write {nth}"
            if not killed:
                break
        assert nth > 9, "a create, five applies, statuses of tenant, registry and template"


async def tenant_with_a_kill(
    harness: TenancyHarness,
    forkserver: ForkServer,
    name: str,
    when: Literal["before", "after"],
    nth: int,
) -> tuple[dict[str, Any], bool]:
    """Make one tenant under a manager killed at its nth write and another after it.

    Returns what there is of the tenant, its name taken out, and whether anybody was killed.
    """
    harness.sql(f"CREATE TABLE {name} AS SELECT * FROM tenants WHERE 0")
    harness.sql(f"INSERT INTO {name} VALUES (?, '', 1, 'basic', 'nginx:1', 1)", name)
    await harness.registry(
        name,
        source={"type": "sqlite", "sqlite": {"path": "rows.sqlite", "table": name}},
        extraValueMappings={"planId": "plan", "deployImage": "image"},
        valueMappings={"uid": "uid", "activate": "active"},
    )
    await harness.template(name, registry=name, **host_free_lists())
    process = await start(harness, forkserver)
    gone = asyncio.Event()
    rule = harness.environment.proxy.add(
        Kill(pid=process.pid, when=when),
        Match(user="manager", verb="write"),
        nth=nth,
        notify=lambda *_: gone.set(),
    )
    try:
        ready = asyncio.create_task(harness.ready(f"{name}-{name}"))
        killed = asyncio.create_task(gone.wait())
        await asyncio.wait({ready, killed}, return_when=asyncio.FIRST_COMPLETED)
        if not gone.is_set():
            await harness.idle()
        killed.cancel()
        if gone.is_set():
            await process.wait()
            process = await start(harness, forkserver)
        await ready
        await harness.idle()
    finally:
        harness.environment.proxy.remove(rule)
        await process.stop(grace=0)
    everything = await inventory(harness)
    mine = {k: v for k, v in everything.items() if k.split("/")[2].startswith(f"{name}-")}
    return orjson.loads(orjson.dumps(mine).replace(name.encode(), b"NAME")), gone.is_set()


def host_free_lists() -> dict[str, Any]:
    """The five-resource sample without the variables of a host."""
    spec = yaml.safe_load((SAMPLES / "tenanttemplate.yaml").read_text())["spec"]
    spec["configMaps"][0]["spec"]["data"].pop("host")
    spec["secrets"][0]["spec"]["stringData"] = {"fixed": "value"}
    spec.pop("registryId")
    return dict(spec)


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.matrix
@pytest.mark.criterion("sigkill-at-each-write")
async def test_a_manager_killed_at_each_of_its_writes_ends_in_the_same_state(
    tmp_path: Path, forkserver: ForkServer
) -> None:
    expected = await uninterrupted(tmp_path / "calm")
    async with TenancyHarness.start(tmp_path / "stormy", nodes=True, manager=False) as harness:
        await prepare(harness)
        assert await crash_until_done(harness, forkserver) >= 2 * WRITES_OF_A_FLEET - 1
        assert await inventory(harness) == expected[0]
        await change(harness)
        assert await crash_until_done(harness, forkserver) >= 2 * WRITES_OF_A_CHANGE - 1
        assert await inventory(harness) == expected[1]
        with pytest.raises(NotFound):
            await harness.client.get(Tenant, "b-web-app", namespace=harness.namespace)


async def uninterrupted(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a fleet comes to without a crash, before and after the change."""
    async with TenancyHarness.start(folder, nodes=True) as harness:
        await prepare(harness)
        await harness.ready("a-web-app", "b-web-app", "a-space", "b-space")
        await harness.idle()
        before = await inventory(harness)
        await change(harness)
        await harness.gone(Tenant.mapping(), "b-web-app")
        await harness.gone(Tenant.mapping(), "b-space")
        await harness.gone(NAMESPACE_KIND, space(harness, "b"))
        await harness.ready("a-web-app", "a-space")
        await harness.idle()
        return before, await inventory(harness)

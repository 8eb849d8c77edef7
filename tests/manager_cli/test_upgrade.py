"""The version before runs a fleet, this one takes over: only the writes that docs/upgrade.md lists."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from benchmarks.base_code import environment as importing
from benchmarks.base_code import exported
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.envtest import Environment, administrator
from ctrlruntime.envtest.backends.ports import free_port
from ctrlruntime.envtest.eventually import eventually
from ctrlruntime.envtest.proxy.log import LEASES
from ctrlruntime.envtest.proxy.requests import WRITES
from tests.docs.blocks import ROOT
from tests.manager_cli.program import Program
from tests.support import waiting
from tests.support.manager_harness import is_silent

pytestmark = [pytest.mark.slow]

BEFORE = "661b417"
"""The version before, until one is released."""
SPACE = "default"
QUIET = 2.5
"""Seconds without a write: more than counts and statuses wait for further changes."""
READY = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class System:
    """The fleet of one system: its objects, their state once nothing moves, and its controllers."""

    manifests: tuple[Manifest, ...]
    converged: tuple[tuple[str, str, Manifest], ...]
    controllers: tuple[str, ...]
    recreated: tuple[str, str, str] | None = None
    """Resource, kind and name of an object that is recreated when it is deleted."""


def kind(name: str) -> GroupVersionKind:
    """Return a kind by `group/Kind`, of the core group without a group."""
    group, _, bare = name.rpartition("/")
    return GroupVersionKind(f"{group}.ctrlruntime.dev" if group else "", "v1", bare)


def sample(name: str) -> Manifest:
    """Return the first object of a sample."""
    text = (ROOT / "config" / "samples" / f"{name}.yaml").read_text()
    return dict(next(iter(yaml.safe_load_all(text))))


def tenancy() -> System:
    """Return a registry of two rows, and a template with a ConfigMap, a Secret and a Service for each."""
    source = {"type": "sqlite", "sqlite": {"path": "rows.sqlite", "table": "t"}}
    registry = {
        "apiVersion": "tenancy.ctrlruntime.dev/v1",
        "kind": "TenantRegistry",
        "metadata": {"name": "rows"},
        "spec": {
            "source": {**source, "syncInterval": "1s"},
            "valueMappings": {"uid": "uid", "activate": "active"},
        },
    }
    template = sample("tenanttemplate")
    lists = {name: template["spec"][name] for name in ("configMaps", "secrets", "serviceAccounts")}
    lists["configMaps"][0]["spec"]["data"] = {"uid": "{{ .uid }}"}
    template = {**template, "metadata": {"name": "app"}, "spec": {"registryId": "rows", **lists}}
    tenants = [("tenancy/Tenant", f"{uid}-app", READY) for uid in "ab"]
    applied = {"status": {"conditions": [{"type": "Applied", "status": "True"}]}}
    return System(
        (registry, template),
        (*tenants, ("tenancy/TenantTemplate", "app", applied)),
        ("tenantregistry", "tenanttemplate", "tenant"),
        ("configmaps", "ConfigMap", "a-settings"),
    )


def cloud() -> System:
    """Return an Instance whose workload is a ConfigMap of this cluster, with the former name of its version."""
    instance = sample("instance")
    instance["spec"]["sourcegraphVersion"] = instance["spec"].pop("version")
    return System(
        (instance,),
        (("cloud/Instance", "app-1234", {"status": {"phase": "Ready"}}),),
        ("instance", "instancekubernetes", "instanceinvariants"),
    )


def cosmos() -> System:
    """Return a set of one node, which does not answer."""
    nodes = sample("cosmosfullnode")
    nodes["spec"]["replicas"] = 1
    running = {"status": {"phase": "Running"}}
    return System(
        (nodes,),
        (("Pod", "cosmoshub-0", running), ("cosmos/CosmosFullNode", "cosmoshub", {})),
        ("cosmosfullnode", "cosmoscache"),
        ("configmaps", "ConfigMap", "cosmoshub-0"),
    )


SYSTEMS = {"tenancy": tenancy, "cloud": cloud, "cosmos": cosmos}


@pytest.fixture(scope="module")
def before() -> Path:
    """Return a checkout of the version before."""
    try:
        return exported(BEFORE)
    except SystemExit as missing:
        pytest.skip(str(missing))


@contextlib.asynccontextmanager
async def manager(env: Environment, checkout: Path, user: str, system: str) -> AsyncIterator[int]:
    """Run the manager of a checkout, and yield the port of its metrics."""
    folder, port = env.folder, free_port()
    program = await Program.start(
        *("run", "--system", system, "--kubeconfig", env.kubeconfig(user)),
        *("--allow-sqlite", folder, "--runs-folder", folder / "runs", "--run-provider", "local"),
        *("--metrics-bind-address", f"127.0.0.1:{port}", "--health-probe-bind-address", "0"),
        environment=importing(checkout),
        checkout=checkout,
    )
    async with program:
        try:
            yield port
        except BaseException:
            print(program.output)
            raise
        program.send(signal.SIGTERM)
        assert await program.wait() == 0, program.output


async def reconciled(port: int, controllers: tuple[str, ...]) -> None:
    """Wait until each controller has reconciled, and none has anything queued or running."""
    async with aiohttp.ClientSession() as session:

        async def are_idle() -> bool:
            async with session.get(f"http://127.0.0.1:{port}/metrics") as answer:
                return idle(await answer.text(), controllers)

        await waiting.eventually(are_idle, despite=aiohttp.ClientConnectionError)


def idle(metrics: str, controllers: tuple[str, ...]) -> bool:
    """Whether metrics show that the controllers have reconciled and that none is busy."""
    done = set(
        re.findall(
            r'^controller_runtime_reconcile_total\{controller="(\w+)",.* [1-9]',
            metrics,
            re.MULTILINE,
        )
    )
    busy = re.findall(
        r"^(?:workqueue_depth|controller_runtime_active_workers)\{.* [1-9]", metrics, re.MULTILINE
    )
    return set(controllers) <= done and not busy


def writes(env: Environment, user: str) -> Counter[str]:
    """Return what a user wrote, by verb, resource and name; Leases and events are left out."""
    return Counter(
        f"{entry.verb} {entry.resource} {entry.name}"
        for entry in env.proxy.log.entries()
        if entry.user == user
        and entry.verb in WRITES
        and entry.resource not in (LEASES, "events.events.k8s.io")
    )


async def quiet(env: Environment, user: str) -> None:
    """Wait until the user writes nothing for a while."""

    def since(before: Counter[str]) -> Counter[str]:
        return writes(env, user) - before

    async with asyncio.timeout(120):
        while not await is_silent(partial(since, writes(env, user)), QUIET):
            pass


@contextlib.asynccontextmanager
async def cluster(folder: Path, system: System, checkout: Path) -> AsyncIterator[Environment]:
    """Run a server with simulated nodes, the CRDs of a checkout and the fleet of a system."""
    with contextlib.closing(sqlite3.connect(folder / "rows.sqlite")) as rows, rows:
        rows.execute("CREATE TABLE t (uid, active)")
        rows.executemany("INSERT INTO t VALUES (?, 1)", [("a",), ("b",)])
    users = [administrator(name) for name in ("admin", "before", "after")]
    around: dict[str, Any] = {"proxy": True, "nodes": True, "folder": folder}
    async with Environment("embedded-process", users=users, **around) as env:
        await env.install_crds(checkout / "config" / "crd" / "bases")
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "embedded-cluster"},
            "stringData": {"kubeconfig": env.kubeconfig("admin").read_text()},
        }
        for manifest in (secret, *system.manifests):
            metadata = {**manifest["metadata"], "namespace": SPACE}
            await env.client("admin").create({**manifest, "metadata": metadata})
        yield env


ANY = "any"
"""How often a status may be written: it follows what is observed, in one step or several."""
Times = dict[str, str]
"""How often each write was made."""


def listed(system: str) -> Times:
    """Return the writes that the page lists for a system."""
    page = (ROOT / "docs" / "upgrade.md").read_text()
    rows = re.findall(rf"^\| {system} \| `(\w+ \S+ \S+)` \| (\d+|{ANY}) \|", page, re.MULTILINE)
    return dict(rows)


def counted(env: Environment, user: str) -> Times:
    """Return what a user wrote as the page counts it."""
    found = writes(env, user)
    return {key: ANY if "/status " in key else str(count) for key, count in found.items()}


def runs(folder: Path) -> list[str]:
    """Return the runs of tasks that there have been."""
    return sorted(path.name for path in folder.glob("runs/*"))


async def converged(env: Environment, system: System, user: str, port: int) -> None:
    """Wait until the fleet is as it should be, and its manager has nothing left to do."""
    for group_kind, name, expected in system.converged:
        await eventually(env.client("admin"), kind(group_kind), name, expected, namespace=SPACE)
    await reconciled(port, system.controllers)
    await quiet(env, user)


@pytest.mark.parametrize("name", SYSTEMS)
async def test_taking_over_a_fleet_writes_what_the_page_lists(
    name: str, before: Path, tmp_path: Path
) -> None:
    system = SYSTEMS[name]()
    async with cluster(tmp_path, system, before) as env:
        async with manager(env, before, "before", name) as port:
            await converged(env, system, "before", port)
            # As kubectl applies them: the CRDs first, while the version before still runs.
            written = counted(env, "before")
            await env.install_crds(ROOT / "config" / "crd" / "bases")
            await quiet(env, "before")
            assert counted(env, "before") == written
        done = runs(tmp_path)
        async with manager(env, ROOT, "after", name) as port:
            await converged(env, system, "after", port)
            assert counted(env, "after") == listed(name)
            if system.recreated:
                resource, group_kind, lost = system.recreated
                client, gvk = env.client("admin"), kind(group_kind)
                await client.delete(gvk, lost, namespace=SPACE)
                await eventually(client, gvk, lost, {}, namespace=SPACE)
                recreated = {f"apply {resource} {lost}": "1"}
                assert counted(env, "after") == listed(name) | recreated
        assert runs(tmp_path) == done

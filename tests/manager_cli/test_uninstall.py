"""`manager uninstall`, over HTTP on the embedded server and on a kube-apiserver with its garbage collector (H-E2)."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from ctrlruntime.api import Manifest
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client, PatchType
from ctrlruntime.client.errors import NotFound
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.users import administrator
from ctrlruntime.manager.lease import LEASE
from ctrlruntime.sharding.options import GROUP_LABEL
from manager.cli import main
from manager.commands.owned_objects import release_patch
from manager.commands.uninstalling import CRD, custom_resources, release_objects
from manager.kinds import KINDS
from manager.options import LEADER_ELECTION_ID, SHARD_GROUP
from tests.backends import kube_apiserver
from tests.docs.blocks import ROOT
from tests.manager_cli.program import Program
from tests.support.waiting import eventually

pytestmark = [pytest.mark.criterion("H-E2")]

SAMPLES = ROOT / "config" / "samples"
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
CLAIM = GroupVersionKind("", "v1", "PersistentVolumeClaim")
JOB = GroupVersionKind("batch", "v1", "Job")
SERVICE = GroupVersionKind("", "v1", "Service")
DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
NODES = GroupVersionKind("cosmos.ctrlruntime.dev", "v1", "CosmosFullNode")
TENANT = GroupVersionKind("tenancy.ctrlruntime.dev", "v1", "Tenant")
OWNED_BY_HAND = ((CLAIM, "disk"), (CONFIG_MAP, "node"), (JOB, "run"), (CONFIG_MAP, "state"))
BY_TENANTS = (*((CONFIG_MAP, f"{uid}-cm") for uid in "abc"), (SERVICE, "a-web"))


@contextlib.asynccontextmanager
async def cluster(backend: str, folder: Path) -> AsyncIterator[Environment]:
    """A server of the test's own: its CRDs are deleted."""
    users = (administrator("admin"),)
    async with contextlib.AsyncExitStack() as stack:
        if backend == "embedded":
            environment = Environment("embedded-process", users=users, folder=folder)
        else:
            server = await asyncio.to_thread(
                stack.enter_context, kube_apiserver(folder / "kube-apiserver")
            )
            environment = server.environment(users=users)
        await stack.enter_async_context(environment)
        await environment.install_crds(*KINDS)
        yield environment


@pytest.fixture(params=["embedded", "kube-apiserver"])
async def env(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Environment]:
    async with cluster(request.param, tmp_path) as environment:
        yield environment


async def find(client: Client, kind: GroupVersionKind, name: str) -> Manifest | None:
    try:
        return await client.get(kind, name, namespace="default")
    except NotFound:
        return None


def reference(owner: Mapping[str, Any]) -> list[dict[str, Any]]:
    metadata = owner["metadata"]
    head = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
    return [{**head, "name": metadata["name"], "uid": metadata["uid"], "blockOwnerDeletion": True}]


def an_object(kind: GroupVersionKind, name: str, **metadata: object) -> dict[str, Any]:
    head = {"apiVersion": kind.api_version, "kind": kind.kind}
    body: dict[str, Any] = {}
    if kind == CLAIM:
        storage = {"requests": {"storage": "1Gi"}}
        body = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": storage}}
    elif kind == JOB:
        pod = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
        body = {"spec": {"suspend": True, "template": {"spec": pod}}}
    return {**head, "metadata": {"name": name, "namespace": "default", **metadata}, **body}


async def make_by_hand(client: Client) -> None:
    """Objects of the cloud and cosmos systems as their controllers leave them, and a bystander."""
    nodes = yaml.safe_load((SAMPLES / "cosmosfullnode.yaml").read_text())
    nodes["metadata"]["namespace"] = "default"
    made = await client.create(nodes)
    for kind, name in ((CLAIM, "disk"), (CONFIG_MAP, "node")):
        await client.create(an_object(kind, name, ownerReferences=reference(made)))
    instance = next(iter(yaml.safe_load_all((SAMPLES / "instance.yaml").read_text())))
    instance["metadata"] |= {
        "namespace": "default",
        "finalizers": ["cloud.ctrlruntime.dev/finalizer"],
    }
    owner = await client.create(instance)
    head = {"apiVersion": "cloud.ctrlruntime.dev/v1", "kind": "InstanceInvariants"}
    metadata = {
        "name": owner["metadata"]["name"],
        "namespace": "default",
        "ownerReferences": reference(owner),
        "finalizers": ["cloud.ctrlruntime.dev/runs"],
    }
    child = await client.create({**head, "metadata": metadata, "spec": {"version": "5.2.0"}})
    finalizers = ["cloud.ctrlruntime.dev/runs"]
    await client.create(
        an_object(JOB, "run", ownerReferences=reference(child), finalizers=finalizers)
    )
    await client.create(an_object(CONFIG_MAP, "state", ownerReferences=reference(child)))
    other = await client.create(an_object(CONFIG_MAP, "other"))
    await client.create(an_object(CONFIG_MAP, "bystander", ownerReferences=reference(other)))


async def make_tenants(client: Client, folder: Path) -> None:
    """A registry of three rows, and a template: one ConfigMap and one Service for each."""
    with contextlib.closing(sqlite3.connect(folder / "rows.sqlite")) as rows, rows:
        rows.execute("CREATE TABLE t (uid, active)")
        rows.executemany("INSERT INTO t VALUES (?, 1)", [("a",), ("b",), ("c",)])
    source = {
        "type": "sqlite",
        "sqlite": {"path": "rows.sqlite", "table": "t"},
        "syncInterval": "1s",
    }
    head = {"apiVersion": "tenancy.ctrlruntime.dev/v1"}
    await client.create(
        {
            **head,
            "kind": "TenantRegistry",
            "metadata": {"name": "r", "namespace": "default"},
            "spec": {"source": source, "valueMappings": {"uid": "uid", "activate": "active"}},
        }
    )
    service = {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}]}}
    lists = {
        "configMaps": [
            {
                "id": "cm",
                "nameTemplate": "{{ .uid }}-cm",
                "spec": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}},
            }
        ],
        "services": [{"id": "web", "nameTemplate": "{{ .uid }}-web", "spec": service}],
    }
    await client.create(
        {
            **head,
            "kind": "TenantTemplate",
            "metadata": {"name": "app", "namespace": "default"},
            "spec": {"registryId": "r", **lists},
        }
    )


def manager(env: Environment, folder: Path) -> Awaitable[Program]:
    """The manager's tenancy system as a process."""
    options = ["--metrics-bind-address", "0", "--health-probe-bind-address", "0"]
    config = env.kubeconfig("admin")
    given: list[str | Path] = ["run", "--kubeconfig", config, "--system", "tenancy"]
    return Program.start(*given, "--allow-sqlite", folder, *options)


async def uninstall(env: Environment, *arguments: str) -> tuple[int, str]:
    """Run the command; its code and output."""
    program = await Program.start(
        "uninstall", "--kubeconfig", env.kubeconfig("admin"), "--timeout", "120", *arguments
    )
    async with program:
        code = await program.wait(150)
        return code, program.output


async def definitions(client: Client) -> list[str]:
    found = await client.list(CRD, metadata_only=True)
    return [e["metadata"]["name"] for e in found if ".ctrlruntime.dev" in e["metadata"]["name"]]


async def uids(client: Client, objects: Iterable[tuple[GroupVersionKind, str]]) -> dict[str, str]:
    found = {f"{kind.kind}/{name}": await find(client, kind, name) for kind, name in objects}
    return {key: each["metadata"]["uid"] if each else "" for key, each in found.items()}


async def all_tenants_ready(client: Client) -> None:
    def ready(found: list[dict[str, Any]]) -> bool:
        conditions = [(t.get("status") or {}).get("conditions") or [] for t in found]
        good = [
            any(c["type"] == "Ready" and c["status"] == "True" for c in cs) for cs in conditions
        ]
        return len(good) == 3 and all(good)

    await eventually(lambda: client.list(TENANT, "default"), ready)


async def test_h_e2_uninstalling_keeps_every_object_of_all_systems(
    env: Environment, tmp_path: Path
) -> None:
    client = env.client("admin")
    await make_tenants(client, tmp_path)
    async with await manager(env, tmp_path):
        await all_tenants_ready(client)
    await make_by_hand(client)
    wanted = (*BY_TENANTS, *OWNED_BY_HAND)
    before = await uids(client, wanted)
    assert all(before.values())
    bystander = await find(client, CONFIG_MAP, "bystander")

    code, output = await uninstall(env)
    assert code == 0, output
    assert "Nothing is changed without" in output
    assert len(await definitions(client)) == len(KINDS)

    # An attempt that ended after its first steps: the next finishes it.
    await release_objects(client, lambda _line: None)
    code, output = await uninstall(env, "--keep-objects", "--yes")
    assert code == 0, output
    assert "kubectl delete --ignore-not-found -f dist/install-all.yaml" in output
    assert await definitions(client) == []
    await asyncio.sleep(5)  # a garbage collector needs less
    assert await uids(client, wanted) == before
    for kind, name in wanted:
        metadata = (await client.get(kind, name, namespace="default"))["metadata"]
        assert "deletionTimestamp" not in metadata, name
        assert release_patch(metadata) is None, name
    assert await find(client, CONFIG_MAP, "bystander") == bystander

    # Installed again, the manager adopts what it finds.
    await env.install_crds(*KINDS)
    for path in ("rows.sqlite",):
        (tmp_path / path).unlink()
    await make_tenants(client, tmp_path)
    async with await manager(env, tmp_path):
        await all_tenants_ready(client)
    assert await uids(client, BY_TENANTS) == {
        f"{kind.kind}/{name}": before[f"{kind.kind}/{name}"] for kind, name in BY_TENANTS
    }


async def test_h_e2_everything_is_removed_once_the_number_was_typed(
    env: Environment, tmp_path: Path
) -> None:
    client = env.client("admin")
    await make_tenants(client, tmp_path)
    async with await manager(env, tmp_path):
        await all_tenants_ready(client)
        number = len(await custom_resources(client)) + 6
        code, output = await uninstall(env, "--remove-everything", "--count", str(number - 1))
        assert code == 1
        assert f"there are {number} objects, not {number - 1}; nothing was changed" in output
        assert len(await client.list(TENANT, "default")) == 3
        code, output = await uninstall(env, "--remove-everything", "--count", str(number))
        assert code == 0, output
    assert await definitions(client) == []
    assert set((await uids(client, BY_TENANTS)).values()) == {""}


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncIterator[Environment]:
    async with cluster("embedded", tmp_path) as environment:
        yield environment


async def test_h_e2_the_finalizer_of_another_controller_stops_it_before_anything_is_lost(
    embedded: Environment,
) -> None:
    client = embedded.client("admin")
    await make_by_hand(client)
    before = await uids(client, OWNED_BY_HAND)
    patch = {"metadata": {"finalizers": ["cosmos.ctrlruntime.dev/finalizer", "example.com/other"]}}
    await client.patch(NODES, "cosmoshub", patch, namespace="default", type=PatchType.MERGE)
    code, output = await uninstall(embedded, "--keep-objects", "--yes")
    assert code == 1
    assert "CosmosFullNode default/cosmoshub has the finalizers example.com/other" in output
    assert len(await definitions(client)) == len(KINDS)
    assert await uids(client, OWNED_BY_HAND) == before

    gone: dict[str, Any] = {"metadata": {"finalizers": None}}
    await client.patch(NODES, "cosmoshub", gone, namespace="default", type=PatchType.MERGE)
    code, output = await uninstall(embedded, "--keep-objects", "--yes")
    assert code == 0, output
    assert await definitions(client) == []
    assert await uids(client, OWNED_BY_HAND) == before


@pytest.mark.parametrize(
    ("typed", "answer"),
    [("", "Aborted"), ("yes\n", "is not a valid integer"), ("5\n", "not 5; nothing was changed")],
)
async def test_h_e2_without_the_number_nothing_is_removed(
    embedded: Environment, typed: str, answer: str
) -> None:
    """It is asked for, and nothing else does in its place."""
    client = embedded.client("admin")
    await make_by_hand(client)
    before = await uids(client, OWNED_BY_HAND)
    number = len(await custom_resources(client)) + len(OWNED_BY_HAND)
    assert number != 5
    command = ["uninstall", "--kubeconfig", str(embedded.kubeconfig("admin"))]
    command += ["--remove-everything", "--yes"]
    done = await asyncio.to_thread(CliRunner().invoke, main, command, input=typed)
    assert done.exit_code == 1
    assert f"Type the number of objects ({number}) to remove them" in done.output
    assert answer in done.output
    assert len(await definitions(client)) == len(KINDS)
    assert await uids(client, OWNED_BY_HAND) == before


def held_lease(name: str, **labels: str) -> dict[str, Any]:
    """A Lease that was renewed just now."""
    spec = {
        "holderIdentity": "outside",
        "leaseDurationSeconds": 3600,
        "renewTime": datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
    }
    metadata = {"name": name, "namespace": "default", "labels": labels}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": LEASE.kind,
        "metadata": metadata,
        "spec": spec,
    }


async def test_h_e2_a_manager_that_still_renews_its_lease_stops_it(embedded: Environment) -> None:
    client = embedded.client("admin")
    await make_by_hand(client)
    disk = await find(client, CLAIM, "disk")
    await client.create(held_lease(LEADER_ELECTION_ID))
    code, output = await uninstall(embedded, "--keep-objects", "--yes", "--timeout", "1")
    assert code == 1
    assert "a manager is still running (Lease of outside)" in output
    assert await find(client, CLAIM, "disk") == disk


@pytest.mark.criterion("SH-34")
async def test_members_are_waited_for_and_their_leases_go_with_the_assignment(
    embedded: Environment,
) -> None:
    client = embedded.client("admin")
    own = {GROUP_LABEL: SHARD_GROUP}
    await client.create(held_lease("manager-shard-one", **own))
    assignment = held_lease("manager-slots", **own)
    assignment["spec"] = {"holderIdentity": "one"}
    await client.create(assignment)
    await client.create(held_lease("shop-shard-one", **{GROUP_LABEL: "shop"}))
    arguments = ("--keep-objects", "--yes", "--timeout", "1")
    code, output = await uninstall(embedded, *arguments)
    assert code == 1
    assert "a manager is still running (Lease of outside)" in output
    released = {"spec": {"holderIdentity": None}}
    await client.patch(LEASE, "manager-shard-one", released, namespace="default")
    code, output = await uninstall(embedded, *arguments[:2])
    assert (code, "deleted 2 Leases" in output) == (0, True), output
    left = await client.list(LEASE, labels=GROUP_LABEL, metadata_only=True)
    assert [each["metadata"]["name"] for each in left] == ["shop-shard-one"]

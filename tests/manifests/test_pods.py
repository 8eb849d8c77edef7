"""The installation as users make it: its Pods run, with the arguments and rights that they have in a cluster; a row
becomes a tenant; the installation is upgraded and uninstalled, and the tenants' objects stay (H-E1, H-E2)."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import copy
import signal
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from apis.tenancy import Tenant
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.conditions import find_condition
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.errors import NoKindMatch, NotFound
from ctrlruntime.envtest import Environment, administrator
from ctrlruntime.envtest.crds import install_crds
from ctrlruntime.envtest.proxy.requests import WRITES
from manager.manifests.folders import SYSTEMS
from manager.options import system_lease
from tests.manager_cli.program import CHECKOUT, Program
from tests.manifests.installation import (
    ACCOUNT,
    NAMESPACE,
    ROOT,
    Manifest,
    add,
    installer,
    manifests,
)
from tests.manifests.test_chart import chart, helm, rendered
from tests.mariadb import MariaDB
from tests.support.pods import LocalPods
from tests.support.waiting import eventually

__all__ = ["chart", "helm", "rendered"]
pytestmark = [
    pytest.mark.xdist_group("manifests"),
    pytest.mark.criterion("H-E1", "H-E2"),
]

CRD = "CustomResourceDefinition"
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
LEASE = GroupVersionKind("coordination.k8s.io", "v1", "Lease")
DEPLOYMENT = BUILTIN[GroupVersionKind("apps", "v1", "Deployment")]
ELECTION = (
    "events.events.k8s.io",
    "leases.coordination.k8s.io",
    "selfsubjectreviews.authentication.k8s.io",  # nothing is stored: who the manager is, once
)
"""A new leader says that it is."""
VALIDATING = GroupVersionKind(
    "admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration"
)
SYSTEM = "tenancy"
"""Of the tenants here."""
DEPLOYED = f"ctrlruntime-{SYSTEM}-controller-manager"
CONFIGURATION = f"ctrlruntime-{SYSTEM}-validating-webhook-configuration"
WEBHOOK_HOST = f"ctrlruntime-{SYSTEM}-webhook-service.{NAMESPACE}.svc"
SHOP = "shop"
ROWS = ("ann", "bea", "cid")


@pytest.fixture(scope="module")
def database() -> Iterator[MariaDB]:
    """A server with a table of rows."""
    with MariaDB.start() as made:
        made.execute("CREATE DATABASE app", "CREATE TABLE app.t (uid VARCHAR(40), active BOOL)")
        made.insert("app", "INSERT INTO t VALUES (%s, 1)", [(uid,) for uid in ROWS])
        yield made


def fleet(database: MariaDB) -> list[Manifest]:
    """The registry, its password and the template, in a namespace that users have made."""
    head = {"apiVersion": "tenancy.ctrlruntime.dev/v1"}
    mysql = {
        "host": database.host,
        "port": database.port,
        "database": "app",
        "table": "t",
        "username": database.user,
        "passwordRef": {"name": "database", "key": "password"},
    }
    config = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"tenant": "{{ .uid }}"}}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SHOP}},
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": "database",
                "namespace": SHOP,
                "labels": {"tenancy.ctrlruntime.dev/database": "true"},
            },
            "stringData": {"password": database.password},
        },
        {
            **head,
            "kind": "TenantRegistry",
            "metadata": {"name": "rows", "namespace": SHOP},
            "spec": {
                "source": {"type": "mysql", "mysql": mysql, "syncInterval": "1s"},
                "valueMappings": {"uid": "uid", "activate": "active"},
            },
        },
        {
            **head,
            "kind": "TenantTemplate",
            "metadata": {"name": "app", "namespace": SHOP},
            "spec": {
                "registryId": "rows",
                "configMaps": [{"id": "c", "nameTemplate": "{{ .uid }}-config", "spec": config}],
            },
        },
    ]


@contextlib.asynccontextmanager
async def server(backend: str, folder: Path) -> AsyncIterator[Environment]:
    """A server of the test's own, whose tokens have just the rights that are bound."""
    settings: dict[str, Any] = {}
    if backend == "kube-apiserver":
        settings["apiserver_flags"] = {"enable-priority-and-fairness": "false"}
    async with Environment(
        backend,
        proxy=True,
        folder=folder,
        authorization="RBAC",
        users=(administrator("admin"),),
        server=settings,
    ) as environment:
        yield environment


async def install(environment: Environment, objects: list[Manifest]) -> None:
    """Apply everything; the chart has no namespace."""
    client = environment.client("admin")
    if not any(each["kind"] == "Namespace" for each in objects):
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        await client.apply(space, field_manager="install")
    await install_crds(client, [each for each in objects if each["kind"] == CRD])
    await add(client, [each for each in objects if each["kind"] != CRD])


async def uids(environment: Environment) -> dict[str, str]:
    """Return the UIDs of the tenants' ConfigMaps, those that are being deleted aside."""
    found = await environment.client("admin").list(CONFIG_MAP, SHOP)
    return {
        each["metadata"]["name"]: each["metadata"]["uid"]
        for each in found
        if each["metadata"]["name"].endswith("-config")
        and "deletionTimestamp" not in each["metadata"]
    }


async def all_ready(environment: Environment) -> None:
    """Wait until there is a tenant for each row, and all are ready."""

    def ready(found: list[Tenant]) -> bool:
        conditions = [find_condition(each.status.conditions, "Ready") for each in found]
        return len(found) == len(ROWS) and all(c and c.status == "True" for c in conditions)

    client = environment.client("admin")
    await eventually(lambda: client.list(Tenant, SHOP), ready)


async def start_replicas(pods: LocalPods) -> None:
    """Start the Pods of the tenants' Deployment, and one of each other; wait until a kubelet would call them ready."""
    found: list[Any] = await pods.hub.client("admin").list(DEPLOYMENT, NAMESPACE)
    assert len(found) == len(SYSTEMS)
    for deployment in found:
        name = deployment["metadata"]["name"]
        replicas = deployment["spec"]["replicas"]
        assert replicas > 1
        for number in range(replicas if name == DEPLOYED else 1):
            await pods.start(DEPLOYMENT, name, number)
    for pod in pods.running:
        await pod.wait_ready(120)


async def holder(environment: Environment) -> str:
    """Return who leads the managers of the tenants."""
    name = system_lease(SYSTEM)
    lease: Any = await environment.client("admin").get(LEASE, name, namespace=NAMESPACE)
    return str(lease["spec"]["holderIdentity"])


Way = Callable[[pytest.FixtureRequest], list[Manifest]]
WAYS: dict[str, Way] = {
    "kustomize": lambda _: installer(),
    "chart": lambda request: request.getfixturevalue("rendered")({}),
}


@pytest.mark.parametrize(
    ("way", "backend"),
    [("kustomize", "embedded"), ("kustomize", "kube-apiserver"), ("chart", "kube-apiserver")],
)
async def test_what_is_installed_runs_is_upgraded_and_goes_and_the_tenants_stay(
    way: str, backend: str, database: MariaDB, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    async with server(backend, tmp_path) as environment:
        objects = WAYS[way](request)
        before, after = await installed_upgraded_uninstalled(
            environment, objects, database, tmp_path
        )
        assert after == before


async def installed_upgraded_uninstalled(
    environment: Environment,
    objects: list[Manifest],
    database: MariaDB,
    folder: Path,
    command: tuple[str | Path, ...] = CHECKOUT,
) -> tuple[dict[str, str], dict[str, str]]:
    """Install the objects, run their Pods by the command, upgrade and uninstall. Return the UIDs of the tenants' objects before and after."""
    pods_folder = folder / "pods"
    of_the_pod = (
        f"--leader-election-namespace={NAMESPACE}",
        f"--webhook-secret-namespace={NAMESPACE}",
    )
    async with LocalPods.of(
        environment, NAMESPACE, pods_folder, "manager", *of_the_pod, command=command
    ) as pods:
        await install(environment, objects)
        await start_replicas(pods)
        await add(environment.client("admin"), fleet(database))
        await all_ready(environment)
        if any(each["kind"] == VALIDATING.kind for each in objects):
            await serves_what_is_trusted(environment, pods)
        first, made = await holder(environment), await uids(environment)
        assert len(made) == len(ROWS)

        await pods.stop()
        await install(environment, upgraded(objects))
        mark = environment.proxy.log.mark()
        await start_replicas(pods)
        await eventually(lambda: holder(environment), lambda now: now != first)
        await all_ready(environment)
        counts = environment.proxy.log.since(mark).select(user="manager", exclude=ELECTION)
        assert counts.writes == 0, counts
        assert counts.select(code=403).total == 0, counts

        await pods.stop()
        kubeconfig = environment.kubeconfig("admin")
        program = await Program.start(
            "uninstall", "--kubeconfig", kubeconfig, "--keep-objects", "--yes",
            command=command, checkout=ROOT if command == CHECKOUT else folder,
        )  # fmt: skip
        async with program:
            assert await program.wait(150) == 0, program.output
        with pytest.raises((NotFound, NoKindMatch)):
            await environment.client("admin").get(Tenant, "ann-app", namespace=SHOP)
        return made, await uids(environment)


async def serves_what_is_trusted(environment: Environment, pods: LocalPods) -> None:
    """Wait until every webhook has the authority of what each Pod serves for the Service's name.

    Here the Service leads nowhere, so everything above happened while no webhook answered.
    """
    client = environment.client("admin")

    async def bundles() -> set[str]:
        found: Any = await client.get(VALIDATING, CONFIGURATION)
        assert {hook["failurePolicy"] for hook in found["webhooks"]} == {"Ignore"}
        return {hook["clientConfig"].get("caBundle", "") for hook in found["webhooks"]}

    (bundle,) = await eventually(bundles, lambda found: len(found) == 1 and "" not in found)
    trusting = ssl.create_default_context(cadata=base64.b64decode(bundle).decode())
    for pod in [each for each in pods.running if each.name.startswith(DEPLOYED)]:
        _, writer = await asyncio.open_connection(
            "127.0.0.1", pod.webhook_port, ssl=trusting, server_hostname=WEBHOOK_HOST
        )
        writer.close()


def upgraded(objects: list[Manifest]) -> list[Manifest]:
    """Return the installation with the image of another version."""
    changed = copy.deepcopy(objects)
    for deployment in (each for each in changed if each["kind"] == "Deployment"):
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        container["image"] = "registry.example.com/ctrlruntime-manager:0.2.0"
    return changed


@pytest.mark.criterion("S-A2")
async def test_managers_by_system_begin_when_the_one_for_all_has_ended(
    database: MariaDB, tmp_path: Path
) -> None:
    """Both installations run at once, as in an upgrade of the chart. Some seconds: two Pods on a real server."""
    given = (f"--leader-election-namespace={NAMESPACE}", f"--webhook-secret-namespace={NAMESPACE}")
    async with contextlib.AsyncExitStack() as stack:
        environment = await stack.enter_async_context(server("kube-apiserver", tmp_path))
        one, later = [
            await stack.enter_async_context(
                LocalPods.of(environment, NAMESPACE, tmp_path / user, user, *given)
            )
            for user in ("one", "later")
        ]

        def written(user: str) -> list[float]:
            """When a manager began to write what only a leader does."""
            return [
                entry.began
                for entry in environment.proxy.log.entries()
                if entry.user == user and entry.verb in WRITES and entry.resource in LED
            ]

        await install(environment, manifests())
        old = await one.start(DEPLOYMENT, ACCOUNT)
        await add(environment.client("admin"), fleet(database))
        await all_ready(environment)
        await install(environment, installer())
        new = await later.start(DEPLOYMENT, DEPLOYED)
        await new.wait_ready(120)
        await eventually(lambda: "LeaseHeld" in new.program.output)
        assert written("one")
        assert written("later") == []
        old.program.send(signal.SIGTERM)
        assert await old.program.wait() == 0
        await environment.client("admin").delete(CONFIG_MAP, "ann-config", namespace=SHOP)
        await eventually(lambda: written("later"))
        await all_ready(environment)
        assert max(written("one")) < min(written("later"))


LED = ("configmaps", "tenants.tenancy.ctrlruntime.dev")
"""What managers of tenants write while they lead."""

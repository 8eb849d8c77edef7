"""`manager import`: a fleet of Lynq's, or of the operator it was before, is adopted as it runs."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api.conditions import find_condition
from ctrlruntime.api.kinds import GroupVersionKind, Manifest
from ctrlruntime.client.client import Client, PatchType
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.users import administrator
from internal.tenancy.importing import FORMERS, FormerOperator
from tests.backends import kube_apiserver
from tests.manager_cli.program import Program
from tests.support.waiting import eventually

pytestmark = pytest.mark.criterion("TN-IMPORT")

SHOP, ELSEWHERE = "shop", "shop-edge"
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
SERVICE = GroupVersionKind("", "v1", "Service")
DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
KINDS = (CONFIG_MAP, DEPLOYMENT, SERVICE)
PORTS: Manifest = {"ports": [{"port": 80}], "selector": {"app": "{{ .uid }}"}}
POD: Manifest = {
    "metadata": {"labels": {"app": "{{ .uid }}"}},
    "spec": {"containers": [{"name": "web", "image": "registry.example.com/web:{{ .plan }}"}]},
}
LISTS: Manifest = {
    "configMaps": [
        {
            "id": "config",
            "nameTemplate": "{{ .uid }}-config",
            "spec": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"plan": "{{ .plan }}"}},
        }
    ],
    "deployments": [
        {
            "id": "web",
            "nameTemplate": "{{ .uid }}-web",
            "waitForReady": False,
            "spec": {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "spec": {"selector": {"matchLabels": {"app": "{{ .uid }}"}}, "template": POD},
            },
        }
    ],
    "services": [
        {
            "id": "edge",
            "nameTemplate": "{{ .uid }}-edge",
            "targetNamespace": ELSEWHERE,
            "spec": {"apiVersion": "v1", "kind": "Service", "spec": PORTS},
        }
    ],
}
"""Of the template: a ConfigMap, a Deployment, and a Service in another namespace."""


def crd(kind: GroupVersionKind, plural: str) -> Manifest:
    """A definition that takes everything, as that of the former operator takes its own."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": {"kind": kind.kind, "plural": plural},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


class Former:
    """The fleet as the former operator left it."""

    def __init__(self, environment: Environment, operator: FormerOperator, folder: Path) -> None:
        self.environment, self.operator, self.folder = environment, operator, folder
        self.client: Client = environment.client("admin")

    async def begin(self, uids: list[str]) -> None:
        """Make kinds, namespaces, rows, registry, template, tenants and objects."""
        operator = self.operator
        mappings = (operator.registry, operator.template, operator.tenant)
        await self.environment.install_crds(
            *(crd(each.gvk, each.plural) for each in mappings),
            TenantRegistry, TenantTemplate, Tenant,
        )  # fmt: skip
        for name in (SHOP, ELSEWHERE):
            await self.client.create(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            )
        with contextlib.closing(sqlite3.connect(self.folder / "rows.sqlite")) as rows, rows:
            rows.execute("CREATE TABLE t (uid, active, plan)")
            rows.executemany("INSERT INTO t VALUES (?, 1, 'basic')", [(uid,) for uid in uids])
        await self.client.create(self.template())
        await asyncio.gather(*map(self._tenant, uids))

    def template(self) -> Manifest:
        """The template, by the former operator's name for it."""
        gvk = self.operator.template.gvk
        return {
            "apiVersion": gvk.api_version,
            "kind": gvk.kind,
            "metadata": {"name": "app", "namespace": SHOP},
            "spec": {self.operator.registry_field: "rows", "rollout": {"maxSkew": 0}, **LISTS},
        }

    async def _tenant(self, uid: str) -> None:
        gvk, prefix = self.operator.tenant.gvk, self.operator.prefix
        node: Manifest = await self.client.create(
            {
                "apiVersion": gvk.api_version,
                "kind": gvk.kind,
                "metadata": {"name": f"{uid}-app", "namespace": SHOP},
                "spec": {"uid": uid, "templateRef": "app"},
            }
        )
        reference = {
            "apiVersion": gvk.api_version,
            "kind": gvk.kind,
            "name": f"{uid}-app",
            "uid": node["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        for entries in LISTS.values():
            for entry in entries:
                text = yaml.safe_dump(entry).replace("{{ .uid }}", uid)
                each = yaml.safe_load(text.replace("{{ .plan }}", "basic"))
                space = each.get("targetNamespace", SHOP)
                metadata: dict[str, Any] = {
                    "name": each["nameTemplate"],
                    "namespace": space,
                    "annotations": {
                        f"{prefix}/deletion-policy": "Delete",
                        f"{prefix}/applied-hash": "0123456789abcdef",
                    },
                }
                if space == SHOP:
                    metadata["ownerReferences"] = [reference]
                else:
                    metadata["labels"] = {
                        self.operator.label: f"{uid}-app",
                        self.operator.namespace_label: SHOP,
                    }
                await self.client.apply(
                    {**each["spec"], "metadata": metadata},
                    field_manager=self.operator.field_manager,
                )

    @contextlib.asynccontextmanager
    async def manager(self) -> AsyncIterator[Program]:
        """Run the manager's tenancy system as a process. A failed wait shows what it printed."""
        program = await Program.start(
            "run", "--kubeconfig", self.environment.kubeconfig("admin"), "--system", "tenancy",
            "--allow-sqlite", self.folder, "--allow-foreign-namespaces", ELSEWHERE,
            "--metrics-bind-address", "0", "--health-probe-bind-address", "0",
        )  # fmt: skip
        async with program:
            try:
                yield program
            except AssertionError as error:
                error.add_note(f"manager:\n{program.output}")
                raise

    async def run(self, *arguments: str, code: int = 0) -> str:
        """Run `manager import`, and return what it printed."""
        program = await Program.start(
            "import", "--kubeconfig", self.environment.kubeconfig("admin"),
            "--allow-foreign-namespaces", ELSEWHERE, *arguments,
        )  # fmt: skip
        async with program:
            assert await program.wait(120) == code, program.output
            return program.output

    async def apply_translated(self) -> None:
        """Apply what `--manifests` prints, and a registry: the source of this one is SQLite."""
        for each in yaml.safe_load_all(await self.run("--manifests")):
            await self.client.apply(each, field_manager="people")
        source = {
            "type": "sqlite",
            "sqlite": {"path": "rows.sqlite", "table": "t"},
            "syncInterval": "1s",
        }
        spec = {
            "source": source,
            "valueMappings": {"uid": "uid", "activate": "active"},
            "extraValueMappings": {"plan": "plan"},
        }
        await self.client.create(
            {
                "apiVersion": TenantRegistry.gvk().api_version,
                "kind": "TenantRegistry",
                "metadata": {"name": "rows", "namespace": SHOP},
                "spec": spec,
            }
        )

    async def objects(self) -> dict[str, Manifest]:
        """Return the fleet's objects by kind and name."""
        found = {}
        for kind, space in ((CONFIG_MAP, SHOP), (DEPLOYMENT, SHOP), (SERVICE, ELSEWHERE)):
            for each in await self.client.list(kind, space):
                if each["metadata"]["name"] not in ("kube-root-ca.crt", "kubernetes"):
                    found[f"{kind.kind}/{each['metadata']['name']}"] = dict(each)
        return found

    async def conditions(self, status: str, count: int) -> None:
        """Wait until so many tenants have this Ready, for their present generation."""

        def holds(found: list[Tenant]) -> bool:
            ready = [find_condition(each.status.conditions, "Ready") for each in found]
            return [each.status if each else "" for each in ready].count(status) == count

        await eventually(lambda: self.client.list(Tenant, SHOP), holds)


@contextlib.asynccontextmanager
async def cluster(backend: str, folder: Path) -> AsyncIterator[Environment]:
    """A server of the test's own: it gets the kinds of another operator."""
    users = (administrator("admin"),)
    async with contextlib.AsyncExitStack() as stack:
        if backend == "embedded":
            environment = Environment("embedded-process", users=users, folder=folder)
        else:
            started = kube_apiserver(folder / "kube-apiserver")
            server = await asyncio.to_thread(stack.enter_context, started)
            environment = server.environment(users=users)
        yield await stack.enter_async_context(environment)


@pytest.fixture(
    params=[("lynq", "embedded"), ("tenant-operator", "embedded"), ("lynq", "kube-apiserver")],
    ids=lambda given: "-".join(given),
)
async def former(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Former]:
    name, backend = request.param
    async with cluster(backend, tmp_path) as environment:
        yield Former(environment, FORMERS[name], tmp_path)


def contents(objects: dict[str, Manifest]) -> dict[str, Any]:
    """UID, and everything that is no metadata and no status."""
    return {
        key: (each["metadata"]["uid"], each.get("spec"), each.get("data"))
        for key, each in objects.items()
    }


def marks(objects: dict[str, Manifest]) -> dict[str, Any]:
    """Owners, labels, annotations and the names of those who applied."""
    return {
        key: (
            each["metadata"].get("ownerReferences"),
            each["metadata"].get("labels"),
            each["metadata"].get("annotations"),
            {e["manager"] for e in each["metadata"]["managedFields"] if e["operation"] == "Apply"},
        )
        for key, each in objects.items()
    }


async def test_a_fleet_of_200_tenants_is_adopted_without_a_delete_a_roll_or_a_new_uid(
    former: Former,
) -> None:
    uids = [f"t{number}" for number in range(200)]
    await former.begin(uids)
    before = await former.objects()
    assert len(before) == 600
    output = await former.run()
    assert "200  no Tenant" in output
    async with former.manager() as manager:
        await former.apply_translated()
        await former.conditions("False", 200)
        assert marks(await former.objects()) == marks(before)  # the manager leaves them alone
        output = await former.run()
        assert "600  take over" in output
        assert "Nothing is changed without --yes." in output
        assert marks(await former.objects()) == marks(before)
        assert "600 objects taken over" in await former.run("--yes")
        await former.conditions("True", 200)
        after = await former.objects()
        assert contents(after) == contents(before)
        assert "600 objects confirmed" in await former.run("--confirm")
        await former.conditions("True", 200)
        assert "Traceback" not in manager.output
    after = await former.objects()
    assert contents(after) == contents(before)
    assert former.operator.prefix not in str(
        [each["metadata"].get(part) for each in after.values() for part in ("labels", "annotations", "ownerReferences")]
    )  # fmt: skip


async def test_what_was_taken_over_is_given_back_as_it_was_until_it_is_confirmed(
    former: Former,
) -> None:
    await former.begin(["ann", "bea"])
    before = await former.objects()
    async with former.manager():
        await former.apply_translated()
        await former.conditions("False", 2)
        assert "6 objects taken over" in await former.run("--yes")
        await former.conditions("True", 2)
        assert "6 objects given back" in await former.run("--undo")
        await former.conditions("False", 2)
        after = await former.objects()
        for each in after.values():
            key = each["metadata"]["annotations"].pop("ctrlruntime.dev/owner")
            assert key.startswith(f"{former.operator.tenant.gvk.group_kind}/shop/")
        assert marks(after) == marks(before)
        assert contents(after) == contents(before)
        assert "0 objects given back" in await former.run("--undo")


async def test_what_would_change_or_is_not_the_former_operators_is_named_and_left(
    former: Former,
) -> None:
    await former.begin(["ann", "bea"])
    with contextlib.closing(sqlite3.connect(former.folder / "rows.sqlite")) as rows, rows:
        rows.execute("UPDATE t SET plan = 'gold' WHERE uid = 'ann'")
    other = {"metadata": {"ownerReferences": None}}
    await former.client.patch(CONFIG_MAP, "bea-config", other, namespace=SHOP, type=PatchType.MERGE)
    before = await former.objects()
    async with former.manager():
        await former.apply_translated()
        await former.conditions("False", 2)
        output = await former.run("--yes")
        assert "3 objects taken over" in output
        assert "ConfigMap shop/ann-config: data.plan" in output
        assert "Deployment shop/ann-web: spec.template" in output
        assert "ConfigMap shop/bea-config: nothing on it names a tenant" in output
        output = await former.run("--yes", "--accept-changes")
        assert "2 objects taken over" in output
        await former.conditions("True", 1)
    after = await former.objects()
    assert after["ConfigMap/ann-config"]["data"] == {"plan": "gold"}
    assert marks(after)["ConfigMap/bea-config"] == marks(before)["ConfigMap/bea-config"]
    assert {key: uid for key, (uid, *_) in contents(after).items()} == {
        key: uid for key, (uid, *_) in contents(before).items()
    }


async def test_nothing_is_taken_over_while_the_former_operator_renews_its_lease(
    former: Former,
) -> None:
    await former.begin(["ann"])
    lease: Manifest = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": former.operator.lease, "namespace": SHOP},
        "spec": {
            "holderIdentity": "pod-1",
            "leaseDurationSeconds": 3600,
            "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        },
    }
    await former.client.create(lease)
    async with former.manager():
        await former.apply_translated()
        await former.conditions("False", 1)
    output = await former.run("--yes", code=1)
    assert "pod-1 renews the Lease" in output
    assert "namespace shop to 0" in output

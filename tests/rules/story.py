"""What a platform team has of each system, under names that a test chooses.

    story = Story(harness, "a-b", "c")
    await story.begin()
    await story.complete()

Two rows with a template of three resources, an Instance with a workload in its own namespace, a set of two
nodes. Everything is named after `name`.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.errors import AlreadyExists, Conflict, NotFound
from internal.named_secrets import Purpose
from tests.rules.harness import LIMIT, Harness, is_ready, mapping_of
from tests.support.waiting import eventually

Manifest = dict[str, Any]
ROWS = ("one", "two")
KUBECONFIG = "own-cluster"
CORE = ("ConfigMap", "Secret", "Service", "PersistentVolumeClaim", "Pod", "ServiceAccount")
KEPT_KINDS = (
    *(GroupVersionKind("", "v1", kind) for kind in CORE),
    GroupVersionKind("apps", "v1", "Deployment"),
    GroupVersionKind("batch", "v1", "Job"),
    GroupVersionKind("rbac.authorization.k8s.io", "v1", "Role"),
    GroupVersionKind("rbac.authorization.k8s.io", "v1", "RoleBinding"),
)
"""Built-in kinds whose objects belong to a story."""
OWN_KINDS = (
    "TenantRegistry",
    "TenantTemplate",
    "Tenant",
    "Instance",
    "InstanceTerraform",
    "InstanceKubernetes",
    "InstanceKubernetesPVC",
    "InstanceInvariants",
    "CosmosFullNode",
    "ScheduledVolumeSnapshot",
    "StatefulJob",
)


@dataclass(frozen=True, slots=True)
class Story:
    """One team's namespace."""

    harness: Harness
    namespace: str
    name: str

    async def begin(self) -> None:
        """Create the namespace, the table and the custom resources."""
        self._make_table()
        client = self.harness.client
        with contextlib.suppress(AlreadyExists):
            await client.create(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
            )
        for manifest in self.manifests():
            with contextlib.suppress(AlreadyExists):
                await client.create(manifest)

    def manifests(self) -> list[Manifest]:
        """Return what people write."""
        return [
            self._kubeconfig(),
            self._registry(),
            self._template(),
            self._instance(),
            self._node_set(),
        ]

    async def complete(self, limit: float = LIMIT) -> None:
        """Wait until everything is ready. Raises AssertionError that shows what is not."""
        await eventually(self.pending, lambda pending: not pending, timeout=limit)

    async def pending(self) -> list[str]:
        """Return the custom resources that are not ready, with their conditions."""
        found = []
        live = await self.custom_resources()
        for kind, count in self.expected().items():
            if sum(each["kind"] == kind for each in live) != count:
                found.append(f"{count} of {kind} expected")
        for each in live:
            if not is_ready(each):
                status = each.get("status") or {}
                found.append(f"{each['kind']}/{each['metadata']['name']}: {status}")
        return found

    def expected(self) -> dict[str, int]:
        """Return how many objects of a kind there are in the end, for the main kinds."""
        return {"Tenant": len(ROWS), "Instance": 1, "CosmosFullNode": 1}

    def own_kinds(self) -> Sequence[str]:
        """Return the product's kinds that the story has."""
        return OWN_KINDS

    async def custom_resources(self) -> list[Manifest]:
        """Return the live objects of the product's kinds."""
        return [
            {**dict(item), "kind": kind}
            for kind in self.own_kinds()
            for item in await self.harness.client.list(mapping_of(kind).gvk, self.namespace)
        ]

    async def objects(self) -> dict[str, Manifest]:
        """Return every object of the story by kind and name."""
        found = {_key(each): each for each in await self.custom_resources()}
        for gvk in KEPT_KINDS:
            for item in await self.harness.client.list(gvk, self.namespace):
                manifest = {**dict(item), "kind": gvk.kind}
                found[_key(manifest)] = manifest
        return found

    # -- what people write ---------------------------------------------------------------------

    def row(self, uid: str, **values: object) -> None:
        """Insert or replace a row."""
        row = {"uid": uid, "url": f"https://{uid}.example.com", "active": 1, "plan": "basic"}
        with contextlib.closing(sqlite3.connect(self._table)) as database, database:
            database.execute(
                "INSERT OR REPLACE INTO tenants VALUES (?, ?, ?, ?)",
                tuple({**row, **values}.values()),
            )

    def _make_table(self) -> None:
        with contextlib.closing(sqlite3.connect(self._table)) as database, database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute(
                "CREATE TABLE IF NOT EXISTS tenants (uid PRIMARY KEY, url, active, plan)"
            )
        for uid in ROWS:
            self.row(uid)

    @property
    def _table(self) -> str:
        return str(self.harness.folder / f"{self.namespace}_{self.name}.sqlite")

    def _metadata(self, name: str | None = None) -> Manifest:
        return {"name": name or self.name, "namespace": self.namespace}

    def _kubeconfig(self) -> Manifest:
        text = self.harness.environment.kubeconfig("admin").read_text()
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                **self._metadata(KUBECONFIG),
                "labels": {Purpose.CLUSTER.value: "true"},
            },
            "stringData": {"kubeconfig": text},
        }

    def _registry(self) -> Manifest:
        path = f"{self.namespace}_{self.name}.sqlite"
        return {
            "apiVersion": "tenancy.ctrlruntime.dev/v1",
            "kind": "TenantRegistry",
            "metadata": self._metadata(),
            "spec": {
                "source": {
                    "type": "sqlite",
                    "sqlite": {"path": path, "table": "tenants"},
                    "syncInterval": "1s",
                },
                "valueMappings": {"uid": "uid", "hostOrUrl": "url", "activate": "active"},
                "extraValueMappings": {"plan": "plan"},
            },
        }

    def _template(self) -> Manifest:
        labels = {"app": "{{ .uid }}"}
        return {
            "apiVersion": "tenancy.ctrlruntime.dev/v1",
            "kind": "TenantTemplate",
            "metadata": self._metadata(),
            "spec": {
                "registryId": self.name,
                "configMaps": [
                    {
                        "id": "settings",
                        "nameTemplate": "{{ .uid }}-settings",
                        "labelsTemplate": {"plan": "{{ .plan }}"},
                        "spec": {
                            "apiVersion": "v1",
                            "kind": "ConfigMap",
                            "data": {"plan": "{{ .plan }}"},
                        },
                    }
                ],
                "deployments": [
                    {
                        "id": "web",
                        "nameTemplate": "{{ .uid }}-web",
                        "dependIds": ["settings"],
                        "spec": {
                            "apiVersion": "apps/v1",
                            "kind": "Deployment",
                            "spec": {
                                "replicas": 1,
                                "selector": {"matchLabels": labels},
                                "template": {
                                    "metadata": {"labels": labels},
                                    "spec": {"containers": [{"name": "web", "image": "web:v1"}]},
                                },
                            },
                        },
                    }
                ],
            },
        }

    def _instance(self) -> Manifest:
        return {
            "apiVersion": "cloud.ctrlruntime.dev/v1",
            "kind": "Instance",
            "metadata": {**self._metadata(), "labels": {"instance-type": "internal"}},
            "spec": {
                "version": "5.1.0",
                "domain": f"{self.name}.{self.namespace}.example.com",
                "cluster": {
                    "kubeconfigFrom": {"name": KUBECONFIG, "key": "kubeconfig"},
                    "namespace": self.namespace,
                    "bundle": {
                        "manifests": [
                            {
                                "apiVersion": "v1",
                                "kind": "ConfigMap",
                                "metadata": {"name": "site"},
                                "data": {"version": "${version}"},
                            }
                        ]
                    },
                },
                "debug": {"enableDeletionProtection": False},
            },
        }

    def _node_set(self) -> Manifest:
        return {
            "apiVersion": "cosmos.ctrlruntime.dev/v1",
            "kind": "CosmosFullNode",
            "metadata": self._metadata(),
            "spec": {
                "replicas": 2,
                "chain": {
                    "chainID": "hub-1",
                    "network": "testnet",
                    "binary": "gaiad",
                    "app": {"minGasPrice": "0.1uatom"},
                    "config": {"rpcListenAddress": f"tcp://0.0.0.0:{self.harness.port}"},
                },
                "podTemplate": {"image": "gaia:v1"},
                "volumeClaimTemplate": {
                    "storageClassName": "standard",
                    "resources": {"requests": {"storage": "1Gi"}},
                },
                "service": {"maxP2PExternalAddresses": 0},
                "strategy": {"minReadySeconds": 0},
            },
        }


def _key(manifest: Mapping[str, Any]) -> str:
    return f"{manifest['kind']}/{manifest['metadata']['name']}"


async def outcome(story: Story) -> dict[str, Any]:
    """Return what a story came to, without what differs from run to run."""
    return outcome_of(await story.objects(), story.harness.port)


def outcome_of(objects: Mapping[str, Manifest], port: int) -> dict[str, Any]:
    """Return what objects have besides what differs from run to run; nodes answer at the port."""
    kept = {key: _lasting(each) for key, each in objects.items() if not _is_generated(each)}
    text = orjson.dumps(kept, option=orjson.OPT_SORT_KEYS).decode()
    text = text.replace(str(port), "26657")
    return dict(orjson.loads(GENERATED_VALUE.sub('"generated"', text)))


GENERATED_VALUE = re.compile(
    r'"[0-9a-f]{8}-[0-9a-f-]{27}"'  # a UID
    r'|"[0-9a-f]{8}"'  # a revision, which node keys are part of
    r'|"[0-9a-f]{32,64}"'  # a checksum
    r'|"\d{4}-\d\d-\d\dT[0-9:.]+Z"'
)
DEPLOYMENT_REVISION = "deployment.kubernetes.io/revision"
"""How often the Deployment controller has seen another Pod template."""
FIELDS = "ctrlruntime.dev/applied-fields"
"""Hashes of what was applied: of ports and names of machines, too."""
VARYING_METADATA = frozenset(
    ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "selfLink"]
)
ALLOCATED = frozenset(["clusterIP", "clusterIPs", "volumeName", "nodeName"])


def _is_generated(manifest: Manifest) -> bool:
    """Whether the name of an object is a random one."""
    owners = manifest["metadata"].get("ownerReferences", [])
    return any(each["kind"] in ("ReplicaSet", "DaemonSet", "Job") for each in owners)


def _lasting(manifest: Manifest) -> Manifest:
    metadata = {k: v for k, v in manifest["metadata"].items() if k not in VARYING_METADATA}
    annotations = {
        key: value
        for key, value in metadata.get("annotations", {}).items()
        if key not in (DEPLOYMENT_REVISION, FIELDS)
    }
    metadata["annotations"] = annotations
    owners = metadata.pop("ownerReferences", [])
    metadata["owners"] = sorted(f"{each['kind']}/{each['name']}" for each in owners)
    kept = {key: value for key, value in manifest.items() if key not in ("status", "data")}
    if isinstance(kept.get("spec"), dict):
        kept["spec"] = {key: value for key, value in kept["spec"].items() if key not in ALLOCATED}
    own = manifest["kind"] in OWN_KINDS
    return {**kept, "metadata": metadata, "ready": is_ready(manifest) if own else None}


async def removed(story: Story) -> None:
    """Delete the story's namespace content the way people do: custom resources first."""
    client = story.harness.client
    approval = {"metadata": {"annotations": {"tenancy.ctrlruntime.dev/approve-deletion": "true"}}}
    with contextlib.suppress(NotFound):
        registries = mapping_of("TenantRegistry").gvk
        await client.patch(registries, story.name, approval, namespace=story.namespace)
    lifted = {"spec": {"deletionProtection": False}}
    with contextlib.suppress(NotFound):
        node_sets = mapping_of("CosmosFullNode").gvk
        await client.patch(node_sets, story.name, lifted, namespace=story.namespace)
    for kind in ("TenantRegistry", "Instance", "CosmosFullNode"):
        with contextlib.suppress(NotFound, Conflict):
            await client.delete(mapping_of(kind).gvk, story.name, namespace=story.namespace)

"""A fleet restored from a backup into an empty cluster: every UID is new, and nothing is lost."""

from __future__ import annotations

import contextlib
import copy
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.client.errors import AlreadyExists
from ctrlruntime.envtest.proxy import Counts
from tests.tenancy.harness import (
    CONFIG_MAP,
    DEPLOYMENT,
    NAMESPACE_KIND,
    SECRET,
    SERVICE,
    TenancyHarness,
    config_map,
    mapping,
)

pytestmark = pytest.mark.criterion("restore-from-backup")

Manifest = dict[str, Any]

KINDS = (
    NAMESPACE_KIND,
    TenantRegistry.mapping(),
    TenantTemplate.mapping(),
    Tenant.mapping(),
    mapping("v1", "ServiceAccount"),
    CONFIG_MAP,
    SECRET,
    DEPLOYMENT,
    SERVICE,
)
TENANTS = ("a-web", "b-web", "c-web")
NAMESPACE = "restored"
COLLECTED = pytest.mark.embedded("stale references are garbage: a collector races the manager")
BY_SERVER = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields")


def template(elsewhere: str) -> dict[str, Any]:
    """Every way a resource is tied to its tenant."""
    labels = {"app": "{{ .uid }}"}
    pod = {
        "metadata": {"labels": labels},
        "spec": {
            "containers": [
                {
                    "name": "web",
                    "image": "{{ .image }}",
                    "resources": {"requests": {"cpu": "1000m"}},
                    "env": [{"name": "PLAN", "value": "{{ .plan }}"}],
                }
            ]
        },
    }
    deployment = {
        "id": "app",
        "nameTemplate": "{{ .uid }}-app",
        "dependIds": ["near", "far"],
        "spec": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": pod},
        },
    }
    service = {
        "id": "service",
        "nameTemplate": "{{ .uid }}-app",
        "dependIds": ["app"],
        "spec": {
            "apiVersion": "v1",
            "kind": "Service",
            "spec": {"selector": labels, "ports": [{"port": 80, "protocol": "TCP"}]},
        },
    }
    return {
        "configMaps": [
            config_map("near", "{{ .uid }}-near"),
            config_map("far", "{{ .uid }}-far", targetNamespace=elsewhere),
            config_map("kept", "{{ .uid }}-kept", deletionPolicy="Retain"),
            config_map("once", "{{ .uid }}-once", creationPolicy="Once"),
            config_map("merged", "{{ .uid }}-merged", patchStrategy="merge"),
            config_map("put", "{{ .uid }}-put", patchStrategy="replace"),
        ],
        "deployments": [deployment],
        "services": [service],
    }


async def fleet(harness: TenancyHarness) -> None:
    """Three tenants, and an orphan that another template left behind."""
    await harness.make_namespace(harness.place("elsewhere"))
    harness.rows("a", "b", "c")
    mappings = {"image": "image", "plan": {"column": "plan", "sensitive": True}}
    await harness.registry(extraValueMappings=mappings)
    lists = template(harness.place("elsewhere"))
    orphan = config_map("orphan", "{{ .uid }}-orphan", deletionPolicy="Retain")
    await harness.template("web", **{**lists, "configMaps": [*lists["configMaps"], orphan]})
    await harness.ready(*TENANTS)
    await harness.template("web", **lists)
    for uid in "abc":
        await harness.eventually(
            partial(harness.get, CONFIG_MAP, f"{uid}-orphan"),
            lambda seen: "tenancy.ctrlruntime.dev/orphaned" in seen["metadata"]["labels"],
        )
    await harness.ready(*TENANTS)
    await harness.idle()


async def dump(harness: TenancyHarness) -> list[Manifest]:
    """Everything there is, as YAML files would have it."""
    spaces = (harness.namespace, harness.place("elsewhere"))
    found = [await harness.client.get(NAMESPACE_KIND, space) for space in spaces]
    for kind in KINDS:
        for space in spaces if kind.namespaced else ():
            found += await harness.client.list(kind, space)
    return found


async def until_not_terminating(harness: TenancyHarness, name: str) -> None:
    """Wait for a namespace of an earlier test to be gone, if it is going."""
    await harness.eventually(
        lambda: harness.get(NAMESPACE_KIND, name),
        lambda live: live is None or "deletionTimestamp" not in live["metadata"],
    )


async def restore(harness: TenancyHarness, objects: list[Manifest], *, references: bool) -> None:
    """Create what was dumped, as backup tools do: the server sets what it sets, statuses are gone."""
    for item in objects:
        if item["kind"] == "Namespace":
            await until_not_terminating(harness, item["metadata"]["name"])
    for item in copy.deepcopy(objects):
        metadata = item["metadata"]
        for name in (*BY_SERVER, *(() if references else ("ownerReferences",))):
            metadata.pop(name, None)
        item.pop("status", None)
        for name in ("clusterIP", "clusterIPs"):
            item.get("spec", {}).pop(name, None)
        with contextlib.suppress(AlreadyExists):
            await harness.client.create(item)
        await wipe(harness, item)


async def wipe(harness: TenancyHarness, item: Mapping[str, Any]) -> None:
    """No managed fields: they did not come from the backup either."""
    metadata = item["metadata"]
    kind = next(kind for kind in KINDS if kind.gvk.kind == item["kind"])
    patch: Manifest = {"metadata": {"managedFields": [{}]}}
    await harness.client.patch(kind, metadata["name"], patch, namespace=metadata.get("namespace"))


def content(item: Manifest) -> Manifest:
    """What an object says, without what differs from cluster to cluster."""
    kept = {key: value for key, value in item.items() if key not in ("metadata", "status")}
    for name in ("clusterIP", "clusterIPs"):
        kept.get("spec", {}).pop(name, None) if isinstance(kept.get("spec"), dict) else None
    labels = item["metadata"].get("labels") or {}
    return {**copy.deepcopy(kept), "labels": labels}


def by_key(objects: list[Manifest]) -> dict[tuple[str, str, str], Manifest]:
    return {
        (item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]): item
        for item in objects
    }


@pytest.fixture
async def backup(tmp_path: Path) -> tuple[Path, list[Manifest]]:
    """A fleet that ran once: its table and its objects."""
    folder = tmp_path / "before"
    async with TenancyHarness.start(folder, nodes=True, pods=False, namespace=NAMESPACE) as harness:
        await fleet(harness)
        objects = await dump(harness)
    return folder / "rows.sqlite", objects


def deletes(counts: Counts) -> int:
    return counts.select(verbs=("delete", "deletecollection")).total


def writes(counts: Counts) -> Counts:
    return counts.select(verbs=("create", "update", "patch", "apply", "delete"))


@pytest.mark.parametrize(
    "references",
    [
        pytest.param(False, id="no references"),
        pytest.param(True, id="stale references", marks=COLLECTED),
    ],
)
async def test_a_restored_fleet_converges_without_a_delete_and_without_a_rollout(
    tmp_path: Path, backup: tuple[Path, list[Manifest]], references: bool
) -> None:
    rows, objects = backup
    folder = tmp_path / "after"
    folder.mkdir()
    shutil.copy(rows, folder / "rows.sqlite")
    # Stale references are the server's own garbage: its collector would race the manager.
    server = {"garbage_collection": not references}
    async with TenancyHarness.start(
        folder, nodes=True, pods=False, manager=False, server=server, namespace=NAMESPACE
    ) as harness:
        await restore(harness, objects, references=references)
        before = by_key(await dump(harness))
        mark = harness.mark()
        await harness.start_manager()
        await harness.ready(*TENANTS)
        await harness.idle()
        after = by_key(await dump(harness))

        assert deletes(harness.counts(mark)) == 0, str(harness.counts(mark))
        assert set(after) == set(before)
        for key, item in after.items():
            assert item["metadata"]["uid"] == before[key]["metadata"]["uid"], key
            if key[0] != "Tenant" and key[2] != "registry":
                assert content(item) == content(before[key]), key
        for key, item in after.items():
            if key[0] == "Deployment":
                # Not the generation: of a Deployment it counts annotations too, and our marks change.
                assert item["spec"]["template"] == before[key]["spec"]["template"]
        for key, item in after.items():
            stale = {o["uid"] for o in item["metadata"].get("ownerReferences", [])} - {
                other["metadata"]["uid"] for other in after.values()
            }
            assert not stale or key[2].endswith("-orphan"), key

        mark = harness.mark()
        await harness.restart_manager()
        await harness.idle()
        assert writes(harness.counts(mark)).total == 0, str(harness.counts(mark))


async def test_what_leaves_the_template_after_a_restore_goes(
    tmp_path: Path, backup: tuple[Path, list[Manifest]]
) -> None:
    """Fields and objects that were ours before the backup are ours after it, to take away too."""
    rows, objects = backup
    folder = tmp_path / "after"
    folder.mkdir()
    shutil.copy(rows, folder / "rows.sqlite")
    async with TenancyHarness.start(
        folder, nodes=True, pods=False, manager=False, namespace=NAMESPACE
    ) as harness:
        await restore(harness, objects, references=False)
        await harness.start_manager()
        await harness.ready(*TENANTS)
        await harness.idle()
        lists = template(harness.place("elsewhere"))
        lists["configMaps"] = [
            config_map("near", "{{ .uid }}-near", {"other": "o"}),
            config_map("kept", "{{ .uid }}-kept", deletionPolicy="Retain"),
        ]
        lists["deployments"][0]["dependIds"] = []
        await harness.template("web", **lists)
        await harness.gone(CONFIG_MAP, "a-far", harness.place("elsewhere"))
        await harness.ready(*TENANTS)
        near = await harness.get(CONFIG_MAP, "a-near")
        assert near is not None
        assert near["data"] == {"other": "o"}
        kept = await harness.get(CONFIG_MAP, "a-kept", namespace=harness.namespace)
        assert kept is not None

"""Make before break for whole tenants: a row under another uid, a template under another name.

The old tenant and its objects stay until the tenant that takes its place is ready, whatever happens to
the manager in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.client.client import PatchType
from ctrlruntime.client.errors import NotFound
from ctrlruntime.envtest.proxy import Kill, Mark, Match
from ctrlruntime.envtest.proxy.requests import WRITES
from ctrlruntime.json import Json
from tests.tenancy.harness import (
    CONFIG_MAP,
    SECRET,
    SERVICE,
    World,
    config_map,
    is_ready,
    permissive,
)
from tests.tenancy.manager_forkserver import ForkServer
from tests.tenancy.test_crash import start
from tests.tenancy.test_removal import IMPOSSIBLE

pytestmark = pytest.mark.criterion("H-A3")

Manifest = dict[str, Any]

GROUP = "tenancy.ctrlruntime.dev"
TENANTS = f"tenants.{GROUP}"
REPLACED_BY, HANDS_OVER = f"{GROUP}/replaced-by", f"{GROUP}/hands-over"
COPIES = ("ConfigMap/{}-settings", "ConfigMap/{}-merged", "ConfigMap/{}-put", "ConfigMap/{}-once")


def gate(name: str) -> Manifest:
    """A resource that is ready once `open_gate` has given it an address."""
    ports = [{"port": 80, "protocol": "TCP"}]
    spec = {"type": "LoadBalancer", "ports": ports, "selector": {"app": "x"}}
    return {
        "id": "gate",
        "nameTemplate": name,
        "spec": {"apiVersion": "v1", "kind": "Service", "spec": spec},
    }


async def open_gate(world: World, name: str) -> None:
    await world.client.patch(
        SERVICE,
        name,
        {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}},
        namespace=world.namespace,
        type=PatchType.MERGE,
        subresource="status",
    )


async def with_gate(world: World, name: str = "app", **fields: Json) -> None:
    """A template whose tenants are ready once the Service named by their uid has an address."""
    await world.template(
        name,
        configMaps=[config_map("cm", "{{ .uid }}-cm", **fields)],
        services=[gate("{{ .uid }}-gate")],
    )


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with World.start(tmp_path) as world:
        yield world


async def uids(world: World) -> dict[str, str]:
    """The UIDs of all ConfigMaps and Services of the namespace, by kind and name."""
    return {
        f"{kind.gvk.kind}/{item['metadata']['name']}": item["metadata"]["uid"]
        for kind in (CONFIG_MAP, SERVICE)
        for item in await world.client.list(kind, world.namespace)
        if item["metadata"]["name"] not in {"kube-root-ca.crt", "kubernetes"}
    }


def deleted(world: World, since: Mark) -> list[str]:
    """What the manager deleted: `configmaps a-cm`."""
    return [
        f"{entry.resource} {entry.name}"
        for entry in world.environment.proxy.log.entries(since)
        if entry.user == "manager" and entry.verb == "delete" and entry.code < 300
    ]


async def exists(world: World, name: str) -> Tenant:
    """Wait until a tenant exists."""
    found: Tenant = await world.eventually(lambda: world.tenant(name))
    return found


async def stays(world: World, old: str, *, reason: str = "ReplacementNotReady") -> str:
    """The registry says that `old` waits, the manager is idle, and `old` is there; the message."""
    found = await world.registry_condition("RemovalPending", "True", reason)
    assert f"{old!r} waits for" in found.message
    await world.idle()
    tenant = await world.tenant(old)
    assert tenant is not None
    assert tenant.metadata.deletion_timestamp is None
    return found.message


async def opened(world: World, uid: str) -> None:
    """A tenant of `with_gate` that is ready."""
    await world.eventually(lambda: world.get(SERVICE, f"{uid}-gate"))
    await open_gate(world, f"{uid}-gate")
    await world.ready(f"{uid}-app")


def rename_row(world: World, before: str, after: str) -> None:
    world.sql("UPDATE tenants SET uid = ? WHERE uid = ?", after, before)


# -- a row under another uid -------------------------------------------------------------------------


async def test_h_a3_a_row_under_another_uid_keeps_its_tenant_until_the_new_one_is_ready(
    world: World,
) -> None:
    """Matched by its host. The status names both, survives a restart, and nothing is polled."""
    world.rows("a", "b")
    await world.registry()
    await with_gate(world)
    await opened(world, "a")
    await opened(world, "b")
    before, since = await uids(world), world.mark()
    rename_row(world, "a", "z")
    await exists(world, "z-app")
    message = await stays(world, "a-app")
    await world.registry_condition("RemovalPending", "True", "ReplacementNotReady")
    assert "'a-app' waits for 'z-app', which is not ready yet" in message
    assert "delete the Tenant 'a-app' to remove it before" in message
    assert deleted(world, since) == []
    await world.restart_manager()
    await stays(world, "a-app")
    await world.idle(within=1.5)  # statuses that were held back are written
    calm = world.mark()
    await world.idle(within=1.5)  # the rows are read at least once more
    assert [e.name for e in world.environment.proxy.log.entries(calm) if e.verb in WRITES] == []
    assert before.items() <= (await uids(world)).items()

    await open_gate(world, "z-gate")
    await world.gone(Tenant.mapping(), "a-app")
    await world.ready("z-app")
    await world.gone(CONFIG_MAP, "a-cm")
    await world.registry_condition("RemovalPending", "False", "NothingPending")
    assert sorted(deleted(world, since)) == [
        "configmaps a-cm",
        "services a-gate",
        f"{TENANTS} a-app",
    ]


async def test_h_a3_a_row_without_a_host_is_matched_by_its_other_values(world: World) -> None:
    """The uid changes, and with it every value that was made of it."""
    world.rows("a1", "b1")
    await world.registry(valueMappings={"uid": "uid", "activate": "active"})
    await with_gate(world)
    await opened(world, "a1")
    await opened(world, "b1")
    world.sql("UPDATE tenants SET uid = 'z1', plan = 'basic' WHERE uid = 'a1'")
    await exists(world, "z1-app")
    await stays(world, "a1-app")
    # one that has failed is matched by the record alone
    await world.template(services=[IMPOSSIBLE], name="app")
    await stays(world, "a1-app", reason="ReplacementFailed")
    await world.restart_manager()
    await stays(world, "a1-app", reason="ReplacementFailed")
    await with_gate(world)
    await world.eventually(lambda: world.get(SERVICE, "z1-gate"))
    await open_gate(world, "z1-gate")
    await world.gone(Tenant.mapping(), "a1-app")
    assert await world.get(SERVICE, "z1-gate") is not None


async def test_h_a3_a_row_that_is_set_inactive_waits_for_nothing(world: World) -> None:
    """That its tenant should go is written in the table: another row of its host does not hold it."""
    world.rows("a", "b")
    await world.registry()
    await with_gate(world)
    await opened(world, "a")
    await opened(world, "b")
    world.sql(
        "INSERT INTO tenants SELECT 'z', url, 1, plan, image, replicas FROM tenants WHERE uid = 'a'"
    )
    await exists(world, "z-app")
    world.row("a", active=0)
    await world.gone(Tenant.mapping(), "a-app")
    assert not is_ready(await world.tenant("z-app"))


async def test_h_a3_a_replacement_that_fails_is_named_and_the_old_tenant_can_be_deleted(
    world: World,
) -> None:
    """Nothing is held silently or for ever: condition, count and event say what to do."""
    world.rows("a", "b")
    await world.registry()
    await with_gate(world)
    await opened(world, "a")
    await opened(world, "b")
    rename_row(world, "a", "z")
    await exists(world, "z-app")
    await stays(world, "a-app")
    await world.template(
        "app", configMaps=[config_map("cm", "{{ .uid }}-cm")], services=[IMPOSSIBLE]
    )
    message = await stays(world, "a-app", reason="ReplacementFailed")
    assert "'z-app', which has failed, see its conditions" in message
    await world.registry_condition("RemovalPending", "True", "ReplacementFailed")

    await world.client.delete(Tenant, "a-app", namespace=world.namespace)
    await world.gone(Tenant.mapping(), "a-app")
    await world.registry_condition("RemovalPending", "False", "NothingPending")
    assert await world.tenant("z-app") is not None


async def test_h_a3_a_row_that_is_renamed_back_keeps_its_tenant(world: World) -> None:
    world.rows("a", "b")
    await world.registry(deletionGuard={"maxDeletePercent": 100})
    await with_gate(world)
    await opened(world, "a")
    await opened(world, "b")
    before = await uids(world)
    rename_row(world, "a", "z")
    await stays(world, "a-app")
    assert await annotation(world, "a-app", REPLACED_BY) == "z-app"
    rename_row(world, "z", "a")
    await world.gone(Tenant.mapping(), "z-app")
    await world.eventually(lambda: unmarked(world, "a-app"))
    await world.ready("a-app", "b-app")
    assert await uids(world) == before


async def annotation(world: World, name: str, key: str) -> str | None:
    tenant = await world.tenant(name)
    assert tenant is not None
    return (tenant.metadata.annotations or {}).get(key)


async def unmarked(world: World, name: str) -> bool:
    return [await annotation(world, name, key) for key in (REPLACED_BY, HANDS_OVER)] == [None, None]


async def test_h_a3_renames_beyond_the_guard_wait_after_their_approval_too(world: World) -> None:
    """The approval is spent at once, and what it let pass is on record: a new manager needs no other."""
    world.rows("a", "b", "c")
    await world.registry()
    await with_gate(world)
    for uid in "abc":
        await opened(world, uid)
    before = await uids(world)
    world.sql("UPDATE tenants SET uid = uid || '-new'")
    held = await world.registry_condition("DeletionsHeld", "True", "TooManyDeletions")
    assert 'allow-delete: "3"' in held.message
    await world.idle()
    assert await annotation(world, "a-app", HANDS_OVER) is None
    patch = {"metadata": {"annotations": {f"{GROUP}/allow-delete": "3"}}}
    await world.client.patch(
        TenantRegistry.mapping(), "registry", patch, namespace=world.namespace, type=PatchType.MERGE
    )
    await world.registry_condition("DeletionsHeld", "False")
    await stays(world, "a-app")
    await world.restart_manager()
    await world.idle()
    await world.registry_condition("DeletionsHeld", "False")
    assert before.items() <= (await uids(world)).items()
    await open_gate(world, "b-new-gate")
    await world.gone(Tenant.mapping(), "b-app")
    await world.idle()
    assert await world.tenant("a-app") is not None
    await open_gate(world, "a-new-gate")
    await open_gate(world, "c-new-gate")
    await world.gone(Tenant.mapping(), "a-app")
    await world.gone(Tenant.mapping(), "c-app")


# -- who inherits ------------------------------------------------------------------------------------

INHERITED_BY = f"{GROUP}/inherited-by"


async def with_belongings(world: World) -> dict[str, Any]:
    """Acme has a drawn password and an object under a pooled name; then it leaves, and others come who are alike."""
    world.row("acme", replicas=7)
    world.rows("zeta", "eta")
    world.sql("UPDATE tenants SET replicas = 8 WHERE uid != 'acme'")
    await world.registry(deletionGuard={"maxDeletePercent": 100})
    pooled = config_map("pooled", "slot-{{ .replicas }}", when="{{ eq .replicas `7` }}")
    kind = TenantTemplate.mapping()
    spec = {
        "registryId": "registry",
        "generate": {"password": {}},
        "configMaps": [pooled],
        "services": [gate("{{ .uid }}-gate")],
    }
    head = {"apiVersion": kind.gvk.api_version, "kind": kind.gvk.kind}
    await world.put(
        kind, {**head, "metadata": {"name": "app", "namespace": world.namespace}, "spec": spec}
    )
    for uid in ("acme", "zeta", "eta"):
        await opened(world, uid)
    before = await world.get(CONFIG_MAP, "slot-7")
    secret = await world.get(SECRET, "acme-app-generated")
    assert before is not None
    assert secret is not None
    return {"uid": before["metadata"]["uid"], "password": secret["data"]["password"]}


async def password(world: World, uid: str) -> str:
    secret = await world.eventually(lambda: world.get(SECRET, f"{uid}-app-generated"))
    found: str = secret["data"]["password"]
    return found


@pytest.mark.criterion("G-T1")
async def test_g_t1_newcomers_that_are_alike_get_nothing_of_a_customer_who_left(
    world: World,
) -> None:
    """The old tenant waits for them, says what to do, and a person's word passes its belongings on to one."""
    had = await with_belongings(world)
    world.sql(
        "INSERT INTO tenants SELECT 'beta', 'https://beta.example.com', 1, plan, image, replicas FROM tenants"
        " WHERE uid = 'acme' UNION ALL"
        " SELECT 'gamma', 'https://gamma.example.com', 1, plan, image, replicas FROM tenants WHERE uid = 'acme'"
    )
    world.sql("DELETE FROM tenants WHERE uid = 'acme'")
    await exists(world, "beta-app")
    await exists(world, "gamma-app")
    message = await stays(world, "acme-app", reason="ReplacementFailed")
    assert "only alike: nothing passes to it" in message
    assert f"annotate the Tenant 'acme-app' with {INHERITED_BY}=beta-app" in message
    assert (
        len({had["password"], await password(world, "beta"), await password(world, "gamma")}) == 3
    )
    pooled = await world.get(CONFIG_MAP, "slot-7")
    assert pooled is not None
    assert pooled["metadata"]["uid"] == had["uid"]
    assert pooled["metadata"]["annotations"]["ctrlruntime.dev/owner"].endswith("/acme-app")
    await world.restart_manager()
    await stays(world, "acme-app", reason="ReplacementFailed")
    assert await annotation(world, "acme-app", INHERITED_BY) is None

    patch = {"metadata": {"annotations": {INHERITED_BY: "beta-app"}}}
    await world.client.patch(
        Tenant.mapping(), "acme-app", patch, namespace=world.namespace, type=PatchType.MERGE
    )
    await world.eventually(lambda: password(world, "beta"), lambda seen: seen == had["password"])
    await opened(world, "beta")
    await world.gone(Tenant.mapping(), "acme-app")
    pooled = await world.get(CONFIG_MAP, "slot-7")
    assert pooled is not None
    assert pooled["metadata"]["uid"] == had["uid"]
    assert await password(world, "gamma") != had["password"]


# -- a template under another name -------------------------------------------------------------------


def copies(*, name: str = "{{ .uid }}", value: str = "1") -> list[Manifest]:
    """One ConfigMap for every way in which a resource is written."""
    return [
        config_map("settings", f"{name}-settings", {"k": value}),
        config_map("merged", f"{name}-merged", {"k": value}, patchStrategy="merge"),
        config_map("put", f"{name}-put", {"k": value}, patchStrategy="replace"),
        config_map("once", f"{name}-once", {"k": value}, creationPolicy="Once"),
        config_map("kept", f"{name}-kept", {"k": value}, deletionPolicy="Retain"),
    ]


async def rename_template(world: World, before: str, after: str, **lists: Json) -> None:
    """Delete a template and apply it under another name, as `kubectl apply --prune` does."""
    await world.template(after, **lists)
    await world.client.delete(TenantTemplate, before, namespace=world.namespace)


async def test_h_a3_a_template_under_another_name_takes_the_objects_over(world: World) -> None:
    """Objects of one name are handed over as they are: none is deleted, none is created a second time."""
    world.rows("a", "b")
    await world.registry()
    await world.template("old", configMaps=copies())
    await world.ready("a-old", "b-old")
    before, since = await uids(world), world.mark()
    assert len(before) == 10
    await rename_template(
        world, "old", "new", configMaps=copies(), services=[gate("{{ .uid }}-gate")]
    )
    message = await stays(world, "a-old")
    assert "2 tenants stay until others take its place" in message or "'b-old'" in message
    await world.eventually(lambda: owners(world), lambda seen: seen == {"a-new", "b-new"})
    assert before.items() <= (await uids(world)).items()
    await open_gate(world, "a-gate")
    await world.gone(Tenant.mapping(), "a-old")
    await open_gate(world, "b-gate")
    await world.gone(Tenant.mapping(), "b-old")
    await world.ready("a-new", "b-new")
    await world.idle()
    assert before.items() <= (await uids(world)).items()
    assert sorted(deleted(world, since)) == [f"{TENANTS} a-old", f"{TENANTS} b-old"]
    calm = world.mark()
    await world.restart_manager()
    await world.idle()
    assert [e for e in world.environment.proxy.log.entries(calm) if e.verb in WRITES] == []
    await nothing_is_left(world)


async def nothing_is_left(world: World) -> None:
    """The objects belong to the new tenants for good: with these they go, but for the retained ones."""
    world.row("a", active=0)
    await world.gone(Tenant.mapping(), "a-new")
    left = {name for name in await uids(world) if "/a-" in name}
    assert left == {"ConfigMap/a-kept"}


async def owners(world: World) -> set[str]:
    """The tenants that the ConfigMaps record and reference as their owners."""
    found = set()
    for item in await world.client.list(CONFIG_MAP, world.namespace):
        metadata = item["metadata"]
        recorded = metadata.get("annotations", {}).get("ctrlruntime.dev/owner")
        if recorded is None:
            continue
        references = [each["name"] for each in metadata.get("ownerReferences", ())]
        name = recorded.rpartition("/")[2]
        found |= {name, *references}
    return found


async def test_h_a3_the_new_template_may_change_what_it_takes_over(world: World) -> None:
    world.rows("a")
    await world.registry()
    await world.template("old", configMaps=copies())
    await world.ready("a-old")
    before = await uids(world)
    await rename_template(world, "old", "new", configMaps=copies(value="2"))
    await world.gone(Tenant.mapping(), "a-old")
    await world.ready("a-new")
    assert await uids(world) == before
    settings = await world.get(CONFIG_MAP, "a-settings")
    once = await world.get(CONFIG_MAP, "a-once")
    assert settings is not None
    assert once is not None
    assert (settings["data"], once["data"]) == ({"k": "2"}, {"k": "1"})


async def approve(world: World, tenants: int) -> None:
    """Let so many tenants of a template that is gone go, once they are held."""
    held = await world.registry_condition("DeletionsHeld", "True", "TemplateGone")
    assert f'allow-delete: "{tenants}"' in held.message
    patch = {"metadata": {"annotations": {f"{GROUP}/allow-delete": str(tenants)}}}
    await world.client.patch(
        TenantRegistry.mapping(), "registry", patch, namespace=world.namespace, type=PatchType.MERGE
    )


@pytest.mark.criterion("G-T5")
async def test_g_t5_a_template_that_is_deleted_keeps_its_tenants_until_an_approval(
    world: World,
) -> None:
    """And one of its name takes them over: `kubectl replace --force`, or deleted and applied again."""
    world.rows("a", "b", "c")
    await world.registry()
    await world.template("old", configMaps=[config_map("cm", "{{ .uid }}-cm")])
    await world.ready("a-old", "b-old", "c-old")
    before, since = await uids(world), world.mark()
    await world.client.delete(TenantTemplate, "old", namespace=world.namespace)
    await world.template("old", configMaps=[config_map("cm", "{{ .uid }}-cm", {"k": "2"})])
    await world.eventually(
        lambda: world.get(CONFIG_MAP, "a-cm"),
        lambda seen: bool(seen and seen["data"] == {"k": "2"}),
    )
    await world.idle()
    assert (await uids(world), deleted(world, since)) == (before, [])

    await world.client.delete(TenantTemplate, "old", namespace=world.namespace)
    held = await world.registry_condition("DeletionsHeld", "True", "TemplateGone")
    assert "The template 'old' is gone; 3 of 3 tenants would be deleted, none was" in held.message
    assert "Apply it again, and it takes them over" in held.message
    await world.restart_manager()
    await world.idle()
    await world.registry_condition("DeletionsHeld", "True", "TemplateGone")
    assert (await uids(world), deleted(world, since)) == (before, [])
    await world.template("old", configMaps=[config_map("cm", "{{ .uid }}-cm", {"k": "3"})])
    await world.registry_condition("DeletionsHeld", "False")
    await world.ready("a-old")
    assert await uids(world) == before

    await world.client.delete(TenantTemplate, "old", namespace=world.namespace)
    await approve(world, 3)
    for uid in "abc":
        await world.gone(Tenant.mapping(), f"{uid}-old")
    await world.registry_condition("DeletionsHeld", "False")


@pytest.mark.criterion("G-T5")
async def test_g_t5_without_protection_a_template_of_the_name_takes_over_within_the_grace(
    tmp_path: Path,
) -> None:
    grace = timedelta(seconds=8)
    options = replace(permissive(tmp_path), template_grace=grace)
    async with World.start(tmp_path, options=options) as world:
        world.rows("a", "b")
        await world.registry()
        spec: dict[str, Any] = {
            "registryId": "registry",
            "deletionProtection": False,
            "configMaps": [config_map("cm", "{{ .uid }}-cm")],
        }
        kind = TenantTemplate.mapping()
        head = {"apiVersion": kind.gvk.api_version, "kind": kind.gvk.kind}
        manifest = {**head, "metadata": {"name": "old", "namespace": world.namespace}, "spec": spec}
        await world.put(kind, manifest)
        await world.ready("a-old", "b-old")
        before, since = await uids(world), world.mark()
        await world.client.delete(TenantTemplate, "old", namespace=world.namespace)
        await world.registry_condition("DeletionsHeld", "True", "TemplateGone")
        await world.put(kind, manifest)
        await world.registry_condition("DeletionsHeld", "False")
        assert (await uids(world), deleted(world, since)) == (before, [])
        await world.client.delete(TenantTemplate, "old", namespace=world.namespace)
        await world.gone(Tenant.mapping(), "a-old")
        await world.gone(Tenant.mapping(), "b-old")


async def test_h_a3_a_template_that_goes_before_the_new_one_comes_is_a_deletion(
    world: World,
) -> None:
    """Nothing can take its place: that is what taking a template away means."""
    world.rows("a")
    await world.registry()
    await world.template("old", configMaps=[config_map("cm", "{{ .uid }}-cm")])
    await world.ready("a-old")
    await world.client.delete(TenantTemplate, "old", namespace=world.namespace)
    await approve(world, 1)
    await world.gone(Tenant.mapping(), "a-old")
    await world.gone(CONFIG_MAP, "a-cm")
    assert await world.get(CONFIG_MAP, "a-cm") is None


async def test_h_a3_an_older_template_that_is_not_ready_holds_nothing(world: World) -> None:
    """It was there before the tenants of the other: it is another template, not the same renamed."""
    world.rows("b")
    await world.registry()
    await with_gate(world, "other")
    await exists(world, "b-other")
    await asyncio.sleep(1.1)  # creationTimestamps have whole seconds
    await world.template("old", configMaps=[config_map("cm", "{{ .uid }}-own")])
    await world.ready("b-old")
    await world.client.delete(TenantTemplate, "old", namespace=world.namespace)
    await approve(world, 1)
    await world.gone(Tenant.mapping(), "b-old")
    assert not is_ready(await world.tenant("b-other"))


async def test_h_a3_a_replacement_that_fails_leaves_the_old_objects_serving(world: World) -> None:
    """Under another name and not ready: the old tenant stays until somebody deletes it."""
    world.rows("a")
    await world.registry()
    await world.template("old", configMaps=[config_map("cm", "{{ .uid }}-cm")])
    await world.ready("a-old")
    before = await uids(world)
    await rename_template(
        world,
        "old",
        "new",
        configMaps=[config_map("cm", "{{ .uid }}-cm", dependIds=["impossible"])],
        services=[IMPOSSIBLE],
    )
    await stays(world, "a-old", reason="ReplacementFailed")
    await world.restart_manager()
    await stays(world, "a-old", reason="ReplacementFailed")
    assert before.items() <= (await uids(world)).items()
    await world.client.delete(Tenant, "a-old", namespace=world.namespace)
    await world.gone(Tenant.mapping(), "a-old")


async def test_h_a3_a_row_in_doubt_keeps_its_tenant_when_the_template_is_renamed(
    world: World,
) -> None:
    """No tenant of the new template is made for it, so the old one stays."""
    world.rows("a", "b")
    await world.registry()
    await world.template("old", configMaps=[config_map("cm", "{{ .uid }}-cm")])
    await world.ready("a-old", "b-old")
    world.row("a", active="maybe")
    await world.registry_condition("RowsValid", "False")
    await rename_template(world, "old", "new", configMaps=[config_map("cm", "{{ .uid }}-cm")])
    await world.gone(Tenant.mapping(), "b-old")
    message = await stays(world, "a-old")
    assert "'a-new', which does not exist yet" in message
    world.row("a", active=1)
    await world.gone(Tenant.mapping(), "a-old")
    await world.ready("a-new")


# -- another registry --------------------------------------------------------------------------------


async def test_h_a3_a_template_of_another_registry_takes_its_tenants_along(world: World) -> None:
    """The former registry is paused while its template is applied for another: the very same Tenants go on."""
    world.rows("a", "b")
    await world.registry()
    await world.template("app", configMaps=copies())
    await world.ready("a-app", "b-app")
    before, since = await uids(world), world.mark()
    tenant = await exists(world, "a-app")
    await world.registry("second")
    await pause(world, "true")
    await world.registry_condition("Paused", "True")
    await world.client.delete(TenantTemplate, "app", namespace=world.namespace)
    await world.template("app", registry="second", configMaps=copies())

    async def taken() -> bool:
        found = [await world.tenant(name) for name in ("a-app", "b-app")]
        return all(item is not None and item.spec.registry_id == "second" for item in found)

    await world.eventually(taken)
    await pause(world, None)
    await world.ready("a-app", "b-app")
    await world.idle()
    again = await exists(world, "a-app")
    assert again.metadata.uid == tenant.metadata.uid
    assert await uids(world) == before
    assert deleted(world, since) == []


async def pause(world: World, value: str | None) -> None:
    patch = {"metadata": {"annotations": {"ctrlruntime.dev/paused": value}}}
    await world.client.patch(
        TenantRegistry.mapping(), "registry", patch, namespace=world.namespace, type=PatchType.MERGE
    )


async def test_h_a3_a_template_that_names_another_registry_keeps_its_tenants(world: World) -> None:
    """The former registry leaves them alone, also those of rows that the other one does not have."""
    world.rows("a", "b")
    await world.registry()
    await world.template("app", configMaps=copies())
    await world.ready("a-app", "b-app")
    before, since = await uids(world), world.mark()
    await pause(world, "true")
    await world.registry_condition("Paused", "True")
    await world.client.delete(TenantTemplate, "app", namespace=world.namespace)
    await world.template("app", registry="second", configMaps=copies())
    await pause(world, None)
    found = await world.registry_condition("TenantsSynced", "False")
    assert "'app' names the registry 'second' now: 2 tenants of it stay until" in found.message
    await world.idle()
    assert await uids(world) == before
    assert deleted(world, since) == []


async def test_h_a3_a_renamed_registry_with_a_renamed_template_is_waited_for(world: World) -> None:
    """Both read one table, so that the tenants of one take the place of those of the other."""
    world.rows("a")
    await world.registry()
    await world.template("old", configMaps=copies())
    await world.ready("a-old")
    before, since = await uids(world), world.mark()
    await world.registry("second")
    await world.template(
        "new", registry="second", configMaps=copies(), services=[gate("{{ .uid }}-gate")]
    )
    await exists(world, "a-new")
    await world.client.delete(TenantTemplate, "old", namespace=world.namespace)
    await stays(world, "a-old")
    await world.eventually(lambda: owners(world), lambda seen: seen == {"a-new"})
    await open_gate(world, "a-gate")
    await world.gone(Tenant.mapping(), "a-old")
    await world.ready("a-new")
    assert before.items() <= (await uids(world)).items()
    assert deleted(world, since) == [f"{TENANTS} a-old"]


# -- a manager that is killed ------------------------------------------------------------------------


async def killed_at(world: World, forkserver: ForkServer, when: str, match: Match) -> None:
    """One life of a manager that ends, by SIGKILL, at a write."""
    process = await start(world, forkserver)
    done = asyncio.Event()
    rule = world.environment.proxy.add(
        Kill(pid=process.pid, when="before" if when == "before" else "after"),
        match,
        notify=lambda *_: done.set(),
    )
    try:
        async with asyncio.timeout(90):
            await done.wait()
        assert await process.wait() == -9
    finally:
        world.environment.proxy.remove(rule)
        await process.stop(grace=0)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("rename", ["uid", "template"])
async def test_h_a3_a_manager_killed_between_create_and_delete_keeps_the_old_tenant(
    tmp_path: Path, forkserver: ForkServer, rename: str
) -> None:
    """Killed at the record, at the create, at takeovers and at the delete: the end is always the same."""
    async with World.start(tmp_path, manager=False) as world:
        world.rows("a", "b")
        await world.registry()
        await world.template("app", configMaps=copies())
        process = await start(world, forkserver)
        await world.ready("a-app", "b-app")
        before, since = await uids(world), world.mark()
        await process.stop(grace=0)
        new, gates = await renamed(world, rename)
        for when, name in (
            ("before", "a-app"),
            ("after", "a-app"),
            ("before", new),
            ("after", new),
        ):
            await killed_at(
                world,
                forkserver,
                when,
                Match(user="manager", verb="write", resource=TENANTS, name=name),
            )
            assert deleted(world, since) == []
        for when in ("before", "after"):  # while the new tenant's objects are made and taken over
            taken = Match(user="manager", verb="write", resource="configmaps")
            await killed_at(world, forkserver, when, taken)
            assert deleted(world, since) == []
        process = await start(world, forkserver)
        await stays(world, "a-app")
        assert before.items() <= (await uids(world)).items()
        await process.stop(grace=0)
        for name in gates:
            await open_gate(world, name)
        gone = Match(user="manager", verb="delete", resource=TENANTS, name="a-app")
        await killed_at(world, forkserver, "before", gone)
        await exists(world, "a-app")
        process = await start(world, forkserver)
        await world.gone(Tenant.mapping(), "a-app")
        await world.ready(new)
        await process.stop(grace=0)
        if rename == "template":
            assert before.items() <= (await uids(world)).items()


async def renamed(world: World, rename: str) -> tuple[str, list[str]]:
    """Carry a rename out; the new tenant of row `a`, and the gates of all new ones."""
    lists: dict[str, Any] = {"configMaps": copies(), "services": [gate("{{ .uid }}-gate")]}
    if rename == "template":
        await rename_template(world, "app", "new", **lists)
        return "a-new", ["a-gate", "b-gate"]
    rename_row(world, "a", "z")
    await world.template("app", **lists)
    with pytest.raises(NotFound):
        await world.client.get(Tenant, "z-app", namespace=world.namespace)
    return "z-app", ["z-gate"]

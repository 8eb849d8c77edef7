"""Make before break for whole tenants: a row under another uid, a template under another name.

The old tenant and its objects stay until the tenant that takes its place is ready, whatever happens to
the manager in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
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
    TenancyHarness,
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


async def open_gate(harness: TenancyHarness, name: str) -> None:
    await harness.client.patch(
        SERVICE,
        name,
        {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}},
        namespace=harness.namespace,
        type=PatchType.MERGE,
        subresource="status",
    )


async def with_gate(harness: TenancyHarness, name: str = "app", **fields: Json) -> None:
    """A template whose tenants are ready once the Service named by their uid has an address."""
    await harness.template(
        name,
        configMaps=[config_map("cm", "{{ .uid }}-cm", **fields)],
        services=[gate("{{ .uid }}-gate")],
    )


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[TenancyHarness]:
    async with TenancyHarness.start(tmp_path) as harness:
        yield harness


async def uids(harness: TenancyHarness) -> dict[str, str]:
    """The UIDs of all ConfigMaps and Services of the namespace, by kind and name."""
    return {
        f"{kind.gvk.kind}/{item['metadata']['name']}": item["metadata"]["uid"]
        for kind in (CONFIG_MAP, SERVICE)
        for item in await harness.client.list(kind, harness.namespace)
        if item["metadata"]["name"] not in {"kube-root-ca.crt", "kubernetes"}
    }


def deleted(harness: TenancyHarness, since: Mark) -> list[str]:
    """What the manager deleted: `configmaps a-cm`."""
    return [
        f"{entry.resource} {entry.name}"
        for entry in harness.environment.proxy.log.entries(since)
        if entry.user == "manager" and entry.verb == "delete" and entry.code < 300
    ]


async def exists(harness: TenancyHarness, name: str) -> Tenant:
    """Wait until a tenant exists."""
    found: Tenant = await harness.eventually(lambda: harness.tenant(name))
    return found


async def stays(harness: TenancyHarness, old: str, *, reason: str = "ReplacementNotReady") -> str:
    """The registry says that `old` waits, the manager is idle, and `old` is there; the message."""
    found = await harness.registry_condition("RemovalPending", "True", reason)
    assert f"{old!r} waits for" in found.message
    await harness.idle()
    tenant = await harness.tenant(old)
    assert tenant is not None
    assert tenant.metadata.deletion_timestamp is None
    return found.message


async def opened(harness: TenancyHarness, uid: str) -> None:
    """A tenant of `with_gate` that is ready."""
    await harness.eventually(lambda: harness.get(SERVICE, f"{uid}-gate"))
    await open_gate(harness, f"{uid}-gate")
    await harness.ready(f"{uid}-app")


def rename_row(harness: TenancyHarness, before: str, after: str) -> None:
    harness.sql("UPDATE tenants SET uid = ? WHERE uid = ?", after, before)


# -- a row under another uid -------------------------------------------------------------------------


async def test_h_a3_a_row_under_another_uid_keeps_its_tenant_until_the_new_one_is_ready(
    harness: TenancyHarness,
) -> None:
    """Matched by its host. The status names both, survives a restart, and nothing is polled."""
    harness.rows("a", "b")
    await harness.registry()
    await with_gate(harness)
    await opened(harness, "a")
    await opened(harness, "b")
    before, since = await uids(harness), harness.mark()
    rename_row(harness, "a", "z")
    await exists(harness, "z-app")
    message = await stays(harness, "a-app")
    await harness.registry_condition("RemovalPending", "True", "ReplacementNotReady")
    assert "'a-app' waits for 'z-app', which is not ready yet" in message
    assert "delete the Tenant 'a-app' to remove it before" in message
    assert deleted(harness, since) == []
    await harness.restart_manager()
    await stays(harness, "a-app")
    await harness.idle(within=1.5)  # statuses that were held back are written
    calm = harness.mark()
    await harness.synced()
    assert [e.name for e in harness.environment.proxy.log.entries(calm) if e.verb in WRITES] == []
    assert before.items() <= (await uids(harness)).items()

    await open_gate(harness, "z-gate")
    await harness.gone(Tenant.mapping(), "a-app")
    await harness.ready("z-app")
    await harness.gone(CONFIG_MAP, "a-cm")
    await harness.registry_condition("RemovalPending", "False", "NothingPending")
    assert sorted(deleted(harness, since)) == [
        "configmaps a-cm",
        "services a-gate",
        f"{TENANTS} a-app",
    ]


async def test_h_a3_a_row_without_a_host_is_matched_by_its_other_values(
    harness: TenancyHarness,
) -> None:
    """The uid changes, and with it every value that was made of it."""
    harness.rows("a1", "b1")
    await harness.registry(valueMappings={"uid": "uid", "activate": "active"})
    await with_gate(harness)
    await opened(harness, "a1")
    await opened(harness, "b1")
    harness.sql("UPDATE tenants SET uid = 'z1', plan = 'basic' WHERE uid = 'a1'")
    await exists(harness, "z1-app")
    await stays(harness, "a1-app")
    # one that has failed is matched by the record alone
    await harness.template(services=[IMPOSSIBLE], name="app")
    await stays(harness, "a1-app", reason="ReplacementFailed")
    await harness.restart_manager()
    await stays(harness, "a1-app", reason="ReplacementFailed")
    await with_gate(harness)
    await harness.eventually(lambda: harness.get(SERVICE, "z1-gate"))
    await open_gate(harness, "z1-gate")
    await harness.gone(Tenant.mapping(), "a1-app")
    assert await harness.get(SERVICE, "z1-gate") is not None


async def test_h_a3_a_row_that_is_set_inactive_waits_for_nothing(harness: TenancyHarness) -> None:
    """That its tenant should go is written in the table: another row of its host does not hold it."""
    harness.rows("a", "b")
    await harness.registry()
    await with_gate(harness)
    await opened(harness, "a")
    await opened(harness, "b")
    harness.sql(
        "INSERT INTO tenants SELECT 'z', url, 1, plan, image, replicas FROM tenants WHERE uid = 'a'"
    )
    await exists(harness, "z-app")
    harness.row("a", active=0)
    await harness.gone(Tenant.mapping(), "a-app")
    assert not is_ready(await harness.tenant("z-app"))


async def test_h_a3_a_replacement_that_fails_is_named_and_the_old_tenant_can_be_deleted(
    harness: TenancyHarness,
) -> None:
    """Nothing is held silently or for ever: condition, count and event say what to do."""
    harness.rows("a", "b")
    await harness.registry()
    await with_gate(harness)
    await opened(harness, "a")
    await opened(harness, "b")
    rename_row(harness, "a", "z")
    await exists(harness, "z-app")
    await stays(harness, "a-app")
    await harness.template(
        "app", configMaps=[config_map("cm", "{{ .uid }}-cm")], services=[IMPOSSIBLE]
    )
    message = await stays(harness, "a-app", reason="ReplacementFailed")
    assert "'z-app', which has failed, see its conditions" in message
    await harness.registry_condition("RemovalPending", "True", "ReplacementFailed")

    await harness.client.delete(Tenant, "a-app", namespace=harness.namespace)
    await harness.gone(Tenant.mapping(), "a-app")
    await harness.registry_condition("RemovalPending", "False", "NothingPending")
    assert await harness.tenant("z-app") is not None


async def test_h_a3_a_row_that_is_renamed_back_keeps_its_tenant(harness: TenancyHarness) -> None:
    harness.rows("a", "b")
    await harness.registry(deletionGuard={"maxDeletePercent": 100})
    await with_gate(harness)
    await opened(harness, "a")
    await opened(harness, "b")
    before = await uids(harness)
    rename_row(harness, "a", "z")
    await stays(harness, "a-app")
    assert await annotation(harness, "a-app", REPLACED_BY) == "z-app"
    rename_row(harness, "z", "a")
    await harness.gone(Tenant.mapping(), "z-app")
    await harness.eventually(lambda: unmarked(harness, "a-app"))
    await harness.ready("a-app", "b-app")
    assert await uids(harness) == before


async def annotation(harness: TenancyHarness, name: str, key: str) -> str | None:
    tenant = await harness.tenant(name)
    assert tenant is not None
    return (tenant.metadata.annotations or {}).get(key)


async def unmarked(harness: TenancyHarness, name: str) -> bool:
    return [await annotation(harness, name, key) for key in (REPLACED_BY, HANDS_OVER)] == [
        None,
        None,
    ]


async def test_h_a3_renames_beyond_the_guard_wait_after_their_approval_too(
    harness: TenancyHarness,
) -> None:
    """The approval is spent at once, and what it let pass is on record: a new manager needs no other."""
    harness.rows("a", "b", "c")
    await harness.registry()
    await with_gate(harness)
    for uid in "abc":
        await opened(harness, uid)
    before = await uids(harness)
    harness.sql("UPDATE tenants SET uid = uid || '-new'")
    await harness.registry_condition("DeletionsHeld", "True", "TooManyDeletions")
    await harness.idle()
    assert await annotation(harness, "a-app", HANDS_OVER) is None
    await harness.approve(message="Held: a-app, b-app, c-app")
    await harness.registry_condition("DeletionsHeld", "False")
    await stays(harness, "a-app")
    await harness.restart_manager()
    await harness.idle()
    await harness.registry_condition("DeletionsHeld", "False")
    assert before.items() <= (await uids(harness)).items()
    await open_gate(harness, "b-new-gate")
    await harness.gone(Tenant.mapping(), "b-app")
    await harness.idle()
    assert await harness.tenant("a-app") is not None
    await open_gate(harness, "a-new-gate")
    await open_gate(harness, "c-new-gate")
    await harness.gone(Tenant.mapping(), "a-app")
    await harness.gone(Tenant.mapping(), "c-app")


# -- who inherits ------------------------------------------------------------------------------------

INHERITED_BY = f"{GROUP}/inherited-by"


async def with_belongings(harness: TenancyHarness) -> dict[str, Any]:
    """Acme has a drawn password and an object under a pooled name; then it leaves, and others come who are alike."""
    harness.row("acme", replicas=7)
    harness.rows("zeta", "eta")
    harness.sql("UPDATE tenants SET replicas = 8 WHERE uid != 'acme'")
    await harness.registry(deletionGuard={"maxDeletePercent": 100})
    pooled = config_map("pooled", "slot-{{ .replicas }}", when="{{ eq .replicas `7` }}")
    kind = TenantTemplate.mapping()
    spec = {
        "registryId": "registry",
        "generate": {"password": {}},
        "configMaps": [pooled],
        "services": [gate("{{ .uid }}-gate")],
    }
    head = {"apiVersion": kind.gvk.api_version, "kind": kind.gvk.kind}
    await harness.put(
        kind, {**head, "metadata": {"name": "app", "namespace": harness.namespace}, "spec": spec}
    )
    for uid in ("acme", "zeta", "eta"):
        await opened(harness, uid)
    before = await harness.get(CONFIG_MAP, "slot-7")
    secret = await harness.get(SECRET, "acme-app-generated")
    assert before is not None
    assert secret is not None
    return {"uid": before["metadata"]["uid"], "password": secret["data"]["password"]}


async def password(harness: TenancyHarness, uid: str) -> str:
    secret = await harness.eventually(lambda: harness.get(SECRET, f"{uid}-app-generated"))
    found: str = secret["data"]["password"]
    return found


@pytest.mark.criterion("G-T1")
async def test_g_t1_newcomers_that_are_alike_get_nothing_of_a_customer_who_left(
    harness: TenancyHarness,
) -> None:
    """The old tenant waits for them, says what to do, and a person's word passes its belongings on to one."""
    had = await with_belongings(harness)
    harness.sql(
        "INSERT INTO tenants SELECT 'beta', 'https://beta.example.com', 1, plan, image, replicas FROM tenants"
        " WHERE uid = 'acme' UNION ALL"
        " SELECT 'gamma', 'https://gamma.example.com', 1, plan, image, replicas FROM tenants WHERE uid = 'acme'"
    )
    harness.sql("DELETE FROM tenants WHERE uid = 'acme'")
    await exists(harness, "beta-app")
    await exists(harness, "gamma-app")
    message = await stays(harness, "acme-app", reason="ReplacementFailed")
    assert "only alike: nothing passes to it" in message
    assert f"annotate the Tenant 'acme-app' with {INHERITED_BY}=beta-app" in message
    assert (
        len({had["password"], await password(harness, "beta"), await password(harness, "gamma")})
        == 3
    )
    pooled = await harness.get(CONFIG_MAP, "slot-7")
    assert pooled is not None
    assert pooled["metadata"]["uid"] == had["uid"]
    assert pooled["metadata"]["annotations"]["ctrlruntime.dev/owner"].endswith("/acme-app")
    await harness.restart_manager()
    await stays(harness, "acme-app", reason="ReplacementFailed")
    assert await annotation(harness, "acme-app", INHERITED_BY) is None

    patch = {"metadata": {"annotations": {INHERITED_BY: "beta-app"}}}
    await harness.client.patch(
        Tenant.mapping(), "acme-app", patch, namespace=harness.namespace, type=PatchType.MERGE
    )
    await harness.eventually(
        lambda: password(harness, "beta"), lambda seen: seen == had["password"]
    )
    await opened(harness, "beta")
    await harness.gone(Tenant.mapping(), "acme-app")
    pooled = await harness.get(CONFIG_MAP, "slot-7")
    assert pooled is not None
    assert pooled["metadata"]["uid"] == had["uid"]
    assert await password(harness, "gamma") != had["password"]


@pytest.mark.criterion("G-T1")
async def test_g_t1_a_younger_customer_of_the_same_host_gets_nothing_of_the_one_who_left(
    harness: TenancyHarness,
) -> None:
    """Both were there: the younger, in conflict over a pooled name, is no renamed row."""
    had = await with_belongings(harness)
    harness.sql(
        "INSERT INTO tenants SELECT 'beta', url, 1, plan, image, replicas FROM tenants WHERE uid = 'acme'"
    )
    drawn = await password(harness, "beta")
    harness.sql("DELETE FROM tenants WHERE uid = 'acme'")
    message = await stays(harness, "acme-app", reason="ReplacementFailed")
    assert "only alike: nothing passes to it" in message
    pooled = await harness.get(CONFIG_MAP, "slot-7")
    assert pooled is not None
    assert pooled["metadata"]["uid"] == had["uid"]
    assert pooled["metadata"]["annotations"]["ctrlruntime.dev/owner"].endswith("/acme-app")
    assert await password(harness, "beta") == drawn != had["password"]


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


async def rename_template(harness: TenancyHarness, before: str, after: str, **lists: Json) -> None:
    """Delete a template and apply it under another name, as `kubectl apply --prune` does."""
    await harness.template(after, **lists)
    await harness.client.delete(TenantTemplate, before, namespace=harness.namespace)


async def test_h_a3_a_template_under_another_name_takes_the_objects_over(
    harness: TenancyHarness,
) -> None:
    """Objects of one name are handed over as they are: none is deleted, none is created a second time."""
    harness.rows("a", "b")
    await harness.registry()
    await harness.template("old", configMaps=copies())
    await harness.ready("a-old", "b-old")
    before, since = await uids(harness), harness.mark()
    assert len(before) == 10
    await rename_template(
        harness, "old", "new", configMaps=copies(), services=[gate("{{ .uid }}-gate")]
    )
    message = await stays(harness, "a-old")
    assert "2 tenants stay until others take its place" in message or "'b-old'" in message
    await harness.eventually(lambda: owners(harness), lambda seen: seen == {"a-new", "b-new"})
    assert before.items() <= (await uids(harness)).items()
    await open_gate(harness, "a-gate")
    await harness.gone(Tenant.mapping(), "a-old")
    await open_gate(harness, "b-gate")
    await harness.gone(Tenant.mapping(), "b-old")
    await harness.ready("a-new", "b-new")
    await harness.idle()
    assert before.items() <= (await uids(harness)).items()
    assert sorted(deleted(harness, since)) == [f"{TENANTS} a-old", f"{TENANTS} b-old"]
    calm = harness.mark()
    await harness.restart_manager()
    await harness.idle()
    assert [e for e in harness.environment.proxy.log.entries(calm) if e.verb in WRITES] == []
    await nothing_is_left(harness)


async def nothing_is_left(harness: TenancyHarness) -> None:
    """The objects belong to the new tenants for good: with these they go, but for the retained ones."""
    harness.row("a", active=0)
    await harness.gone(Tenant.mapping(), "a-new")
    left = {name for name in await uids(harness) if "/a-" in name}
    assert left == {"ConfigMap/a-kept"}


async def owners(harness: TenancyHarness) -> set[str]:
    """The tenants that the ConfigMaps record and reference as their owners."""
    found = set()
    for item in await harness.client.list(CONFIG_MAP, harness.namespace):
        metadata = item["metadata"]
        recorded = metadata.get("annotations", {}).get("ctrlruntime.dev/owner")
        if recorded is None:
            continue
        references = [each["name"] for each in metadata.get("ownerReferences", ())]
        name = recorded.rpartition("/")[2]
        found |= {name, *references}
    return found


async def test_h_a3_the_new_template_may_change_what_it_takes_over(harness: TenancyHarness) -> None:
    harness.rows("a")
    await harness.registry()
    await harness.template("old", configMaps=copies())
    await harness.ready("a-old")
    before = await uids(harness)
    await rename_template(harness, "old", "new", configMaps=copies(value="2"))
    await harness.gone(Tenant.mapping(), "a-old")
    await harness.ready("a-new")
    assert await uids(harness) == before
    settings = await harness.get(CONFIG_MAP, "a-settings")
    once = await harness.get(CONFIG_MAP, "a-once")
    assert settings is not None
    assert once is not None
    assert (settings["data"], once["data"]) == ({"k": "2"}, {"k": "1"})


@pytest.mark.criterion("G-T5")
async def test_g_t5_a_template_that_is_deleted_keeps_its_tenants_until_an_approval(
    harness: TenancyHarness,
) -> None:
    """And one of its name takes them over: `kubectl replace --force`, or deleted and applied again."""
    harness.rows("a", "b", "c")
    await harness.registry()
    await harness.template("old", configMaps=[config_map("cm", "{{ .uid }}-cm")])
    await harness.ready("a-old", "b-old", "c-old")
    before, since = await uids(harness), harness.mark()
    await harness.client.delete(TenantTemplate, "old", namespace=harness.namespace)
    await harness.template("old", configMaps=[config_map("cm", "{{ .uid }}-cm", {"k": "2"})])
    await harness.eventually(
        lambda: harness.get(CONFIG_MAP, "a-cm"),
        lambda seen: bool(seen and seen["data"] == {"k": "2"}),
    )
    await harness.idle()
    assert (await uids(harness), deleted(harness, since)) == (before, [])

    await harness.client.delete(TenantTemplate, "old", namespace=harness.namespace)
    held = await harness.registry_condition("DeletionsHeld", "True", "TemplateGone")
    assert "The template 'old' is gone; 3 of 3 tenants would be deleted, none was" in held.message
    assert "Apply it again, and it takes them over" in held.message
    await harness.restart_manager()
    await harness.idle()
    await harness.registry_condition("DeletionsHeld", "True", "TemplateGone")
    assert (await uids(harness), deleted(harness, since)) == (before, [])
    await harness.template("old", configMaps=[config_map("cm", "{{ .uid }}-cm", {"k": "3"})])
    await harness.registry_condition("DeletionsHeld", "False")
    await harness.ready("a-old")
    assert await uids(harness) == before

    await harness.client.delete(TenantTemplate, "old", namespace=harness.namespace)
    await harness.approve("TemplateGone", message="Held: a-old, b-old, c-old")
    for uid in "abc":
        await harness.gone(Tenant.mapping(), f"{uid}-old")
    await harness.registry_condition("DeletionsHeld", "False")


@pytest.mark.criterion("G-T5")
async def test_g_t5_without_protection_a_template_of_the_name_takes_over_within_the_grace(
    tmp_path: Path,
) -> None:
    grace = 600.0
    options = replace(permissive(tmp_path), template_grace=grace)
    async with TenancyHarness.start(tmp_path, options=options) as harness:
        harness.rows("a", "b")
        await harness.registry()
        spec: dict[str, Any] = {
            "registryId": "registry",
            "deletionProtection": False,
            "configMaps": [config_map("cm", "{{ .uid }}-cm")],
        }
        kind = TenantTemplate.mapping()
        head = {"apiVersion": kind.gvk.api_version, "kind": kind.gvk.kind}
        manifest = {
            **head,
            "metadata": {"name": "old", "namespace": harness.namespace},
            "spec": spec,
        }
        await harness.put(kind, manifest)
        await harness.ready("a-old", "b-old")
        before, since = await uids(harness), harness.mark()
        await harness.client.delete(TenantTemplate, "old", namespace=harness.namespace)
        await harness.registry_condition("DeletionsHeld", "True", "TemplateGone")
        await harness.put(kind, manifest)
        await harness.registry_condition("DeletionsHeld", "False")
        assert (await uids(harness), deleted(harness, since)) == (before, [])
        await harness.client.delete(TenantTemplate, "old", namespace=harness.namespace)
        await harness.registry_condition("DeletionsHeld", "True", "TemplateGone")
        harness.advance(grace)
        harness.rows("c")  # to be planned: the timer runs by another clock
        await harness.gone(Tenant.mapping(), "a-old")
        await harness.gone(Tenant.mapping(), "b-old")


async def test_h_a3_a_template_that_goes_before_the_new_one_comes_is_a_deletion(
    harness: TenancyHarness,
) -> None:
    """Nothing can take its place: that is what taking a template away means."""
    harness.rows("a")
    await harness.registry()
    await harness.template("old", configMaps=[config_map("cm", "{{ .uid }}-cm")])
    await harness.ready("a-old")
    await harness.client.delete(TenantTemplate, "old", namespace=harness.namespace)
    await harness.approve("TemplateGone", message="Held: a-old")
    await harness.gone(Tenant.mapping(), "a-old")
    await harness.gone(CONFIG_MAP, "a-cm")
    assert await harness.get(CONFIG_MAP, "a-cm") is None


async def test_h_a3_an_older_template_that_is_not_ready_holds_nothing(
    harness: TenancyHarness,
) -> None:
    """It was there before the tenants of the other: it is another template, not the same renamed."""
    harness.rows("b")
    await harness.registry()
    await with_gate(harness, "other")
    await exists(harness, "b-other")
    await asyncio.sleep(1.1)  # creationTimestamps have whole seconds
    await harness.template("old", configMaps=[config_map("cm", "{{ .uid }}-own")])
    await harness.ready("b-old")
    await harness.client.delete(TenantTemplate, "old", namespace=harness.namespace)
    await harness.approve("TemplateGone", message="Held: b-old")
    await harness.gone(Tenant.mapping(), "b-old")
    assert not is_ready(await harness.tenant("b-other"))


async def test_h_a3_a_replacement_that_fails_leaves_the_old_objects_serving(
    harness: TenancyHarness,
) -> None:
    """Under another name and not ready: the old tenant stays until somebody deletes it."""
    harness.rows("a")
    await harness.registry()
    await harness.template("old", configMaps=[config_map("cm", "{{ .uid }}-cm")])
    await harness.ready("a-old")
    before = await uids(harness)
    await rename_template(
        harness,
        "old",
        "new",
        configMaps=[config_map("cm", "{{ .uid }}-cm", dependIds=["impossible"])],
        services=[IMPOSSIBLE],
    )
    await stays(harness, "a-old", reason="ReplacementFailed")
    await harness.restart_manager()
    await stays(harness, "a-old", reason="ReplacementFailed")
    assert before.items() <= (await uids(harness)).items()
    await harness.client.delete(Tenant, "a-old", namespace=harness.namespace)
    await harness.gone(Tenant.mapping(), "a-old")


async def test_h_a3_a_row_in_doubt_keeps_its_tenant_when_the_template_is_renamed(
    harness: TenancyHarness,
) -> None:
    """No tenant of the new template is made for it, so the old one stays."""
    harness.rows("a", "b")
    await harness.registry()
    await harness.template("old", configMaps=[config_map("cm", "{{ .uid }}-cm")])
    await harness.ready("a-old", "b-old")
    harness.row("a", active="maybe")
    await harness.registry_condition("RowsValid", "False")
    await rename_template(harness, "old", "new", configMaps=[config_map("cm", "{{ .uid }}-cm")])
    await harness.gone(Tenant.mapping(), "b-old")
    message = await stays(harness, "a-old")
    assert "'a-new', which does not exist yet" in message
    harness.row("a", active=1)
    await harness.gone(Tenant.mapping(), "a-old")
    await harness.ready("a-new")


# -- another registry --------------------------------------------------------------------------------


async def test_h_a3_a_template_of_another_registry_takes_its_tenants_along(
    harness: TenancyHarness,
) -> None:
    """The former registry is paused while its template is applied for another: the very same Tenants go on."""
    harness.rows("a", "b")
    await harness.registry()
    await harness.template("app", configMaps=copies())
    await harness.ready("a-app", "b-app")
    before, since = await uids(harness), harness.mark()
    tenant = await exists(harness, "a-app")
    await harness.registry("second")
    await pause(harness, "true")
    await harness.registry_condition("Paused", "True")
    await harness.client.delete(TenantTemplate, "app", namespace=harness.namespace)
    await harness.template("app", registry="second", configMaps=copies())

    async def taken() -> bool:
        found = [await harness.tenant(name) for name in ("a-app", "b-app")]
        return all(item is not None and item.spec.registry_id == "second" for item in found)

    await harness.eventually(taken)
    await pause(harness, None)
    await harness.ready("a-app", "b-app")
    await harness.idle()
    again = await exists(harness, "a-app")
    assert again.metadata.uid == tenant.metadata.uid
    assert await uids(harness) == before
    assert deleted(harness, since) == []


async def pause(harness: TenancyHarness, value: str | None) -> None:
    patch = {"metadata": {"annotations": {"ctrlruntime.dev/paused": value}}}
    await harness.client.patch(
        TenantRegistry.mapping(),
        "registry",
        patch,
        namespace=harness.namespace,
        type=PatchType.MERGE,
    )


async def test_h_a3_a_template_that_names_another_registry_keeps_its_tenants(
    harness: TenancyHarness,
) -> None:
    """The former registry leaves them alone, also those of rows that the other one does not have."""
    harness.rows("a", "b")
    await harness.registry()
    await harness.template("app", configMaps=copies())
    await harness.ready("a-app", "b-app")
    before, since = await uids(harness), harness.mark()
    await pause(harness, "true")
    await harness.registry_condition("Paused", "True")
    await harness.client.delete(TenantTemplate, "app", namespace=harness.namespace)
    await harness.template("app", registry="second", configMaps=copies())
    await pause(harness, None)
    found = await harness.registry_condition("TenantsSynced", "False")
    assert "'app' names the registry 'second' now: 2 tenants of it stay until" in found.message
    await harness.idle()
    assert await uids(harness) == before
    assert deleted(harness, since) == []


async def test_h_a3_a_renamed_registry_with_a_renamed_template_is_waited_for(
    harness: TenancyHarness,
) -> None:
    """Both read one table, so that the tenants of one take the place of those of the other."""
    harness.rows("a")
    await harness.registry()
    await harness.template("old", configMaps=copies())
    await harness.ready("a-old")
    before, since = await uids(harness), harness.mark()
    await harness.registry("second")
    await harness.template(
        "new", registry="second", configMaps=copies(), services=[gate("{{ .uid }}-gate")]
    )
    await exists(harness, "a-new")
    await harness.client.delete(TenantTemplate, "old", namespace=harness.namespace)
    await stays(harness, "a-old")
    await harness.eventually(lambda: owners(harness), lambda seen: seen == {"a-new"})
    await open_gate(harness, "a-gate")
    await harness.gone(Tenant.mapping(), "a-old")
    await harness.ready("a-new")
    assert before.items() <= (await uids(harness)).items()
    assert deleted(harness, since) == [f"{TENANTS} a-old"]


# -- a manager that is killed ------------------------------------------------------------------------


async def killed_at(
    harness: TenancyHarness, forkserver: ForkServer, when: str, match: Match
) -> None:
    """One life of a manager that ends, by SIGKILL, at a write."""
    process = await start(harness, forkserver)
    done = asyncio.Event()
    rule = harness.environment.proxy.add(
        Kill(pid=process.pid, when="before" if when == "before" else "after"),
        match,
        notify=lambda *_: done.set(),
    )
    try:
        async with asyncio.timeout(90):
            await done.wait()
        assert await process.wait() == -9
    finally:
        harness.environment.proxy.remove(rule)
        await process.stop(grace=0)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("rename", ["uid", "template"])
async def test_h_a3_a_manager_killed_between_create_and_delete_keeps_the_old_tenant(
    tmp_path: Path, forkserver: ForkServer, rename: str
) -> None:
    """Killed at the record, at the create, at takeovers and at the delete: the end is always the same."""
    async with TenancyHarness.start(tmp_path, manager=False) as harness:
        harness.rows("a", "b")
        await harness.registry()
        await harness.template("app", configMaps=copies())
        process = await start(harness, forkserver)
        await harness.ready("a-app", "b-app")
        before, since = await uids(harness), harness.mark()
        await process.stop(grace=0)
        new, gates = await renamed(harness, rename)
        for when, name in (
            ("before", "a-app"),
            ("after", "a-app"),
            ("before", new),
            ("after", new),
        ):
            await killed_at(
                harness,
                forkserver,
                when,
                Match(user="manager", verb="write", resource=TENANTS, name=name),
            )
            assert deleted(harness, since) == []
        for when in ("before", "after"):  # while the new tenant's objects are made and taken over
            taken = Match(user="manager", verb="write", resource="configmaps")
            await killed_at(harness, forkserver, when, taken)
            assert deleted(harness, since) == []
        process = await start(harness, forkserver)
        await stays(harness, "a-app")
        assert before.items() <= (await uids(harness)).items()
        await process.stop(grace=0)
        for name in gates:
            await open_gate(harness, name)
        gone = Match(user="manager", verb="delete", resource=TENANTS, name="a-app")
        await killed_at(harness, forkserver, "before", gone)
        await exists(harness, "a-app")
        process = await start(harness, forkserver)
        await harness.gone(Tenant.mapping(), "a-app")
        await harness.ready(new)
        await process.stop(grace=0)
        if rename == "template":
            assert before.items() <= (await uids(harness)).items()


async def renamed(harness: TenancyHarness, rename: str) -> tuple[str, list[str]]:
    """Carry a rename out; the new tenant of row `a`, and the gates of all new ones."""
    lists: dict[str, Any] = {"configMaps": copies(), "services": [gate("{{ .uid }}-gate")]}
    if rename == "template":
        await rename_template(harness, "app", "new", **lists)
        return "a-new", ["a-gate", "b-gate"]
    rename_row(harness, "a", "z")
    await harness.template("app", **lists)
    with pytest.raises(NotFound):
        await harness.client.get(Tenant, "z-app", namespace=harness.namespace)
    return "z-app", ["z-gate"]

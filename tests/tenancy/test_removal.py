"""Removal of tenants' objects: what stays, what goes and when, and what the status says of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from apis.tenancy import Tenant, TenantStatus, TenantTemplate
from ctrlruntime.api.conditions import find_condition
from ctrlruntime.cache.cache import CacheOptions
from ctrlruntime.client.client import PatchType
from ctrlruntime.envtest.proxy import Fail, Match
from tests.tenancy.harness import CONFIG_MAP, SERVICE, TenancyHarness, config_map

Manifest = dict[str, Any]

GROUP = "tenancy.ctrlruntime.dev"
TENANT = "a-web-app"
SLOW = "example.com/slow"
IMPOSSIBLE: Manifest = {
    "id": "impossible",
    "nameTemplate": "{{ .uid }}-impossible",
    "spec": {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 99999}]}},
}
"""A resource that the server refuses."""


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[TenancyHarness]:
    async with TenancyHarness.start(tmp_path) as harness:
        harness.rows("a")
        await harness.registry()
        yield harness


async def live(harness: TenancyHarness, name: str) -> Manifest:
    found = await harness.get(CONFIG_MAP, name)
    assert found is not None, name
    return found


async def hold(harness: TenancyHarness, name: str, finalizers: list[str] | None) -> None:
    """Put finalizers on a ConfigMap, or take all of them off."""
    await harness.client.patch(
        CONFIG_MAP,
        name,
        {"metadata": {"finalizers": finalizers}},
        namespace=harness.namespace,
        type=PatchType.MERGE,
    )


async def template(harness: TenancyHarness, *entries: Manifest) -> None:
    """The template, applied to the tenant's spec."""
    await harness.template(configMaps=[*entries])
    ids = {entry["id"] for entry in entries}

    def has_them(tenant: Tenant | None) -> bool:
        if tenant is None or tenant.status.observed_generation != tenant.metadata.generation:
            return False
        return {item.id for item in tenant.spec.config_maps} == ids

    await harness.eventually(lambda: harness.tenant(TENANT), has_them)


async def row_off(harness: TenancyHarness) -> None:
    """The row turns inactive, among enough others for the guard."""
    harness.rows("b", "c", "d", "e", "f", "g")
    await harness.eventually(lambda: harness.tenant("g-web-app"))
    harness.row("a", active=0)


async def is_released(harness: TenancyHarness, name: str, reason: str) -> None:
    """Wait until an object is kept without a tie to its tenant."""

    def holds(seen: Manifest) -> bool:
        return (seen["metadata"].get("labels") or {}).get(f"{GROUP}/orphaned") == "true"

    seen = await harness.eventually(lambda: live(harness, name), holds)
    assert seen["metadata"]["annotations"][f"{GROUP}/orphaned-reason"] == reason
    assert not seen["metadata"].get("ownerReferences")


async def status_of(harness: TenancyHarness) -> TenantStatus:
    tenant = await harness.tenant(TENANT)
    assert tenant is not None
    return tenant.status


# -- the wish of the spec ------------------------------------------------------------------------


@pytest.mark.criterion("H-A2")
async def test_h_a2_retain_in_the_spec_wins_when_it_could_not_be_applied(
    harness: TenancyHarness,
) -> None:
    """Delete became Retain, a dependency fails, so the object still says Delete; the row goes off."""
    await template(harness, config_map("data", "{{ .uid }}-data"))
    await harness.ready(TENANT)
    data = config_map(
        "data", "{{ .uid }}-data", deletionPolicy="Retain", dependIds=["impossible"]
    ) | {"spec": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "2"}}}
    await template(harness, data, IMPOSSIBLE)
    await harness.condition(TENANT, "Ready", "False", "ResourcesFailed")
    found = (await live(harness, "a-data"))["metadata"]["annotations"]
    assert found[f"{GROUP}/deletion-policy"] == "Delete"
    await row_off(harness)
    await harness.gone(Tenant.mapping(), TENANT)
    await is_released(harness, "a-data", "TenantDeleted")


@pytest.mark.criterion("H-A2")
async def test_h_a2_retain_in_a_template_that_is_not_rolled_out_counts(
    harness: TenancyHarness,
) -> None:
    """The template is paused with its change, and the tenant deleted."""
    await template(harness, config_map("data", "{{ .uid }}-data"))
    await harness.ready(TENANT)
    await harness.client.patch(
        TenantTemplate.mapping(),
        "web-app",
        {
            "metadata": {"annotations": {"ctrlruntime.dev/paused": "true"}},
            "spec": {
                "configMaps": [config_map("data", "{{ .uid }}-data", deletionPolicy="Retain")]
            },
        },
        namespace=harness.namespace,
        type=PatchType.MERGE,
    )
    await harness.client.delete(Tenant.mapping(), TENANT, namespace=harness.namespace)
    await harness.gone(Tenant.mapping(), TENANT)
    await is_released(harness, "a-data", "TenantDeleted")


@pytest.mark.criterion("H-A2")
async def test_h_a2_the_last_wish_counts_once_the_resource_has_left_the_spec(
    harness: TenancyHarness,
) -> None:
    await template(harness, config_map("data", "{{ .uid }}-data"), config_map("o", "{{ .uid }}-o"))
    await harness.ready(TENANT)
    data = config_map(
        "data", "{{ .uid }}-data", deletionPolicy="Retain", dependIds=["impossible"]
    ) | {"spec": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "2"}}}
    await template(harness, data, IMPOSSIBLE)
    await harness.eventually(
        lambda: status_of(harness), lambda status: status.retained_resource_ids == ["data"]
    )
    await template(harness, config_map("o", "{{ .uid }}-o"))
    await harness.ready(TENANT)
    await is_released(harness, "a-data", "RemovedFromTemplate")


@pytest.mark.criterion("H-A2")
async def test_h_a2_the_last_wish_counts_whatever_resource_wants_the_object_meanwhile(
    harness: TenancyHarness,
) -> None:
    """An entry with another id takes the object's name, and waits: nothing else of the tenant is there then."""
    name = "{{ .uid }}-data"
    await template(harness, config_map("data", name))
    await harness.ready(TENANT)
    kept = config_map("data", name, {"k": "2"}, deletionPolicy="Retain", dependIds=["impossible"])
    await template(harness, kept, IMPOSSIBLE)
    await harness.eventually(
        lambda: status_of(harness), lambda status: status.retained_resource_ids == ["data"]
    )
    await template(
        harness, config_map("other", name, {"k": "3"}, dependIds=["impossible"]), IMPOSSIBLE
    )
    await harness.eventually(
        lambda: status_of(harness), lambda status: "other" in {each.id for each in status.resources}
    )
    await harness.idle()
    assert (await status_of(harness)).retained_resource_ids == ["data"]
    await template(harness, config_map("o", "{{ .uid }}-o"))
    await harness.ready(TENANT)
    await is_released(harness, "a-data", "RemovedFromTemplate")


@pytest.mark.criterion("H-A2")
async def test_h_a2_what_cannot_be_rendered_is_not_removed(harness: TenancyHarness) -> None:
    await template(harness, config_map("cm", "{{ .uid }}-cm"), config_map("o", "{{ .uid }}-o"))
    await harness.ready(TENANT)
    uid = (await live(harness, "a-cm"))["metadata"]["uid"]
    await template(
        harness,
        config_map("cm", "{{ (.uid | fromJson).x }}-cm"),
        config_map("o", "{{ .uid }}-o"),
    )
    await harness.condition(TENANT, "Ready", "False", "ResourcesFailed")
    await harness.idle()
    assert (await live(harness, "a-cm"))["metadata"]["uid"] == uid
    assert f"ConfigMap/{harness.namespace}/a-cm@cm" in (await status_of(harness)).applied_resources


# -- make before break ---------------------------------------------------------------------------


@pytest.mark.criterion("H-A3")
async def test_h_a3_a_renamed_resource_stays_until_its_replacement_is_ready(
    harness: TenancyHarness,
) -> None:
    """The replacement waits for what never becomes ready: the old object serves on."""
    await template(harness, config_map("cm", "{{ .uid }}-old"))
    await harness.ready(TENANT)
    blocked = config_map("cm", "{{ .uid }}-new", dependIds=["impossible"])
    await template(harness, blocked, IMPOSSIBLE)
    ready = await harness.condition(TENANT, "RemovalPending", "True", "ReplacementNotReady")
    assert f"ConfigMap/{harness.namespace}/a-old@cm" in ready.message
    assert "its replacement 'a-new' is skipped" in ready.message
    await harness.idle()
    await live(harness, "a-old")
    await harness.restart_manager()
    await harness.idle()
    await live(harness, "a-old")
    await template(harness, config_map("cm", "{{ .uid }}-new"))
    await harness.ready(TENANT)
    await live(harness, "a-new")
    await harness.gone(CONFIG_MAP, "a-old")
    await harness.condition(TENANT, "RemovalPending", "False", "NothingPending")
    assert (await status_of(harness)).pending_removals == []


@pytest.mark.criterion("H-A3")
async def test_h_a3_when_both_cannot_exist_the_old_one_stays_and_the_status_reports_it(
    harness: TenancyHarness,
) -> None:
    """Two Services want one node port: the server refuses the second. Deleting the first lets it in."""

    def service(name: str) -> Manifest:
        ports = [{"port": 80, "nodePort": 30123}]
        spec = {"type": "NodePort", "ports": ports, "selector": {"app": "x"}}
        manifest = {"apiVersion": "v1", "kind": "Service", "spec": spec}
        return {"id": "svc", "nameTemplate": name, "spec": manifest}

    await template(harness, service("{{ .uid }}-old"))
    await harness.ready(TENANT)
    await harness.template(configMaps=[service("{{ .uid }}-new")])
    found = await harness.condition(TENANT, "RemovalPending", "True", "ReplacementNotReady")
    assert "a-new" in found.message
    assert "delete it yourself" in found.message
    assert await harness.get(SERVICE, "a-old") is not None
    await harness.client.delete(SERVICE, "a-old", namespace=harness.namespace)
    await harness.ready(TENANT)
    assert await harness.get(SERVICE, "a-new") is not None


# -- stuck deletions -----------------------------------------------------------------------------


@pytest.mark.criterion("H-A6")
async def test_h_a6_a_stuck_deletion_names_object_finalizer_and_time(
    harness: TenancyHarness,
) -> None:
    await template(harness, config_map("cm", "{{ .uid }}-cm"), config_map("o", "{{ .uid }}-o"))
    await harness.ready(TENANT)
    await hold(harness, "a-cm", [SLOW])
    await template(harness, config_map("o", "{{ .uid }}-o"))
    found = await harness.condition(TENANT, "RemovalPending", "True", "FinalizersRemain")
    since = (await live(harness, "a-cm"))["metadata"]["deletionTimestamp"]
    place = f"ConfigMap/{harness.namespace}/a-cm@cm"
    assert f"{place} (it is being deleted since {since}" in found.message
    assert SLOW in found.message
    status = await status_of(harness)
    (pending,) = status.pending_removals
    assert (pending.resource, pending.finalizers) == (place, [SLOW])
    ready = find_condition(status.conditions, "Ready")
    assert ready is not None
    assert (ready.status, ready.reason) == ("False", "RemovalPending")
    assert place in ready.message
    await harness.idle()
    await hold(harness, "a-cm", None)
    await harness.ready(TENANT)


@pytest.mark.criterion("H-A6")
@pytest.mark.criterion("FAULT-B9")
async def test_h_a6_a_tenant_that_cannot_go_reports_what_holds_it(harness: TenancyHarness) -> None:
    await template(harness, config_map("cm", "{{ .uid }}-cm"))
    await harness.ready(TENANT)
    await hold(harness, "a-cm", [SLOW])
    await row_off(harness)
    found = await harness.condition(TENANT, "RemovalPending", "True", "FinalizersRemain")
    assert SLOW in found.message
    await harness.condition(TENANT, "Ready", "False", "RemovalPending")
    await hold(harness, "a-cm", None)
    await harness.gone(Tenant.mapping(), TENANT)


@pytest.mark.criterion("H-A6")
async def test_h_a6_a_kind_that_cannot_be_read_holds_the_tenant_and_reports_it(
    harness: TenancyHarness,
) -> None:
    """Whether its objects are gone is unknown: the tenant waits, and nothing is forgotten."""
    ports = {"ports": [{"port": 80}], "selector": {"app": "x"}}
    service = {
        "id": "svc",
        "nameTemplate": "{{ .uid }}-svc",
        "spec": {"apiVersion": "v1", "kind": "Service", "spec": ports},
    }
    await template(harness, service, config_map("cm", "{{ .uid }}-cm"))
    await harness.ready(TENANT)
    await harness.stop_manager()
    message = 'services is forbidden: User "manager" cannot list resource "services"'
    refusal = Fail(code=403, reason="Forbidden", message=message)
    rules = [
        harness.environment.proxy.add(
            refusal, Match(user="manager", verb=verb, resource="services"), times=None
        )
        for verb in ("list", "watch")
    ]
    await harness.start_manager()
    await harness.client.delete(Tenant.mapping(), TENANT, namespace=harness.namespace)
    found = await harness.condition(TENANT, "RemovalPending", "True", "KindUnreadable")
    assert f"Service/{harness.namespace}/a-svc@svc" in found.message
    for rule in rules:
        harness.environment.proxy.remove(rule)
    await harness.eventually(
        lambda: harness.get(SERVICE, "a-svc"),
        lambda seen: seen is None or "deletionTimestamp" not in seen["metadata"],
    )
    await harness.ready(TENANT)


# -- refused deletions, orphans ------------------------------------------------------------------


@pytest.mark.criterion("H-A7")
@pytest.mark.parametrize(
    ("code", "reason"), [(403, "Forbidden"), (422, "Invalid"), (400, "BadRequest")]
)
@pytest.mark.criterion("FAULT-B6")
async def test_h_a7_a_refused_delete_is_in_the_status_and_stops_nothing_else(
    harness: TenancyHarness, code: int, reason: str
) -> None:
    await template(
        harness,
        config_map("one", "{{ .uid }}-one"),
        config_map("two", "{{ .uid }}-two"),
        config_map("o", "{{ .uid }}-o"),
    )
    await harness.ready(TENANT)
    refusal = Fail(code=code, reason=reason, message='admission webhook "keep" denied the request')
    rule = harness.environment.proxy.add(
        refusal, Match(verb="delete", resource="configmaps", name="a-one"), times=None
    )
    await harness.template(
        configMaps=[config_map("o", "{{ .uid }}-o"), config_map("new", "{{ .uid }}-new")]
    )
    found = await harness.condition(TENANT, "RemovalPending", "True", "DeletionRefused")
    assert "a-one@one" in found.message
    assert "denied the request" in found.message
    await harness.gone(CONFIG_MAP, "a-two")
    await harness.eventually(lambda: harness.get(CONFIG_MAP, "a-new"))
    await live(harness, "a-one")
    harness.environment.proxy.remove(rule)
    await harness.gone(CONFIG_MAP, "a-one")
    await harness.ready(TENANT)


@pytest.mark.criterion("H-A7")
@pytest.mark.criterion("FAULT-B9")
async def test_h_a7_a_refused_delete_holds_the_tenant_and_not_its_other_objects(
    harness: TenancyHarness,
) -> None:
    await template(
        harness, config_map("one", "{{ .uid }}-one"), config_map("two", "{{ .uid }}-two")
    )
    await harness.ready(TENANT)
    refusal = Fail(code=422, reason="Invalid", message="not today")
    rule = harness.environment.proxy.add(
        refusal, Match(verb="delete", resource="configmaps", name="a-one"), times=None
    )
    await row_off(harness)
    found = await harness.condition(TENANT, "RemovalPending", "True", "DeletionRefused")
    assert "not today" in found.message
    await harness.gone(CONFIG_MAP, "a-two")
    harness.environment.proxy.remove(rule)
    await harness.gone(Tenant.mapping(), TENANT)


@pytest.mark.criterion("H-A7")
async def test_h_a7_cascade_orphan_releases_the_objects(harness: TenancyHarness) -> None:
    """`kubectl delete tenant --cascade=orphan`: the objects stay, and the next tenant adopts them."""
    far = harness.place("far-away")
    await harness.make_namespace(far)
    await template(
        harness,
        config_map("cm", "{{ .uid }}-cm"),
        config_map("far", "{{ .uid }}-far", targetNamespace=far),
    )
    await harness.ready(TENANT)
    before = (await live(harness, "a-cm"))["metadata"]["uid"]
    elsewhere = await harness.get(CONFIG_MAP, "a-far", namespace=far)
    tenant = await harness.tenant(TENANT)
    assert tenant is not None
    mark = harness.mark()
    await harness.client.delete(
        Tenant.mapping(), TENANT, namespace=harness.namespace, propagation="Orphan"
    )

    def is_another(seen: Tenant | None) -> bool:
        return seen is not None and seen.metadata.uid != tenant.metadata.uid

    await harness.eventually(lambda: harness.tenant(TENANT), is_another)
    await harness.ready(TENANT)
    assert (await live(harness, "a-cm"))["metadata"]["uid"] == before
    found = await harness.get(CONFIG_MAP, "a-far", namespace=far)
    assert found is not None
    assert elsewhere is not None
    assert found["metadata"]["uid"] == elsewhere["metadata"]["uid"]
    deletes = [
        entry.name
        for entry in harness.environment.proxy.log.entries(mark)
        if (entry.user, entry.verb, entry.resource) == ("manager", "delete", "configmaps")
    ]
    assert deletes == []


@pytest.mark.criterion("C1")
async def test_a_row_that_turns_inactive_takes_its_tenant_and_resources_with_it(
    tmp_path: Path,
) -> None:
    async with TenancyHarness.start(tmp_path) as harness:
        harness.rows("a", "b", "c")
        await harness.registry()
        await harness.template(configMaps=[config_map("cm", "{{ .uid }}-cm")])
        await harness.ready("a-web-app", "b-web-app", "c-web-app")
        harness.row("b", active=0)
        await harness.gone(Tenant.mapping(), "b-web-app")
        await harness.gone(CONFIG_MAP, "b-cm")
        assert await harness.get(CONFIG_MAP, "a-cm") is not None
        harness.row("b", active=1)
        await harness.ready("b-web-app")


async def test_a_resource_outside_the_watched_namespaces_fails_and_reports_it(
    tmp_path: Path,
) -> None:
    async with TenancyHarness.start(tmp_path, manager=False) as harness:
        harness.cache = CacheOptions(namespaces=(harness.namespace,))
        await harness.start_manager()
        harness.rows("a")
        await harness.registry()
        outside = config_map("outside", "{{ .uid }}-cm", targetNamespace="elsewhere")
        inside = config_map("inside", "{{ .uid }}-cm")
        await harness.template(configMaps=[outside, inside])
        condition = await harness.condition("a-web-app", "Ready", "False", "ResourcesFailed")
        assert "'elsewhere' is not watched" in condition.message
        assert await harness.get(CONFIG_MAP, "a-cm") is not None
        assert await harness.get(CONFIG_MAP, "a-cm", namespace="elsewhere") is None

"""Creation, deletion, patch strategy, ignored fields, other namespaces, orphans, finalizers (E-L)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.client.client import PatchType
from internal.tenancy.objects import path_matches
from tests.tenancy.harness import (
    CONFIG_MAP,
    DEPLOYMENT,
    NAMESPACE_KIND,
    REGISTRY,
    TenancyHarness,
    config_map,
)

Manifest = dict[str, Any]

GROUP = "tenancy.ctrlruntime.dev"
FINALIZER = f"{GROUP}/finalizer"
TENANT = "a-web-app"
NAME = "{{ .uid }}-cm"
OTHER = config_map("other", "{{ .uid }}-other")


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[TenancyHarness]:
    async with TenancyHarness.start(tmp_path) as harness:
        harness.rows("a")
        await harness.registry()
        yield harness


async def live(
    harness: TenancyHarness, name: str = "a-cm", namespace: str | None = None
) -> Manifest:
    found = await harness.get(CONFIG_MAP, name, namespace=namespace)
    assert found is not None
    return found


async def data(harness: TenancyHarness, wanted: dict[str, str], name: str = "a-cm") -> None:
    """Wait until a ConfigMap says this."""
    await harness.eventually(lambda: live(harness, name), lambda seen: seen["data"] == wanted)


async def edit(harness: TenancyHarness, patch: Manifest, name: str = "a-cm") -> None:
    """`kubectl edit`."""
    await harness.client.patch(
        CONFIG_MAP,
        name,
        patch,
        namespace=harness.namespace,
        type=PatchType.MERGE,
        field_manager="kubectl-edit",
    )


async def applied(harness: TenancyHarness, *entries: Manifest) -> None:
    """The template with these ConfigMaps, ready."""
    await harness.template(configMaps=[*entries])
    await harness.eventually(
        lambda: harness.tenant(TENANT),
        lambda tenant: (
            tenant is not None
            and {item.id: item.spec for item in tenant.spec.config_maps}
            == {item["id"]: item["spec"] for item in entries}
        ),
    )
    await harness.ready(TENANT)


async def remove_row(harness: TenancyHarness) -> None:
    """The row turns inactive, among enough others for the guard."""
    harness.rows("b", "c", "d", "e", "f", "g")
    await harness.ready("g-web-app")
    harness.row("a", active=0)


async def is_orphan(
    harness: TenancyHarness, reason: str, name: str = "a-cm", place: str | None = None
) -> None:
    """Wait for the orphan's marks; nothing that ties it to a tenant is left."""
    seen = await harness.eventually(
        lambda: live(harness, name, place),
        lambda seen: (seen["metadata"].get("labels") or {}).get(f"{GROUP}/orphaned") == "true",
    )
    metadata = seen["metadata"]
    assert metadata["annotations"][f"{GROUP}/orphaned-reason"] == reason
    assert metadata["annotations"][f"{GROUP}/orphaned-at"].endswith("Z")
    assert f"{GROUP}/tenant" not in metadata["labels"]
    assert f"{GROUP}/tenant-namespace" not in metadata["labels"]
    assert not metadata.get("ownerReferences")


def retained(text: str = "v", **fields: object) -> Manifest:
    return config_map("cm", NAME, {"k": text}, deletionPolicy="Retain", **fields)


# -- creation ------------------------------------------------------------------------------


@pytest.mark.criterion("E1")
async def test_once_is_created_once_never_updated_and_comes_back_when_deleted(
    harness: TenancyHarness,
) -> None:
    await applied(harness, config_map("cm", NAME, {"k": "1"}, creationPolicy="Once"))
    await edit(harness, {"data": {"k": "edited"}})
    await applied(harness, config_map("cm", NAME, {"k": "2"}, creationPolicy="Once"), OTHER)
    await harness.idle()
    seen = await live(harness)
    assert seen["data"] == {"k": "edited"}
    assert seen["metadata"]["annotations"][f"{GROUP}/created-once"] == "true"
    await harness.client.delete(CONFIG_MAP, "a-cm", namespace=harness.namespace)
    await harness.eventually(lambda: harness.get(CONFIG_MAP, "a-cm"))
    await data(harness, {"k": "2"})


@pytest.mark.criterion("E2")
async def test_when_needed_follows_template_and_row(harness: TenancyHarness) -> None:
    await applied(harness, config_map("cm", NAME, {"k": "{{ .planId }}"}))
    await data(harness, {"k": "basic"})
    harness.row("a", plan="gold")
    await data(harness, {"k": "gold"})
    await applied(harness, config_map("cm", NAME, {"k": "{{ .planId }}!"}))
    await data(harness, {"k": "gold!"})


# -- deletion ------------------------------------------------------------------------------


@pytest.mark.criterion("F1")
async def test_delete_ties_by_an_owner_reference(harness: TenancyHarness) -> None:
    await applied(harness, config_map("cm", NAME))
    tenant = await harness.tenant(TENANT)
    assert tenant is not None
    metadata = (await live(harness))["metadata"]
    (reference,) = metadata["ownerReferences"]
    assert (reference["uid"], reference["controller"]) == (tenant.metadata.uid, True)
    assert f"{GROUP}/tenant" not in metadata.get("labels", {})
    await remove_row(harness)
    await harness.gone(CONFIG_MAP, "a-cm")


@pytest.mark.criterion("F2")
@pytest.mark.criterion("C4")
async def test_retain_ties_by_labels_and_survives_its_row(harness: TenancyHarness) -> None:
    await applied(harness, retained())
    metadata = (await live(harness))["metadata"]
    assert not metadata.get("ownerReferences")
    assert metadata["labels"][f"{GROUP}/tenant"] == TENANT
    assert metadata["labels"][f"{GROUP}/tenant-namespace"] == harness.namespace
    await remove_row(harness)
    await harness.gone(Tenant.mapping(), TENANT)
    await is_orphan(harness, "TenantDeleted")


@pytest.mark.criterion("F3")
@pytest.mark.criterion("F4")
@pytest.mark.parametrize("gone", ["template", "registry"])
async def test_retain_survives_template_and_registry_and_is_adopted_again(
    harness: TenancyHarness, gone: str
) -> None:
    await applied(harness, retained("1"))
    before = await live(harness)
    kind = TenantTemplate.mapping() if gone == "template" else TenantRegistry.mapping()
    name = "web-app" if gone == "template" else REGISTRY
    approval = {"metadata": {"annotations": {f"{GROUP}/approve-deletion": "true"}}}
    await harness.client.patch(
        kind, name, approval, namespace=harness.namespace, type=PatchType.MERGE
    )
    await harness.client.delete(kind, name, namespace=harness.namespace)
    if gone == "template":
        await harness.approve("TemplateGone")
    await harness.gone(Tenant.mapping(), TENANT)
    await is_orphan(harness, "TenantDeleted")
    if gone == "registry":
        await harness.gone(TenantRegistry.mapping(), REGISTRY)
        await harness.registry()
    await applied(harness, retained("2"))
    after = await live(harness)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["data"] == {"k": "2"}
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert f"{GROUP}/orphaned-at" not in after["metadata"]["annotations"]
    assert f"{GROUP}/orphaned-reason" not in after["metadata"]["annotations"]


@pytest.mark.criterion("L1")
@pytest.mark.criterion("L4")
async def test_what_leaves_the_template_is_deleted_and_leaves_the_status(
    harness: TenancyHarness,
) -> None:
    await applied(harness, config_map("cm", NAME), OTHER)
    tenant = await harness.tenant(TENANT)
    assert tenant is not None
    keys = [f"ConfigMap/{harness.namespace}/a-{name}@{name}" for name in ("cm", "other")]
    assert tenant.status.applied_resources == keys
    await applied(harness, OTHER)
    await harness.gone(CONFIG_MAP, "a-cm")
    await harness.eventually(
        lambda: harness.tenant(TENANT), lambda t: t.status.applied_resources == keys[1:]
    )


@pytest.mark.criterion("L2")
@pytest.mark.criterion("L3")
@pytest.mark.parametrize("creation", ["WhenNeeded", "Once"])
@pytest.mark.criterion("FAULT-B24")
async def test_what_is_retained_is_marked_and_adopted_again(
    harness: TenancyHarness, creation: str
) -> None:
    await applied(harness, retained("1", creationPolicy=creation), OTHER)
    before = await live(harness)
    await applied(harness, OTHER)
    await is_orphan(harness, "RemovedFromTemplate")
    await edit(harness, {"data": {"k": "edited"}})
    await applied(harness, retained("2", creationPolicy=creation), OTHER)
    await harness.idle()
    after = await live(harness)
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert f"{GROUP}/orphaned-at" not in after["metadata"]["annotations"]
    assert after["data"] == {"k": "2" if creation == "WhenNeeded" else "edited"}


# -- patch strategy and ignored fields -----------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "extra"),
    [
        pytest.param("replace", None, marks=pytest.mark.criterion("H1")),
        pytest.param("apply", "theirs", marks=pytest.mark.criterion("H2")),
        pytest.param("merge", "theirs", marks=pytest.mark.criterion("H3")),
    ],
)
async def test_fields_of_others_under_each_strategy(
    harness: TenancyHarness, strategy: str, extra: str | None
) -> None:
    await applied(harness, config_map("cm", NAME, {"k": "1"}, patchStrategy=strategy))
    await edit(harness, {"data": {"extra": "theirs"}})
    await applied(harness, config_map("cm", NAME, {"k": "2"}, patchStrategy=strategy))
    seen = await harness.eventually(lambda: live(harness), lambda seen: seen["data"]["k"] == "2")
    assert seen["data"].get("extra") == extra


@pytest.mark.criterion("I1")
@pytest.mark.criterion("I4")
@pytest.mark.parametrize("strategy", ["apply", "merge", "replace"])
async def test_an_ignored_key_keeps_its_live_value(harness: TenancyHarness, strategy: str) -> None:
    options: Manifest = {"patchStrategy": strategy, "ignoreFields": ["$.data.k", "$.data.none.x"]}
    await applied(harness, config_map("cm", NAME, {"k": "1", "o": "1"}, **options))
    await edit(harness, {"data": {"k": "live"}})
    await harness.idle()
    assert (await live(harness))["data"] == {"k": "live", "o": "1"}
    await applied(harness, config_map("cm", NAME, {"k": "2", "o": "2"}, **options))
    await data(harness, {"k": "live", "o": "2"})
    await edit(harness, {"data": {"o": "evil"}})
    await data(harness, {"k": "live", "o": "2"})
    await harness.idle()


@pytest.mark.criterion("S-F3")
async def test_an_object_that_has_too_much_to_keep_fails_by_itself(
    harness: TenancyHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(path_matches, "MOST_WORK", 30)
    kept = config_map("cm", NAME, {"k": "1"}, ignoreFields=["$.data.*"])
    await applied(harness, kept, OTHER)
    await edit(harness, {"data": {f"k{number}": "theirs" for number in range(60)}})
    await harness.template(configMaps=[{**kept, "labelsTemplate": {"new": "label"}}, OTHER])
    found = await harness.condition(TENANT, "Ready", "False")
    assert "cm (ignoreFields: the paths look at more than 30 values" in found.message
    tenant = await harness.tenant(TENANT)
    assert tenant is not None
    assert len(tenant.status.applied_resources) == 2


def deployment(image: str, **options: object) -> Manifest:
    labels = {"app": "{{ .uid }}"}
    containers = [
        {"name": name, "image": image, "resources": {"requests": {"cpu": "100m"}}}
        for name in ("main", "side")
    ]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}
    return {
        "id": "app",
        "nameTemplate": "{{ .uid }}-app",
        "waitForReady": False,
        "spec": manifest,
        **options,
    }


@pytest.mark.criterion("I2")
@pytest.mark.criterion("I3")
@pytest.mark.criterion("FAULT-B22")
async def test_replicas_and_resources_of_two_containers_stay_as_others_set_them(
    harness: TenancyHarness,
) -> None:
    ignored = ["$.spec.replicas", "$.spec.template.spec.containers[*].resources"]
    await harness.template(deployments=[deployment("nginx:1", ignoreFields=ignored)])
    await harness.ready(TENANT)
    operations = [
        {"op": "replace", "path": "/spec/replicas", "value": 7},
        *(
            {
                "op": "replace",
                "path": f"/spec/template/spec/containers/{place}/resources/requests/cpu",
                "value": cpu,
            }
            for place, cpu in enumerate(("300m", "500m"))
        ),
    ]
    await harness.client.patch(
        DEPLOYMENT,
        "a-app",
        operations,
        namespace=harness.namespace,
        type=PatchType.JSON,
        field_manager="scaler",
    )
    await harness.idle()
    await harness.template(deployments=[deployment("nginx:2", ignoreFields=ignored)])

    async def spec() -> Manifest:
        found = await harness.get(DEPLOYMENT, "a-app")
        assert found is not None
        made: Manifest = found["spec"]
        return made

    seen = await harness.eventually(
        spec, lambda seen: seen["template"]["spec"]["containers"][0]["image"] == "nginx:2"
    )
    requests = [item["resources"]["requests"] for item in seen["template"]["spec"]["containers"]]
    assert (seen["replicas"], requests) == (7, [{"cpu": "300m"}, {"cpu": "500m"}])
    await harness.condition(TENANT, "Conflicted", "False")
    await harness.idle()


@pytest.mark.criterion("I5")
async def test_once_has_nothing_to_ignore(harness: TenancyHarness) -> None:
    entry = {"creationPolicy": "Once", "ignoreFields": ["$.data.k"]}
    await applied(harness, config_map("cm", NAME, {"k": "1"}, **entry))
    await applied(harness, config_map("cm", NAME, {"k": "2"}, **entry), OTHER)
    assert (await live(harness))["data"] == {"k": "1"}


# -- other namespaces, and namespaces ------------------------------------------------------------


@pytest.mark.criterion("K1")
@pytest.mark.criterion("K2")
@pytest.mark.criterion("K3")
@pytest.mark.criterion("K4")
@pytest.mark.criterion("J4")
async def test_in_another_namespace_labels_and_the_finalizer_do_the_work(
    harness: TenancyHarness,
) -> None:
    far = harness.place("far-away")
    await harness.make_namespace(far)
    deleted = config_map("deleted", "{{ .uid }}-deleted", targetNamespace=far)
    await applied(harness, deleted, retained(targetNamespace=far), OTHER)
    metadata = (await live(harness, "a-deleted", far))["metadata"]
    assert not metadata.get("ownerReferences")
    assert metadata["labels"][f"{GROUP}/tenant"] == TENANT
    assert (await live(harness, "a-other"))["metadata"]["ownerReferences"]
    await remove_row(harness)
    await harness.gone(Tenant.mapping(), TENANT)
    assert await harness.get(CONFIG_MAP, "a-deleted", namespace=far) is None
    await harness.gone(CONFIG_MAP, "a-other")
    await is_orphan(harness, "TenantDeleted", place=far)


@pytest.mark.criterion("K5")
async def test_namespaces_are_resources_and_others_go_into_them(harness: TenancyHarness) -> None:
    name = harness.place("{{ .uid }}-space")
    space = {
        "id": "space",
        "nameTemplate": name,
        "spec": {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"labels": {"team": "core"}},
        },
    }
    inside = config_map("cm", "inside", targetNamespace=name, dependIds=["space"])
    await harness.template(namespaces=[space], configMaps=[inside])
    await harness.ready(TENANT)
    made = harness.place("a-space")
    metadata = (await harness.get(NAMESPACE_KIND, made) or {})["metadata"]
    assert metadata["labels"]["team"] == "core"
    assert metadata["labels"][f"{GROUP}/tenant"] == TENANT
    assert not metadata.get("ownerReferences")
    await live(harness, "inside", made)
    mark = harness.mark()
    await remove_row(harness)
    await harness.gone(Tenant.mapping(), TENANT)
    await harness.gone(NAMESPACE_KIND, made)
    deleted = [
        entry.name
        for entry in harness.environment.proxy.log.entries(mark)
        if (entry.user, entry.verb) == ("manager", "delete") and entry.name != TENANT
    ]
    assert deleted == ["inside", made]


# -- finalizers and the order of deletion --------------------------------------------------------


@pytest.mark.criterion("J1")
@pytest.mark.criterion("J5")
async def test_the_finalizer_keeps_a_tenant_until_its_resources_are_gone(
    harness: TenancyHarness,
) -> None:
    await applied(harness, config_map("cm", NAME))
    tenant = await harness.tenant(TENANT)
    assert tenant is not None
    assert FINALIZER in (tenant.metadata.finalizers or [])
    await edit(harness, {"metadata": {"finalizers": ["example.com/slow"]}})
    await remove_row(harness)
    await harness.eventually(
        lambda: live(harness), lambda seen: "deletionTimestamp" in seen["metadata"]
    )
    await harness.idle()
    tenant = await harness.tenant(TENANT)
    assert tenant is not None
    assert tenant.metadata.deletion_timestamp is not None
    await edit(harness, {"metadata": {"finalizers": None}})
    await harness.gone(Tenant.mapping(), TENANT)


@pytest.mark.criterion("J2")
@pytest.mark.criterion("FAULT-B30")
async def test_dependents_are_deleted_before_what_they_depend_on(harness: TenancyHarness) -> None:
    entries = [
        config_map("one", "{{ .uid }}-one"),
        config_map("two", "{{ .uid }}-two", dependIds=["one"]),
        config_map("three-a", "{{ .uid }}-three-a", dependIds=["two"]),
        config_map("three-b", "{{ .uid }}-three-b", dependIds=["two"]),
    ]
    await applied(harness, *entries)
    mark = harness.mark()
    await remove_row(harness)
    await harness.gone(Tenant.mapping(), TENANT)
    deleted = [
        entry.name
        for entry in harness.environment.proxy.log.entries(mark)
        if (entry.user, entry.verb, entry.resource) == ("manager", "delete", "configmaps")
    ]
    assert set(deleted[:2]) == {"a-three-a", "a-three-b"}
    assert deleted[2:] == ["a-two", "a-one"]


@pytest.mark.criterion("J3")
async def test_a_policy_that_turned_to_retain_saves_the_object(harness: TenancyHarness) -> None:
    await applied(harness, config_map("cm", NAME, {"k": "v"}))
    await harness.template(configMaps=[retained()])
    await harness.eventually(
        lambda: live(harness), lambda seen: not seen["metadata"].get("ownerReferences")
    )
    await harness.ready(TENANT)
    await remove_row(harness)
    await harness.gone(Tenant.mapping(), TENANT)
    await is_orphan(harness, "TenantDeleted")

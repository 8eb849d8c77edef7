"""Creation, deletion, patch strategy, ignored fields, other namespaces, orphans, finalizers (E-L)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.client.client import PatchType
from tests.tenancy.harness import (
    CONFIG_MAP,
    DEPLOYMENT,
    NAMESPACE_KIND,
    REGISTRY,
    World,
    config_map,
)

Manifest = dict[str, Any]

GROUP = "tenancy.ctrlruntime.dev"
FINALIZER = f"{GROUP}/finalizer"
TENANT = "a-web-app"
NAME = "{{ .uid }}-cm"
OTHER = config_map("other", "{{ .uid }}-other")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with World.start(tmp_path) as world:
        world.rows("a")
        await world.registry()
        yield world


async def live(world: World, name: str = "a-cm", namespace: str | None = None) -> Manifest:
    found = await world.get(CONFIG_MAP, name, namespace=namespace)
    assert found is not None
    return found


async def data(world: World, wanted: dict[str, str], name: str = "a-cm") -> None:
    """Wait until a ConfigMap says this."""
    await world.eventually(lambda: live(world, name), lambda seen: seen["data"] == wanted)


async def edit(world: World, patch: Manifest, name: str = "a-cm") -> None:
    """`kubectl edit`."""
    await world.client.patch(
        CONFIG_MAP,
        name,
        patch,
        namespace=world.namespace,
        type=PatchType.MERGE,
        field_manager="kubectl-edit",
    )


async def applied(world: World, *entries: Manifest) -> None:
    """The template with these ConfigMaps, ready."""
    await world.template(configMaps=[*entries])
    await world.eventually(
        lambda: world.tenant(TENANT),
        lambda tenant: (
            tenant is not None
            and {item.id: item.spec for item in tenant.spec.config_maps}
            == {item["id"]: item["spec"] for item in entries}
        ),
    )
    await world.ready(TENANT)


async def remove_row(world: World) -> None:
    """The row turns inactive, among enough others for the guard."""
    world.rows("b", "c", "d", "e", "f", "g")
    await world.ready("g-web-app")
    world.row("a", active=0)


async def is_orphan(
    world: World, reason: str, name: str = "a-cm", place: str | None = None
) -> None:
    """Wait for the orphan's marks; nothing that ties it to a tenant is left."""
    seen = await world.eventually(
        lambda: live(world, name, place),
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
    world: World,
) -> None:
    await applied(world, config_map("cm", NAME, {"k": "1"}, creationPolicy="Once"))
    await edit(world, {"data": {"k": "edited"}})
    await applied(world, config_map("cm", NAME, {"k": "2"}, creationPolicy="Once"), OTHER)
    await world.idle()
    seen = await live(world)
    assert seen["data"] == {"k": "edited"}
    assert seen["metadata"]["annotations"][f"{GROUP}/created-once"] == "true"
    await world.client.delete(CONFIG_MAP, "a-cm", namespace=world.namespace)
    await world.eventually(lambda: world.get(CONFIG_MAP, "a-cm"))
    await data(world, {"k": "2"})


@pytest.mark.criterion("E2")
async def test_when_needed_follows_template_and_row(world: World) -> None:
    await applied(world, config_map("cm", NAME, {"k": "{{ .planId }}"}))
    await data(world, {"k": "basic"})
    world.row("a", plan="gold")
    await data(world, {"k": "gold"})
    await applied(world, config_map("cm", NAME, {"k": "{{ .planId }}!"}))
    await data(world, {"k": "gold!"})


# -- deletion ------------------------------------------------------------------------------


@pytest.mark.criterion("F1")
async def test_delete_ties_by_an_owner_reference(world: World) -> None:
    await applied(world, config_map("cm", NAME))
    tenant = await world.tenant(TENANT)
    assert tenant is not None
    metadata = (await live(world))["metadata"]
    (reference,) = metadata["ownerReferences"]
    assert (reference["uid"], reference["controller"]) == (tenant.metadata.uid, True)
    assert f"{GROUP}/tenant" not in metadata.get("labels", {})
    await remove_row(world)
    await world.gone(CONFIG_MAP, "a-cm")


@pytest.mark.criterion("F2")
@pytest.mark.criterion("C4")
async def test_retain_ties_by_labels_and_survives_its_row(world: World) -> None:
    await applied(world, retained())
    metadata = (await live(world))["metadata"]
    assert not metadata.get("ownerReferences")
    assert metadata["labels"][f"{GROUP}/tenant"] == TENANT
    assert metadata["labels"][f"{GROUP}/tenant-namespace"] == world.namespace
    await remove_row(world)
    await world.gone(Tenant.mapping(), TENANT)
    await is_orphan(world, "TenantDeleted")


@pytest.mark.criterion("F3")
@pytest.mark.criterion("F4")
@pytest.mark.parametrize("gone", ["template", "registry"])
async def test_retain_survives_template_and_registry_and_is_adopted_again(
    world: World, gone: str
) -> None:
    await applied(world, retained("1"))
    before = await live(world)
    kind = TenantTemplate.mapping() if gone == "template" else TenantRegistry.mapping()
    name = "web-app" if gone == "template" else REGISTRY
    approval = {"metadata": {"annotations": {f"{GROUP}/approve-deletion": "true"}}}
    await world.client.patch(kind, name, approval, namespace=world.namespace, type=PatchType.MERGE)
    await world.client.delete(kind, name, namespace=world.namespace)
    await world.gone(Tenant.mapping(), TENANT)
    await is_orphan(world, "TenantDeleted")
    if gone == "registry":
        await world.gone(TenantRegistry.mapping(), REGISTRY)
        await world.registry()
    await applied(world, retained("2"))
    after = await live(world)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["data"] == {"k": "2"}
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert f"{GROUP}/orphaned-at" not in after["metadata"]["annotations"]
    assert f"{GROUP}/orphaned-reason" not in after["metadata"]["annotations"]


@pytest.mark.criterion("L1")
@pytest.mark.criterion("L4")
async def test_what_leaves_the_template_is_deleted_and_leaves_the_status(world: World) -> None:
    await applied(world, config_map("cm", NAME), OTHER)
    tenant = await world.tenant(TENANT)
    assert tenant is not None
    keys = [f"ConfigMap/{world.namespace}/a-{name}@{name}" for name in ("cm", "other")]
    assert tenant.status.applied_resources == keys
    await applied(world, OTHER)
    await world.gone(CONFIG_MAP, "a-cm")
    await world.eventually(
        lambda: world.tenant(TENANT), lambda t: t.status.applied_resources == keys[1:]
    )


@pytest.mark.criterion("L2")
@pytest.mark.criterion("L3")
@pytest.mark.parametrize("creation", ["WhenNeeded", "Once"])
@pytest.mark.criterion("FAULT-B24")
async def test_what_is_retained_is_marked_and_adopted_again(world: World, creation: str) -> None:
    await applied(world, retained("1", creationPolicy=creation), OTHER)
    before = await live(world)
    await applied(world, OTHER)
    await is_orphan(world, "RemovedFromTemplate")
    await edit(world, {"data": {"k": "edited"}})
    await applied(world, retained("2", creationPolicy=creation), OTHER)
    await world.idle()
    after = await live(world)
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
    world: World, strategy: str, extra: str | None
) -> None:
    await applied(world, config_map("cm", NAME, {"k": "1"}, patchStrategy=strategy))
    await edit(world, {"data": {"extra": "theirs"}})
    await applied(world, config_map("cm", NAME, {"k": "2"}, patchStrategy=strategy))
    seen = await world.eventually(lambda: live(world), lambda seen: seen["data"]["k"] == "2")
    assert seen["data"].get("extra") == extra


@pytest.mark.criterion("I1")
@pytest.mark.criterion("I4")
@pytest.mark.parametrize("strategy", ["apply", "merge", "replace"])
async def test_an_ignored_key_keeps_its_live_value(world: World, strategy: str) -> None:
    options: Manifest = {"patchStrategy": strategy, "ignoreFields": ["$.data.k", "$.data.none.x"]}
    await applied(world, config_map("cm", NAME, {"k": "1", "o": "1"}, **options))
    await edit(world, {"data": {"k": "live"}})
    await world.idle()
    assert (await live(world))["data"] == {"k": "live", "o": "1"}
    await applied(world, config_map("cm", NAME, {"k": "2", "o": "2"}, **options))
    await data(world, {"k": "live", "o": "2"})
    await edit(world, {"data": {"o": "evil"}})
    await data(world, {"k": "live", "o": "2"})
    await world.idle()


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
    world: World,
) -> None:
    ignored = ["$.spec.replicas", "$.spec.template.spec.containers[*].resources"]
    await world.template(deployments=[deployment("nginx:1", ignoreFields=ignored)])
    await world.ready(TENANT)
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
    await world.client.patch(
        DEPLOYMENT,
        "a-app",
        operations,
        namespace=world.namespace,
        type=PatchType.JSON,
        field_manager="scaler",
    )
    await world.idle()
    await world.template(deployments=[deployment("nginx:2", ignoreFields=ignored)])

    async def spec() -> Manifest:
        found = await world.get(DEPLOYMENT, "a-app")
        assert found is not None
        made: Manifest = found["spec"]
        return made

    seen = await world.eventually(
        spec, lambda seen: seen["template"]["spec"]["containers"][0]["image"] == "nginx:2"
    )
    requests = [item["resources"]["requests"] for item in seen["template"]["spec"]["containers"]]
    assert (seen["replicas"], requests) == (7, [{"cpu": "300m"}, {"cpu": "500m"}])
    await world.condition(TENANT, "Conflicted", "False")
    await world.idle()


@pytest.mark.criterion("I5")
async def test_once_has_nothing_to_ignore(world: World) -> None:
    entry = {"creationPolicy": "Once", "ignoreFields": ["$.data.k"]}
    await applied(world, config_map("cm", NAME, {"k": "1"}, **entry))
    await applied(world, config_map("cm", NAME, {"k": "2"}, **entry), OTHER)
    assert (await live(world))["data"] == {"k": "1"}


# -- other namespaces, and namespaces ------------------------------------------------------------


@pytest.mark.criterion("K1")
@pytest.mark.criterion("K2")
@pytest.mark.criterion("K3")
@pytest.mark.criterion("K4")
@pytest.mark.criterion("J4")
async def test_in_another_namespace_labels_and_the_finalizer_do_the_work(world: World) -> None:
    far = world.place("far-away")
    await world.make_namespace(far)
    deleted = config_map("deleted", "{{ .uid }}-deleted", targetNamespace=far)
    await applied(world, deleted, retained(targetNamespace=far), OTHER)
    metadata = (await live(world, "a-deleted", far))["metadata"]
    assert not metadata.get("ownerReferences")
    assert metadata["labels"][f"{GROUP}/tenant"] == TENANT
    assert (await live(world, "a-other"))["metadata"]["ownerReferences"]
    await remove_row(world)
    await world.gone(Tenant.mapping(), TENANT)
    assert await world.get(CONFIG_MAP, "a-deleted", namespace=far) is None
    await world.gone(CONFIG_MAP, "a-other")
    await is_orphan(world, "TenantDeleted", place=far)


@pytest.mark.criterion("K5")
async def test_namespaces_are_resources_and_others_go_into_them(world: World) -> None:
    name = world.place("{{ .uid }}-space")
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
    await world.template(namespaces=[space], configMaps=[inside])
    await world.ready(TENANT)
    made = world.place("a-space")
    metadata = (await world.get(NAMESPACE_KIND, made) or {})["metadata"]
    assert metadata["labels"]["team"] == "core"
    assert metadata["labels"][f"{GROUP}/tenant"] == TENANT
    assert not metadata.get("ownerReferences")
    await live(world, "inside", made)
    mark = world.mark()
    await remove_row(world)
    await world.gone(Tenant.mapping(), TENANT)
    await world.gone(NAMESPACE_KIND, made)
    deleted = [
        entry.name
        for entry in world.environment.proxy.log.entries(mark)
        if (entry.user, entry.verb) == ("manager", "delete") and entry.name != TENANT
    ]
    assert deleted == ["inside", made]


# -- finalizers and the order of deletion --------------------------------------------------------


@pytest.mark.criterion("J1")
@pytest.mark.criterion("J5")
async def test_the_finalizer_keeps_a_tenant_until_its_resources_are_gone(world: World) -> None:
    await applied(world, config_map("cm", NAME))
    tenant = await world.tenant(TENANT)
    assert tenant is not None
    assert FINALIZER in (tenant.metadata.finalizers or [])
    await edit(world, {"metadata": {"finalizers": ["example.com/slow"]}})
    await remove_row(world)
    await world.eventually(
        lambda: live(world), lambda seen: "deletionTimestamp" in seen["metadata"]
    )
    await world.idle()
    tenant = await world.tenant(TENANT)
    assert tenant is not None
    assert tenant.metadata.deletion_timestamp is not None
    await edit(world, {"metadata": {"finalizers": None}})
    await world.gone(Tenant.mapping(), TENANT)


@pytest.mark.criterion("J2")
@pytest.mark.criterion("FAULT-B30")
async def test_dependents_are_deleted_before_what_they_depend_on(world: World) -> None:
    entries = [
        config_map("one", "{{ .uid }}-one"),
        config_map("two", "{{ .uid }}-two", dependIds=["one"]),
        config_map("three-a", "{{ .uid }}-three-a", dependIds=["two"]),
        config_map("three-b", "{{ .uid }}-three-b", dependIds=["two"]),
    ]
    await applied(world, *entries)
    mark = world.mark()
    await remove_row(world)
    await world.gone(Tenant.mapping(), TENANT)
    deleted = [
        entry.name
        for entry in world.environment.proxy.log.entries(mark)
        if (entry.user, entry.verb, entry.resource) == ("manager", "delete", "configmaps")
    ]
    assert set(deleted[:2]) == {"a-three-a", "a-three-b"}
    assert deleted[2:] == ["a-two", "a-one"]


@pytest.mark.criterion("J3")
async def test_a_policy_that_turned_to_retain_saves_the_object(world: World) -> None:
    await applied(world, config_map("cm", NAME, {"k": "v"}))
    await world.template(configMaps=[retained()])
    await world.eventually(
        lambda: live(world), lambda seen: not seen["metadata"].get("ownerReferences")
    )
    await world.ready(TENANT)
    await remove_row(world)
    await world.gone(Tenant.mapping(), TENANT)
    await is_orphan(world, "TenantDeleted")

"""An object that is not ours is never changed or deleted, and the tenant says whose it is (G)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.client.client import PatchType
from ctrlruntime.envtest.proxy import Mark, Match
from ctrlruntime.envtest.proxy.requests import WRITES
from ctrlruntime.envtest.proxy.rules import ActiveRule, Delay
from tests.tenancy.harness import CONFIG_MAP, DEPLOYMENT, World, config_map

pytestmark = pytest.mark.criterion("ownership")

Manifest = dict[str, Any]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with World.start(tmp_path) as world:
        world.rows("a")
        await world.registry()
        yield world


async def make(world: World, name: str = "a-cm", **metadata: object) -> Manifest:
    """Somebody's ConfigMap."""
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": world.namespace, **metadata},
        "data": {"k": "theirs"},
    }
    made: Manifest = await world.client.create(manifest, field_manager="somebody")
    return made


async def conflict(world: World, tenant: str = "a-web-app") -> str:
    """The message of the tenant's conflict, once there is one."""
    condition = await world.condition(tenant, "Conflicted", "True", "ResourceConflict")
    return condition.message


def touching(world: World, mark: Mark, name: str) -> list[str]:
    """What the manager wrote to objects of that name, successfully or not."""
    entries = world.environment.proxy.log.entries(mark)
    return [
        f"{entry.verb} {entry.code}"
        for entry in entries
        if entry.user == "manager" and entry.verb in WRITES and entry.name == name
    ]


async def live(world: World, name: str = "a-cm") -> Manifest:
    found = await world.get(CONFIG_MAP, name)
    assert found is not None
    return found


async def is_held(rule: ActiveRule) -> bool:
    """Whether the manager's request is under way, and waits in the proxy."""
    return rule.fired > 0


STUCK = config_map("cm", "{{ .uid }}-cm", {"k": "ours"})
FORCED = config_map("cm", "{{ .uid }}-cm", {"k": "ours"}, conflictPolicy="Force")
OTHER = config_map("other", "{{ .uid }}-other")


@pytest.mark.criterion("G1")
@pytest.mark.parametrize("policy", ["Delete", "Retain"])
@pytest.mark.parametrize("strategy", ["apply", "merge", "replace"])
@pytest.mark.criterion("FAULT-B3")
async def test_a_foreign_object_survives_the_tenant_the_template_entry_and_the_row(
    world: World, policy: str, strategy: str
) -> None:
    theirs = await make(world)
    entry = {**STUCK, "deletionPolicy": policy, "patchStrategy": strategy}
    await world.template(configMaps=[entry, OTHER])
    assert "cm (it belongs to nobody recorded)" in await conflict(world)
    assert await live(world) == theirs
    await world.template(configMaps=[OTHER])
    await world.ready("a-web-app")
    assert await live(world) == theirs
    await world.template(configMaps=[entry, OTHER])
    await conflict(world)
    world.rows("b", "c", "d", "e", "f", "g")
    world.row("a", active=0)
    await world.gone(Tenant.mapping(), "a-web-app")
    assert await live(world) == theirs


@pytest.mark.criterion("FAULT-B3")
async def test_a_foreign_object_survives_the_end_of_tenant_and_template(world: World) -> None:
    theirs = await make(world)
    await world.template(configMaps=[STUCK])
    await conflict(world)
    first = await world.tenant("a-web-app")
    assert first is not None
    await world.client.delete(Tenant, "a-web-app", namespace=world.namespace)
    await world.eventually(
        lambda: world.tenant("a-web-app"),
        lambda seen: seen is not None and seen.metadata.uid != first.metadata.uid,
    )
    await conflict(world)
    await world.client.delete(TenantTemplate, "web-app", namespace=world.namespace)
    await world.registry_condition("DeletionsHeld", "True", "TemplateGone")
    approval = {"metadata": {"annotations": {"tenancy.ctrlruntime.dev/allow-delete": "1"}}}
    await world.client.patch(
        TenantRegistry.mapping(),
        "registry",
        approval,
        namespace=world.namespace,
        type=PatchType.MERGE,
    )
    await world.gone(Tenant.mapping(), "a-web-app")
    assert await live(world) == theirs


async def test_a_foreign_object_with_a_controller_is_named_by_it(world: World) -> None:
    owner = await make(world, "controller")
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "controller",
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    await make(world, ownerReferences=[reference])
    await world.template(configMaps=[STUCK])
    assert "it belongs to ConfigMap 'controller'" in await conflict(world)


@pytest.mark.criterion("G3")
async def test_a_conflict_ends_by_itself_when_the_foreign_object_goes(world: World) -> None:
    await make(world)
    await world.template(configMaps=[STUCK])
    await conflict(world)
    degraded = await world.condition("a-web-app", "Degraded", "True")
    assert degraded.reason == "ResourceConflicts"
    await world.idle()
    await world.client.delete(CONFIG_MAP, "a-cm", namespace=world.namespace)
    await world.ready("a-web-app")
    await world.condition("a-web-app", "Conflicted", "False", "NoConflict")
    assert (await live(world))["data"] == {"k": "ours"}


@pytest.mark.criterion("G2")
@pytest.mark.parametrize("strategy", ["apply", "merge", "replace"])
async def test_force_takes_a_foreign_object_over(world: World, strategy: str) -> None:
    theirs = await make(world)
    await world.template(configMaps=[{**FORCED, "patchStrategy": strategy}])
    await world.ready("a-web-app")
    taken = await live(world)
    assert taken["metadata"]["uid"] == theirs["metadata"]["uid"]
    assert taken["data"] == {"k": "ours"}
    await world.idle()


@pytest.mark.parametrize("policy", ["Stuck", "Force"])
async def test_of_two_tenants_that_want_one_object_the_first_keeps_it(
    world: World, policy: str
) -> None:
    shared = config_map("cm", "shared", {"k": "{{ .uid }}"}, conflictPolicy=policy)
    await world.template(configMaps=[shared])
    await world.ready("a-web-app")
    world.rows("b")
    message = await conflict(world, "b-web-app")
    assert "a-web-app" in message
    assert (await live(world, "shared"))["data"] == {"k": "a"}
    mark = world.mark()
    await world.idle(within=1.0)
    assert touching(world, mark, "shared") == []
    world.rows("c", "d", "e", "f", "g", "h")
    world.row("a", active=0)
    await world.gone(Tenant.mapping(), "a-web-app")
    found = await world.eventually(
        lambda: world.get(CONFIG_MAP, "shared"), lambda seen: seen and seen["data"]["k"] != "a"
    )
    await world.ready(f"{found['data']['k']}-web-app")


async def test_a_new_revision_that_meets_a_field_of_others_names_manager_and_field(
    world: World,
) -> None:
    def app(**spec: object) -> Manifest:
        labels = {"app": "a"}
        containers = [{"name": "main", "image": "nginx:1"}]
        return {
            "id": "app",
            "nameTemplate": "{{ .uid }}-app",
            "waitForReady": False,
            "spec": {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "spec": {
                    "selector": {"matchLabels": labels},
                    "template": {
                        "metadata": {"labels": labels},
                        "spec": {"containers": containers},
                    },
                    **spec,
                },
            },
        }

    await world.template(deployments=[app()])
    await world.ready("a-web-app")
    await world.client.patch(
        DEPLOYMENT,
        "a-app",
        {"spec": {"replicas": 5}},
        namespace=world.namespace,
        type=PatchType.MERGE,
        field_manager="an-autoscaler",
    )
    await world.idle()
    await world.template(deployments=[app(replicas=1)])
    message = await conflict(world)
    assert "an-autoscaler" in message
    assert ".spec.replicas" in message
    deployment = await world.get(DEPLOYMENT, "a-app")
    assert deployment is not None
    assert deployment["spec"]["replicas"] == 5
    await world.template(deployments=[{**app(replicas=1), "conflictPolicy": "Force"}])
    await world.ready("a-web-app")
    deployment = await world.get(DEPLOYMENT, "a-app")
    assert deployment is not None
    assert deployment["spec"]["replicas"] == 1


async def test_an_object_that_took_the_place_of_ours_just_before_our_delete_survives(
    world: World,
) -> None:
    await world.template(configMaps=[STUCK, OTHER])
    await world.ready("a-web-app")
    await world.idle()
    held = world.environment.proxy.add(Delay(1.0), Match(verb="delete", resource="configmaps"))
    await world.template(configMaps=[OTHER])
    await world.eventually(lambda: is_held(held))
    await world.client.delete(CONFIG_MAP, "a-cm", namespace=world.namespace)
    theirs = await make(world)
    await world.idle()
    assert await live(world) == theirs


async def test_an_object_that_took_the_place_of_ours_just_before_our_write_survives(
    world: World,
) -> None:
    await world.template(configMaps=[STUCK])
    await world.ready("a-web-app")
    await world.idle()
    held = world.environment.proxy.add(Delay(1.0), Match(verb="apply", resource="configmaps"))
    await world.template(configMaps=[config_map("cm", "{{ .uid }}-cm", {"k": "newer"})])
    await world.eventually(lambda: is_held(held))
    await world.client.delete(CONFIG_MAP, "a-cm", namespace=world.namespace)
    theirs = await make(world)
    await conflict(world)
    assert await live(world) == theirs


async def test_a_copy_of_our_object_under_another_name_is_left_alone(world: World) -> None:
    """`kubectl get -o yaml`, another name, `kubectl create`: it carries our marks and is not ours."""
    await world.template(configMaps=[STUCK])
    await world.ready("a-web-app")
    original = await live(world)
    marks = {name: original["metadata"][name] for name in ("annotations", "ownerReferences")}
    copy = await make(world, "a-copy", **marks)
    await world.idle()
    assert await live(world, "a-copy") == copy

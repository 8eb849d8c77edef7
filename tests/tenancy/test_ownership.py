"""An object that is not ours is never changed or deleted, and the tenant says whose it is (G)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from apis.tenancy import Tenant, TenantTemplate
from ctrlruntime.client.client import PatchType
from ctrlruntime.envtest.proxy import Mark, Match
from ctrlruntime.envtest.proxy.requests import WRITES
from ctrlruntime.envtest.proxy.rules import ActiveRule, Delay
from ctrlruntime.resources.ownership import UNRECORDED
from tests.tenancy.harness import CONFIG_MAP, DEPLOYMENT, TenancyHarness, config_map

pytestmark = pytest.mark.criterion("ownership")

Manifest = dict[str, Any]


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[TenancyHarness]:
    async with TenancyHarness.start(tmp_path) as harness:
        harness.rows("a")
        await harness.registry()
        yield harness


async def make(harness: TenancyHarness, name: str = "a-cm", **metadata: object) -> Manifest:
    """Somebody's ConfigMap."""
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": harness.namespace, **metadata},
        "data": {"k": "theirs"},
    }
    made: Manifest = await harness.client.create(manifest, field_manager="somebody")
    return made


async def conflict(harness: TenancyHarness, tenant: str = "a-web-app") -> str:
    """The message of the tenant's conflict, once there is one."""
    condition = await harness.condition(tenant, "Conflicted", "True", "ResourceConflict")
    return condition.message


def touching(harness: TenancyHarness, mark: Mark, name: str) -> list[str]:
    """What the manager wrote to objects of that name, successfully or not."""
    entries = harness.environment.proxy.log.entries(mark)
    return [
        f"{entry.verb} {entry.code}"
        for entry in entries
        if entry.user == "manager" and entry.verb in WRITES and entry.name == name
    ]


async def live(harness: TenancyHarness, name: str = "a-cm") -> Manifest:
    found = await harness.get(CONFIG_MAP, name)
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
    harness: TenancyHarness, policy: str, strategy: str
) -> None:
    theirs = await make(harness)
    entry = {**STUCK, "deletionPolicy": policy, "patchStrategy": strategy}
    await harness.template(configMaps=[entry, OTHER])
    assert f"cm (it belongs to {UNRECORDED})" in await conflict(harness)
    assert await live(harness) == theirs
    await harness.template(configMaps=[OTHER])
    await harness.ready("a-web-app")
    assert await live(harness) == theirs
    await harness.template(configMaps=[entry, OTHER])
    await conflict(harness)
    harness.rows("b", "c", "d", "e", "f", "g")
    harness.row("a", active=0)
    await harness.gone(Tenant.mapping(), "a-web-app")
    assert await live(harness) == theirs


@pytest.mark.criterion("FAULT-B3")
async def test_a_foreign_object_survives_the_end_of_tenant_and_template(
    harness: TenancyHarness,
) -> None:
    theirs = await make(harness)
    await harness.template(configMaps=[STUCK])
    await conflict(harness)
    first = await harness.tenant("a-web-app")
    assert first is not None
    await harness.client.delete(Tenant, "a-web-app", namespace=harness.namespace)
    await harness.eventually(
        lambda: harness.tenant("a-web-app"),
        lambda seen: seen is not None and seen.metadata.uid != first.metadata.uid,
    )
    await conflict(harness)
    await harness.client.delete(TenantTemplate, "web-app", namespace=harness.namespace)
    await harness.approve("TemplateGone", message="Held: a-web-app")
    await harness.gone(Tenant.mapping(), "a-web-app")
    assert await live(harness) == theirs


async def test_a_foreign_object_with_a_controller_is_named_by_it(harness: TenancyHarness) -> None:
    owner = await make(harness, "controller")
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "controller",
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    await make(harness, ownerReferences=[reference])
    await harness.template(configMaps=[STUCK])
    assert "it belongs to ConfigMap 'controller'" in await conflict(harness)


@pytest.mark.criterion("G3")
async def test_a_conflict_ends_by_itself_when_the_foreign_object_goes(
    harness: TenancyHarness,
) -> None:
    await make(harness)
    await harness.template(configMaps=[STUCK])
    await conflict(harness)
    degraded = await harness.condition("a-web-app", "Degraded", "True")
    assert degraded.reason == "ResourceConflicts"
    await harness.idle()
    await harness.client.delete(CONFIG_MAP, "a-cm", namespace=harness.namespace)
    await harness.ready("a-web-app")
    await harness.condition("a-web-app", "Conflicted", "False", "NoConflict")
    assert (await live(harness))["data"] == {"k": "ours"}


@pytest.mark.criterion("G2")
@pytest.mark.parametrize("strategy", ["apply", "merge", "replace"])
async def test_force_takes_a_foreign_object_over(harness: TenancyHarness, strategy: str) -> None:
    theirs = await make(harness)
    await harness.template(configMaps=[{**FORCED, "patchStrategy": strategy}])
    await harness.ready("a-web-app")
    taken = await live(harness)
    assert taken["metadata"]["uid"] == theirs["metadata"]["uid"]
    assert taken["data"] == {"k": "ours"}
    await harness.idle()


@pytest.mark.parametrize("policy", ["Stuck", "Force"])
async def test_of_two_tenants_that_want_one_object_the_first_keeps_it(
    harness: TenancyHarness, policy: str
) -> None:
    shared = config_map("cm", "shared", {"k": "{{ .uid }}"}, conflictPolicy=policy)
    await harness.template(configMaps=[shared])
    await harness.ready("a-web-app")
    harness.rows("b")
    message = await conflict(harness, "b-web-app")
    assert "a-web-app" in message
    assert (await live(harness, "shared"))["data"] == {"k": "a"}
    mark = harness.mark()
    await harness.idle(within=1.0)
    assert touching(harness, mark, "shared") == []
    harness.rows("c", "d", "e", "f", "g", "h")
    harness.row("a", active=0)
    await harness.gone(Tenant.mapping(), "a-web-app")
    found = await harness.eventually(
        lambda: harness.get(CONFIG_MAP, "shared"), lambda seen: seen and seen["data"]["k"] != "a"
    )
    await harness.ready(f"{found['data']['k']}-web-app")


async def test_a_new_revision_that_meets_a_field_of_others_names_manager_and_field(
    harness: TenancyHarness,
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

    await harness.template(deployments=[app()])
    await harness.ready("a-web-app")
    await harness.client.patch(
        DEPLOYMENT,
        "a-app",
        {"spec": {"replicas": 5}},
        namespace=harness.namespace,
        type=PatchType.MERGE,
        field_manager="an-autoscaler",
    )
    await harness.idle()
    await harness.template(deployments=[app(replicas=1)])
    message = await conflict(harness)
    assert "an-autoscaler" in message
    assert ".spec.replicas" in message
    deployment = await harness.get(DEPLOYMENT, "a-app")
    assert deployment is not None
    assert deployment["spec"]["replicas"] == 5
    await harness.template(deployments=[{**app(replicas=1), "conflictPolicy": "Force"}])
    await harness.ready("a-web-app")
    deployment = await harness.get(DEPLOYMENT, "a-app")
    assert deployment is not None
    assert deployment["spec"]["replicas"] == 1


@pytest.mark.parametrize("verb", ["delete", "apply"])
async def test_an_object_that_took_the_place_of_ours_just_before_our_request_survives(
    harness: TenancyHarness, verb: str
) -> None:
    await harness.template(configMaps=[STUCK, OTHER])
    await harness.ready("a-web-app")
    await harness.idle()
    held = harness.environment.proxy.add(Delay(1.0), Match(verb=verb, resource="configmaps"))
    newer = [config_map("cm", "{{ .uid }}-cm", {"k": "newer"})] if verb == "apply" else []
    await harness.template(configMaps=[*newer, OTHER])
    await harness.eventually(lambda: is_held(held))
    await harness.client.delete(CONFIG_MAP, "a-cm", namespace=harness.namespace)
    theirs = await make(harness)
    await (conflict if newer else TenancyHarness.idle)(harness)
    assert await live(harness) == theirs


async def test_a_copy_of_our_object_under_another_name_is_left_alone(
    harness: TenancyHarness,
) -> None:
    """`kubectl get -o yaml`, another name, `kubectl create`: it carries our marks and is not ours."""
    await harness.template(configMaps=[STUCK])
    await harness.ready("a-web-app")
    original = await live(harness)
    marks = {name: original["metadata"][name] for name in ("annotations", "ownerReferences")}
    copy = await make(harness, "a-copy", **marks)
    await harness.idle()
    assert await live(harness, "a-copy") == copy

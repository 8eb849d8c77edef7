"""The operator binds the rights of stacks: to read on the hub, and to write in the namespaces labelled for them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from apis.fleet.labels import PARALLEL_PREFIX
from ctrlruntime.client.errors import NotFound
from ctrlruntime.resources import OWNER
from internal.fleet.stack_bindings import (
    CLUSTER_ROLE_BINDING,
    READER,
    RECORDER,
    ROLE_BINDING,
    SECRET_READER,
    WRITER,
    stacks_in,
)
from internal.fleet.stack_builder import DEPLOYMENT

from .harness import NAMESPACE, SCALE, DataPlane, Hub, deployed, eventually, namespace, planes

ACCOUNT = "fleet-stack"


async def bound(hub: Hub) -> set[str]:
    """All bindings: whose account has which role where."""
    found: set[str] = set()
    for mapping in (CLUSTER_ROLE_BINDING, ROLE_BINDING):
        for item in await hub.client.list(mapping):
            place = item["metadata"].get("namespace", "*")
            subjects = [each for each in item.get("subjects", ()) if each["name"] == ACCOUNT]
            for each in subjects:
                found.add(f"{each['namespace']} {item['roleRef']['name']} {place}")
    return found


async def expect_bound(hub: Hub, *wanted: str) -> None:
    """Wait until these bindings are there, and no other."""

    async def holds() -> bool:
        return await bound(hub) == set(wanted)

    await eventually(holds, lambda: bound(hub))


async def parallel(hub: Hub, name: str, *stacks: str, value: str | None = "true") -> None:
    """Label a namespace for stacks; make it if it is not there."""
    labels = {f"{PARALLEL_PREFIX}{each}": value for each in stacks}
    try:
        await hub.client.patch(NAMESPACE, name, {"metadata": {"labels": labels}})
    except NotFound:
        await hub.client.create(namespace(name, **{k: str(v) for k, v in labels.items()}))


def reads(name: str) -> set[str]:
    """What a stack may read on the hub, by default."""
    return {f"{name} {READER} *", secrets(name, name), records(name)}


def records(name: str) -> str:
    """What a stack may write in its own namespace."""
    return f"{name} {RECORDER} {name}"


def secrets(name: str, place: str) -> str:
    return f"{name} {SECRET_READER} {place}"


def writes(name: str, place: str) -> str:
    return f"{name} {WRITER} {place}"


def grants(name: str, place: str) -> set[str]:
    """What a stack has in a parallel namespace, by default."""
    return {writes(name, place), secrets(name, place)}


BOUND = {*reads("east"), *grants("east", "acme")}
"""What the stack of east has once it is deployed."""


@dataclass
class Scene:
    """Scale mode with the data plane east, whose stack may write in acme; the operator does not run yet."""

    hub: Hub
    east: DataPlane

    @contextlib.asynccontextmanager
    async def bound(self) -> AsyncIterator[Hub]:
        """Run the operator with the stack deployed and its rights bound."""
        async with self.hub.operator():
            await deployed(self.hub, east=self.east)
            await expect_bound(self.hub, *BOUND)
            yield self.hub


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with Hub.running() as hub, planes(1) as (east,):
        await hub.configure(**SCALE)
        await parallel(hub, "acme", "east")
        yield Scene(hub, east)


async def test_rights_are_bound_to_the_account_in_labelled_namespaces_alone(scene: Scene) -> None:
    hub = scene.hub
    async with planes(1) as (west,), hub.operator():
        await parallel(hub, "both", "east", "west")
        await parallel(hub, "mistyped", "east", value="yes")
        await hub.client.create(namespace("unlabelled"))
        await deployed(hub, east=scene.east, west=west)
        await expect_bound(
            hub, *BOUND, *reads("west"), *grants("east", "both"), *grants("west", "both")
        )


async def test_a_label_that_comes_or_goes_later_is_followed(scene: Scene) -> None:
    async with scene.bound() as hub:
        await parallel(hub, "acme", "east", value=None)
        await expect_bound(hub, *reads("east"))
        await parallel(hub, "acme", "east")
        await expect_bound(hub, *BOUND)
        await hub.until(east="SuccessfulDeployment")


async def test_a_label_that_goes_takes_rights_away_whatever_the_kubeconfig_is_like(
    scene: Scene,
) -> None:
    async with scene.bound() as hub:
        await hub.write_secret("east", "{")
        await hub.until(east="KubeconfigInvalid")
        await parallel(hub, "acme", "east", value=None)
        await expect_bound(hub, *reads("east"))


async def test_without_a_data_plane_that_was_proved_nothing_is_bound(scene: Scene) -> None:
    hub = scene.hub
    async with hub.operator():
        await hub.add("east", None)
        await hub.until(east="KubeconfigSecretMissing")
        assert await bound(hub) == set()


async def test_teardown_takes_all_rights_away_and_leaves_those_of_others(scene: Scene) -> None:
    async with planes(1) as (west,), scene.bound() as hub:
        await parallel(hub, "acme", "west")
        await hub.add("west", west)
        await hub.run_stack("west", west)
        await hub.client.create(binding("by-hand", "acme", "east"))
        everything = {*reads("west"), *grants("west", "acme"), "east view acme"}
        await expect_bound(hub, *BOUND, *everything)
        await hub.label("east", None)
        await hub.until_torn_down("east")
        assert await bound(hub) == everything


async def test_bindings_without_their_labels_are_removed_by_a_teardown_too(scene: Scene) -> None:
    async with scene.bound() as hub:
        pass
    patch = {"metadata": {"labels": None}}
    await hub.client.patch(ROLE_BINDING, "fleet-stack-east", patch, namespace="acme")
    await hub.label("east", None)
    async with hub.operator():
        await hub.until_torn_down("east")
    assert await bound(hub) == set()


async def test_a_deleted_target_namespace_leaves_no_rights_behind(scene: Scene) -> None:
    async with scene.bound() as hub:
        pass
    await hub.client.delete(NAMESPACE, "east")  # while no operator runs
    async with hub.operator():
        await expect_bound(hub)
        await hub.until()


async def test_a_parallel_namespace_that_is_deleted_is_no_failure(scene: Scene) -> None:
    async with scene.bound() as hub:
        patch = {"metadata": {"finalizers": ["example.com/held"]}}
        await hub.client.patch(NAMESPACE, "acme", patch)
        await hub.client.delete(NAMESPACE, "acme")
        await expect_bound(hub, *reads("east"))
        await hub.client.patch(NAMESPACE, "acme", {"metadata": {"finalizers": None}})
        await hub.touch("east")
        await hub.until(east="SuccessfulDeployment")


async def test_a_binding_that_was_deleted_or_given_to_another_is_restored(scene: Scene) -> None:
    async with scene.bound() as hub:
        await hub.client.delete(ROLE_BINDING, "fleet-stack-east", namespace="acme")
        await hub.client.delete(CLUSTER_ROLE_BINDING, "fleet-stack-east")
        await expect_bound(hub, *BOUND)
        subjects = [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": "elsewhere"}]
        patch: Any = {"subjects": subjects}
        await hub.client.patch(ROLE_BINDING, "fleet-stack-east", patch, namespace="acme")
        await expect_bound(hub, *BOUND)


async def test_a_binding_of_another_owner_in_the_way_is_left_and_its_holder_named(
    scene: Scene,
) -> None:
    hub = scene.hub
    await hub.client.create(binding("fleet-stack-east", "acme", "other", owner="Team/acme"))
    async with hub.operator():
        await hub.add("east", scene.east)
        await hub.until(east="DeploymentFailure")
        message = await hub.message("east")
        left = "RoleBinding fleet-stack-east in namespace acme is left: it belongs to Team/acme"
        assert left in message
        assert await bound(hub) == {*reads("east"), secrets("east", "acme"), "other view acme"}


async def opened(hub: Hub) -> list[str]:
    """Return the Deployments of the stack that may watch the Secrets of all namespaces."""
    found: list[Any] = await hub.client.list(DEPLOYMENT, "east")
    return [
        each["metadata"]["name"]
        for each in found
        for container in each["spec"]["template"]["spec"]["containers"]
        if "--unrestricted-hub-secrets" in container["args"]
    ]


@pytest.mark.criterion("S-F6")
async def test_reading_of_secrets_is_restricted_to_parallel_namespaces_unless_a_flag_allows_all(
    scene: Scene,
) -> None:
    hub = scene.hub
    unrestricted = replace(hub.options().stack, restrict_hub_secrets=False)
    always = {f"east {READER} *", records("east")}
    places = {secrets("east", "east"), secrets("east", "acme")}
    async with hub.operator():
        await deployed(hub, east=scene.east)
        await expect_bound(hub, *always, *places, writes("east", "acme"))
        assert await opened(hub) == []
        await parallel(hub, "acme", "east", value=None)
        await expect_bound(hub, *always, secrets("east", "east"))
        await parallel(hub, "acme", "east")
        await expect_bound(hub, *always, *places, writes("east", "acme"))
    async with hub.operator(stack=unrestricted):
        await expect_bound(hub, *always, secrets("east", "*"), writes("east", "acme"))

        async def is_open() -> bool:
            return await opened(hub) == ["fleet-controllers"]

        await eventually(is_open)
    async with hub.operator():
        await expect_bound(hub, *BOUND)

        async def reported() -> bool:
            found = await hub.client.list("events.k8s.io/v1/Event")
            return any(each["reason"] == "SecretsRestricted" for each in found)

        await eventually(reported)
        await hub.label("east", None)
        await hub.until_torn_down("east")
        assert await bound(hub) == set()


async def test_normal_mode_binds_nothing_and_takes_the_rights_of_scale_mode_away(
    scene: Scene,
) -> None:
    async with scene.bound() as hub:
        await hub.configure(targetNamespace="east")
        await expect_bound(hub)


def binding(name: str, place: str, account: str, owner: str = "") -> dict[str, Any]:
    """A RoleBinding that another has made; `owner`: who recorded itself as its owner."""
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {
            "name": name,
            "namespace": place,
            "annotations": {OWNER: owner} if owner else {},
        },
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": account}],
    }


@pytest.mark.parametrize("value", ["True", "yes", "", "false"])
def test_a_label_with_another_value_grants_nothing(value: str) -> None:
    assert stacks_in({f"{PARALLEL_PREFIX}east": value, "parallel": "true"}) == []
    assert stacks_in({f"{PARALLEL_PREFIX}east": "true", f"{PARALLEL_PREFIX}west": value}) == [
        "east"
    ]

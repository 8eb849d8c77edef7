"""`manager fleet top` and `forget`: data planes as the hub has them, and one that is lost for good."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from apis.fleet import FleetConfig
from apis.fleet.labels import (
    DATA_PLANE,
    DATA_PLANE_ID,
    KUBECONFIG_KEY,
    KUBECONFIG_SECRET,
    TARGET_NAMESPACE,
)
from apis.tenancy import Tenant
from tests.fleet.stack.harness import (
    CONFIG_MAP,
    DEPLOYMENT,
    NAMESPACE,
    SECRET,
    Fleet,
    Server,
    config_map,
    deployment,
    entry,
    fleet,
    ready,
    tenant,
    with_expired_token,
)
from tests.manager_cli.program import Program


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[Fleet]:
    """Two data planes whose Tenants have workloads on the hub, and their target namespaces."""
    async with fleet(tmp_path, planes=2) as made:
        await made.hub.environment.install_crds(FleetConfig)
        for number, plane in enumerate(made.planes):
            await _target(made.hub, f"plane-{number}", plane)
            async with made.running(plane):
                for name in (f"a{number}", f"b{number}"):
                    resources = (deployment(name, config=f"{name}-c"), config_map(f"{name}-c"))
                    await plane.client.create(tenant(*resources, name=name))
                    await ready(plane, name)
        kept = entry("kept", "ConfigMap", data={"k": "v"}) | {"deletionPolicy": "Retain"}
        async with made.running():
            busy = deployment("last", config="kept")
            await made.plane.client.create(tenant(busy, kept, name="last"))
            await ready(made.plane, "last")
        await _config(made.hub)
        yield made


async def _target(hub: Server, name: str, plane: Server) -> None:
    metadata = {
        "name": name,
        "labels": {DATA_PLANE: "true"},
        "annotations": {DATA_PLANE_ID: plane.id},
    }
    await hub.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    text = plane.environment.kubeconfig("manager").read_bytes()
    await hub.client.create(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": KUBECONFIG_SECRET, "namespace": name},
            "data": {KUBECONFIG_KEY: base64.b64encode(text).decode()},
        }
    )


async def _config(hub: Server) -> None:
    """The FleetConfig as an operator reports it while the first data plane does not answer."""
    await hub.client.create(
        {
            "apiVersion": FleetConfig.gvk().api_version,
            "kind": "FleetConfig",
            "metadata": {"name": "fleet"},
            "spec": {"scaleMode": {"enabled": True}},
        }
    )
    at = "2026-01-01T00:00:00Z"
    entries = [
        {"name": "plane-0", "result": "Failure", "reason": "DataPlaneUnreachable"},
        {"name": "plane-1", "result": "Success", "reason": "SuccessfulDeployment"},
    ]
    status = {"targetNamespaces": [{**each, "lastTransitionTime": at} for each in entries]}
    await hub.client.patch_status(FleetConfig, "fleet", {"status": status})


async def run(servers: Fleet, *arguments: str) -> tuple[int, str]:
    """Run a command of `manager fleet` with the hub's kubeconfig."""
    kubeconfig = servers.hub.environment.kubeconfig("admin")
    async with await Program.start("fleet", *arguments, "--kubeconfig", kubeconfig) as program:
        code = await program.wait(120)
        return code, program.output


async def rows(servers: Fleet, *arguments: str) -> list[dict[str, Any]]:
    code, text = await run(servers, "top", "-o", "json", *arguments)
    assert code == 0, text
    found: list[dict[str, Any]] = json.loads(text)
    return [{key: value for key, value in each.items() if key != "message"} for each in found]


def row(name: str, plane: Server, **more: object) -> dict[str, Any]:
    base = {"namespace": name, "dataPlane": plane.id, "orphans": None}
    return {**base, **more}


async def test_top_counts_what_the_hub_has_of_each_data_plane(servers: Fleet) -> None:
    first, second = servers.planes
    down = {"up": False, "reason": "DataPlaneUnreachable", "objects": 6, "tenants": 3}
    healthy = {"up": True, "reason": "SuccessfulDeployment", "objects": 4, "tenants": 2}
    assert await rows(servers) == [
        row("plane-0", first, **down),
        row("plane-1", second, **healthy),
    ]
    patch = {"metadata": {"finalizers": None}}
    await second.client.patch(Tenant, "a1", patch, namespace="default")
    await second.client.delete(Tenant, "a1", namespace="default")
    await first.stop()
    assert await rows(servers, "--orphans") == [
        row("plane-0", first, **down),
        row("plane-1", second, **healthy, orphans=1),
    ]
    await servers.hub.client.delete(NAMESPACE, "plane-0")
    gone = {"up": False, "reason": "", "objects": 6, "tenants": 3}
    assert await rows(servers) == [row("plane-1", second, **healthy), row("", first, **gone)]


async def remove_stack(servers: Fleet, name: str) -> None:
    """What a person does to remove a stack, and the operator after it."""
    labels = {DATA_PLANE: None, TARGET_NAMESPACE: None}
    metadata = {"labels": labels, "annotations": {DATA_PLANE_ID: None}}
    await servers.hub.client.patch(NAMESPACE, name, {"metadata": metadata})


@pytest.mark.criterion("G-F3")
async def test_a_lost_data_plane_is_forgotten_once_its_stack_is_gone_and_the_number_is_given(
    servers: Fleet,
) -> None:
    hub, (first, _) = servers.hub, servers.planes
    everything = {"a0", "b0", "last", "a1", "b1"}
    code, text = await run(servers, "forget", "plane-0", "--count=5")
    assert code == 1
    assert "answers: it is not lost" in text
    await first.stop()
    code, text = await run(servers, "forget", "plane-0", "--count=5")
    assert code == 1
    assert f"kubectl label namespace plane-0 {DATA_PLANE}- " in text
    # The operator removes this label last, when no Pod of the stack is left.
    leaving = {"labels": {DATA_PLANE: None, TARGET_NAMESPACE: "true"}}
    await hub.client.patch(NAMESPACE, "plane-0", {"metadata": leaving})
    code, text = await run(servers, "forget", "plane-0", "--count=5")
    assert (code, f"{TARGET_NAMESPACE}=true" in text) == (1, True), text
    await remove_stack(servers, "plane-0")
    lost = ("--data-plane", first.id)
    code, text = await run(servers, "forget", "plane-0", *lost, "--count=4")
    assert (code, "there are 5 objects, not 4; nothing was changed" in text) == (1, True), text
    assert await hub.names(DEPLOYMENT) == everything
    code, text = await run(servers, "forget", "plane-0", *lost, "--count=5")
    assert code == 0, text
    assert "3 Deployment" in text
    assert "1 more stay by their deletion policy" in text
    assert "5 object(s) deleted" in text
    assert await hub.names(DEPLOYMENT) == {"a1", "b1"}
    assert await hub.names(CONFIG_MAP) == {"kept", "a1-c", "b1-c"}


@pytest.mark.criterion("G-F2")
async def test_a_data_plane_without_a_namespace_is_forgotten_by_its_id(servers: Fleet) -> None:
    hub, (first, second) = servers.hub, servers.planes
    await first.stop()
    await hub.client.delete(NAMESPACE, "plane-0")
    code, text = await run(servers, "forget", "plane-0", "--count=5")
    assert code == 1
    assert "name the data plane with --data-plane ID" in text
    code, text = await run(servers, "forget", "plane-1", "--data-plane", first.id, "--count=5")
    assert code == 1
    assert f"namespace plane-1 has data plane {second.id}" in text
    # A hub that was restored from before a move records the former data plane.
    await second.client.create(tenant(deployment("a0"), name="a0"))
    command = ("forget", "plane-0", "--data-plane", first.id, "--count=5")
    code, text = await run(servers, *command)
    assert (code, "default/a0@" in text) == (1, True), text
    assert f"manager fleet adopt {first.id} --to plane-1" in text
    await second.stop()
    code, text = await run(servers, *command)
    assert (code, "no answer by the kubeconfig of namespace plane-1" in text) == (1, True), text
    assert await hub.names(DEPLOYMENT) == {"a0", "b0", "last", "a1", "b1"}
    code, text = await run(servers, *command, "--elsewhere")
    assert code == 0, text
    assert await hub.names(DEPLOYMENT) == {"a1", "b1"}


def _no_secret(servers: Fleet) -> dict[str, Any] | None:
    return None


def _broken(servers: Fleet) -> dict[str, Any] | None:
    return {KUBECONFIG_KEY: base64.b64encode(b"apiVersion: v1").decode()}


def _refused(servers: Fleet) -> dict[str, Any] | None:
    return {KUBECONFIG_KEY: base64.b64encode(with_expired_token(servers.planes[1])).decode()}


def _of_another(servers: Fleet) -> dict[str, Any] | None:
    return {KUBECONFIG_KEY: base64.b64encode(_kubeconfig(servers.planes[0])).decode()}


def _kubeconfig(plane: Server) -> bytes:
    return plane.environment.kubeconfig("manager").read_bytes()


@pytest.mark.criterion("G-F3")
@pytest.mark.parametrize("unlabelled", [False, True], ids=["labelled", "unlabelled"])
@pytest.mark.parametrize("secret", [_no_secret, _broken, _refused, _of_another])
async def test_a_data_plane_that_cannot_be_asked_is_not_forgotten(
    servers: Fleet, secret: Callable[[Fleet], dict[str, Any] | None], unlabelled: bool
) -> None:
    hub, second = servers.hub, servers.planes[1]
    before = await hub.names(DEPLOYMENT)
    data = secret(servers)
    await hub.client.delete(SECRET, KUBECONFIG_SECRET, namespace="plane-1")
    if data is not None:
        metadata = {"name": KUBECONFIG_SECRET, "namespace": "plane-1"}
        await hub.client.create(
            {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
        )
    if unlabelled:
        await remove_stack(servers, "plane-1")
    code, text = await run(servers, "forget", "plane-1", "--data-plane", second.id, "--count=4")
    assert code == 1, text
    remedy = f"edit secret {KUBECONFIG_SECRET} -n" if unlabelled else "kubectl label namespace"
    assert f"{remedy} plane-1" in text
    assert await hub.names(DEPLOYMENT) == before


@pytest.mark.criterion("G-F3")
@pytest.mark.parametrize("given", ["no-such-namespace", "default", "plane-1"])
async def test_a_data_plane_that_a_namespace_has_is_not_forgotten_by_another_name(
    servers: Fleet, given: str
) -> None:
    hub, second = servers.hub, servers.planes[1]
    before = await hub.names(DEPLOYMENT)
    command = ("forget", given, "--data-plane", second.id, "--count=4")
    code, text = await run(servers, *command)
    assert (code, "answers: it is not lost" in text) == (1, True), text
    await remove_stack(servers, "plane-1")
    code, text = await run(servers, *command)
    assert (code, "answers: it is not lost" in text) == (1, True), "its Secret leads there"
    await second.stop()
    labelled = {"labels": {DATA_PLANE: "true"}, "annotations": {DATA_PLANE_ID: second.id}}
    await hub.client.patch(NAMESPACE, "plane-1", {"metadata": labelled})
    code, text = await run(servers, *command)
    assert (code, "label namespace plane-1" in text) == (1, True), text
    await remove_stack(servers, "plane-1")
    if given == "plane-1":
        code, text = await run(servers, *command)
        assert (code, "reports that the data plane of namespace plane-1 is up" in text) == (1, True)
    assert await hub.names(DEPLOYMENT) == before


@pytest.mark.criterion("G-F3")
async def test_a_copy_that_a_person_made_is_no_object_of_the_data_plane(servers: Fleet) -> None:
    hub, first = servers.hub, servers.planes[0]
    found = await hub.client.get(CONFIG_MAP, "a0-c", namespace="default")
    metadata = {key: found["metadata"][key] for key in ("namespace", "labels", "annotations")}
    copied = {**found, "metadata": {**metadata, "name": "a0-c-backup"}}
    await hub.client.create(copied)
    await first.stop()
    await remove_stack(servers, "plane-0")
    code, text = await run(servers, "forget", "plane-0", "--data-plane", first.id, "--count=5")
    assert code == 0, text
    assert "a0-c-backup" in await hub.names(CONFIG_MAP)

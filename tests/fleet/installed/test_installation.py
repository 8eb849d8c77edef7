"""What docs/fleet.md says to do ends in stacks that serve tenants, with the rights that are shipped and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from apis.fleet.labels import DATA_PLANE, PARALLEL_PREFIX
from internal.fleet.labels import SELECTED
from internal.fleet.stack_bindings import CLUSTER_ROLE_BINDING, ROLE_BINDING
from internal.fleet.stack_builder import DEPLOYMENT, STATEFUL_SET
from tests.fleet.installed.installation import (
    RARELY_USED,
    WORKLOADS,
    enable_scale_mode,
    installation,
    namespace,
)
from tests.fleet.stack.harness import (
    CONFIG_MAP,
    NAMESPACE,
    condition,
    config_map,
    deployment,
    eventually,
    gone,
    ready,
    tenant,
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("fleet-installed")]
BACKENDS = pytest.mark.parametrize("backend", ["embedded", "kube-apiserver"])


@pytest.mark.criterion("FLEET-R28")
async def test_a_new_token_rolls_the_stack_once_and_no_workload_of_tenants(tmp_path: Path) -> None:
    async with installation("embedded", tmp_path, "east") as fleet:
        (plane,) = fleet.planes
        await plane.client.create(namespace("acme"))
        await fleet.client.create(namespace("acme", **{f"{PARALLEL_PREFIX}east": "true"}))
        await enable_scale_mode(fleet)
        await fleet.add("east", plane)
        old = await fleet.run_pods("east")
        await fleet.until_ready()
        await plane.client.create(tenant(deployment(), namespace="acme"))
        await ready(plane, namespace="acme")
        before = await fleet.hub.get(DEPLOYMENT, "web", "acme")

        await fleet.write_kubeconfig("east", plane)

        async def generations() -> set[int]:
            found = [await fleet.hub.get(m, w, "east") for m, w, _ in WORKLOADS]
            return {each["metadata"]["generation"] for each in found if each is not None}

        await eventually(generations, lambda seen: seen == {2})
        await old.stop()
        await fleet.run_pods("east")
        await plane.client.create(tenant(deployment("late"), name="late", namespace="acme"))
        await ready(plane, "late", namespace="acme")
        await fleet.until_ready()
        assert await generations() == {2}
        assert await fleet.hub.get(DEPLOYMENT, "web", "acme") == before
        assert fleet.refused() == []


@BACKENDS
@pytest.mark.criterion("FLEET-R6")
async def test_what_docs_fleet_describes_ends_in_a_stack_that_serves_tenants(
    backend: str, tmp_path: Path
) -> None:
    async with installation(backend, tmp_path, "east") as fleet:
        (plane,) = fleet.planes
        await plane.client.create(namespace("acme"))
        await fleet.client.create(namespace("acme"))
        await enable_scale_mode(fleet)
        await fleet.add("east", plane)
        await fleet.run_pods("east")
        found = await fleet.until_ready()
        (entry,) = found.status.target_namespaces
        assert (entry.name, entry.reason) == ("east", "SuccessfulDeployment")
        assert fleet.refused() == []
        allowed = fleet.hub.environment.user("admin").token
        for pod in fleet.pods["east"].running:
            assert (await pod.metrics(), await pod.metrics(allowed)) == (401, 200)

        made = tenant(deployment(config="s"), config_map("s"), config_map("n"), namespace="acme")
        await plane.client.create(made)
        told = await condition(plane, "HubReady", "False", "NamespaceNotGranted", namespace="acme")
        command = f"kubectl label namespace acme {PARALLEL_PREFIX}east=true"
        assert command in told.message
        patch = {"metadata": {"labels": {f"{PARALLEL_PREFIX}east": "true"}}}
        await fleet.client.patch(NAMESPACE, "acme", patch)
        await ready(plane, namespace="acme")
        assert await fleet.hub.names(DEPLOYMENT, "acme") == {"web"}
        assert await fleet.hub.names(CONFIG_MAP, "acme") == {"s"}
        assert await plane.names(CONFIG_MAP, "acme") == {"n"}
        assert await plane.client.list(DEPLOYMENT) == []
        await gone(plane, namespace="acme")
        assert await fleet.hub.names(DEPLOYMENT, "acme") == set()
        on_plane = fleet.requests(plane, "stack-east")
        assert [row for row in on_plane if row.code == 403] == []
        assert not on_plane.select(resource="deployments.apps").total

        await fleet.client.patch(NAMESPACE, "east", {"metadata": {"labels": {DATA_PLANE: None}}})

        async def left() -> list[str]:
            found: list[str] = []
            for mapping in (DEPLOYMENT, STATEFUL_SET, CLUSTER_ROLE_BINDING, ROLE_BINDING):
                listed = await fleet.client.list(mapping, labels=SELECTED)
                found += [str(each["metadata"]["name"]) for each in listed]
            return found

        await eventually(left, lambda seen: not seen, 180)
        assert fleet.unused_by_the_operator() <= RARELY_USED

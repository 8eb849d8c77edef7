"""Edits by hand of what identifies something in a tenant's objects are undone, also beside a change of the template."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ctrlruntime.client.client import PatchType
from tests.tenancy.harness import DEPLOYMENT, TenancyHarness


def workload(image: str) -> dict[str, Any]:
    container = {"name": "app", "image": image, "env": [{"name": "MODE", "value": "fast"}]}
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container]}}
    selector = {"matchLabels": {"app": "x"}}
    spec = {"replicas": 0, "selector": selector, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}
    return {"id": "web", "nameTemplate": "{{ .uid }}-web", "spec": body}


@pytest.mark.criterion("R-5")
@pytest.mark.criterion("SIM-F3")
async def test_a_renamed_container_goes_and_a_sidecar_stays(tmp_path: Path) -> None:
    """The image changes in the template right after the edits."""
    async with TenancyHarness.start(tmp_path, nodes=True, pods=False) as harness:
        harness.rows("a")
        await harness.registry()
        await harness.template(deployments=[workload("app:1")])
        await harness.ready("a-web-app")
        path = "/spec/template/spec/containers"
        sidecar = {"op": "add", "path": f"{path}/-", "value": {"name": "mesh", "image": "m:1"}}
        renamed = [
            {"op": "replace", "path": f"{path}/0/name", "value": "renamed"},
            {"op": "replace", "path": f"{path}/0/image", "value": "app:9"},
        ]
        for who, operations in (("mesh", [sidecar]), ("kubectl-edit", renamed)):
            await harness.client.patch(
                DEPLOYMENT,
                "a-web",
                operations,
                namespace=harness.namespace,
                type=PatchType.JSON,
                field_manager=who,
            )
        await harness.template(deployments=[workload("app:2")])

        async def containers() -> dict[str, str]:
            found = await harness.get(DEPLOYMENT, "a-web")
            assert found is not None
            listed = found["spec"]["template"]["spec"]["containers"]
            return {each["name"]: each["image"] for each in listed}

        await harness.eventually(containers, lambda seen: seen == {"app": "app:2", "mesh": "m:1"})
        await harness.ready("a-web-app")

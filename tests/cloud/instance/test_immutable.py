"""Fields of an Instance that cannot be changed, on both servers."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest

from apis.cloud import GROUP, Instance
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client import Client
from ctrlruntime.client.errors import Invalid
from ctrlruntime.envtest import Environment
from tests.backends import SharedServer

CRD = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
pytestmark = pytest.mark.criterion("H-B3")


@pytest.fixture(params=["embedded", "kube-apiserver"])
async def client(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    if request.param == "embedded":
        made = Environment(users=("admin",))
    else:
        server: SharedServer = request.getfixturevalue("real_server")
        made = server.environment(users=("admin",))
    async with made as environment:
        await environment.install_crds(Instance)
        client = environment.client("admin")
        yield client
        await client.delete(CRD, f"instances.{GROUP}")


def instance(name: str, gcp: dict[str, Any] | None) -> dict[str, Any]:
    infrastructure = {} if gcp is None else {"gcp": gcp}
    return {
        "apiVersion": Instance.gvk().api_version,
        "kind": "Instance",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"version": "5.1.0", "infrastructure": infrastructure},
    }


BEFORE = {"zone": "us-central1-f", "projectId": "acme-prod"}


CASES: list[tuple[dict[str, Any] | None, dict[str, Any] | None, str]] = [
    (BEFORE, {**BEFORE, "zone": "us-central1-a"}, "zone cannot be changed"),
    (BEFORE, {**BEFORE, "projectId": "other"}, "projectId cannot be changed"),
    (BEFORE, {**BEFORE, "projectId": None}, "projectId cannot be changed"),
    (BEFORE, None, "gcp cannot be removed"),
    (BEFORE, {**BEFORE, "gke": {"blue": {"machineType": "e2-small"}}}, ""),
    ({"zone": "us-central1-f"}, BEFORE, ""),
    (None, BEFORE, ""),
]


async def test_h_b3_zone_and_project_are_immutable(client: Client) -> None:
    for before, after, says in CASES:
        name = f"acme-{secrets.token_hex(4)}"
        await client.create(instance(name, before))
        patch = {"spec": {"infrastructure": {"gcp": after}}}
        try:
            if says:
                with pytest.raises(Invalid, match=says):
                    await client.patch(Instance, name, patch, namespace="default")
            else:
                await client.patch(Instance, name, patch, namespace="default")
        finally:
            await client.delete(Instance, name, namespace="default")

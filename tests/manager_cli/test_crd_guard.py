"""`config/guard`: CRDs of the product go only with an approval, while no manager runs (H-A9)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ctrlruntime.api import Resource
from ctrlruntime.client.client import Client, PatchType
from ctrlruntime.client.errors import Forbidden
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.eventually import eventually_gone, eventually_holds
from manager.commands.uninstalling import BINDING, CRD, NAME, POLICY, custom_resources
from manager.kinds import KINDS
from tests.docs.blocks import ROOT
from tests.manager_cli.test_uninstall import cluster, definitions, make_by_hand, uninstall

pytestmark = [pytest.mark.criterion("H-A9")]

GUARD = ROOT / "config" / "guard"
OTHERS = "others.example.com"


def manifests() -> list[dict[str, Any]]:
    listed = yaml.safe_load((GUARD / "kustomization.yaml").read_text())["resources"]
    return [yaml.safe_load((GUARD / name).read_text()) for name in listed]


def crd_of(kind: type[Resource[Any, Any]]) -> str:
    return f"{kind.mapping().plural}.{kind.gvk().group}"


@pytest.fixture
async def env(tmp_path: Path) -> AsyncIterator[Environment]:
    async with cluster("kube-apiserver", tmp_path) as environment:
        if environment.backend.version < (1, 30):
            pytest.skip("admission policies came with Kubernetes 1.30")
        client = environment.client("admin")
        for manifest in manifests():
            await client.create(manifest)
        await eventually_holds(lambda: is_refused(client, crd_of(KINDS[0])), interval=0.2)
        yield environment


async def is_refused(client: Client, name: str) -> str:
    """What the server says to a deletion that is only tried; empty if it would delete."""
    try:
        await client.delete(CRD, name, dry_run=True)
    except Forbidden as error:
        return str(error)
    return ""


def another_crd() -> dict[str, Any]:
    names = {"plural": "others", "singular": "other", "kind": "Other"}
    version = {"name": "v1", "served": True, "storage": True}
    schema = {"openAPIV3Schema": {"type": "object"}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": OTHERS},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": [version | {"schema": schema}],
        },
    }


async def test_h_a9_the_server_refuses_to_delete_a_crd_without_an_approval(
    env: Environment,
) -> None:
    client = env.client("admin")
    for kind in KINDS:
        refusal = await is_refused(client, crd_of(kind))
        assert f"deletes every {kind.gvk().kind} of the cluster" in refusal
        assert "manager uninstall" in refusal
        assert f'{kind.gvk().group}/approve-deletion: "true"' in refusal
    await client.create(another_crd())
    assert await is_refused(client, OTHERS) == ""
    with pytest.raises(Forbidden):
        await client.delete_collection(CRD)
    assert len(await definitions(client)) == len(KINDS)


async def test_h_a9_an_approval_is_of_one_crd_and_true_only(env: Environment) -> None:
    client = env.client("admin")
    first, second = KINDS[0], KINDS[1]
    for value, refused in (("", True), ("yes", True), ("true", False)):
        annotations = {f"{first.gvk().group}/approve-deletion": value}
        patch = {"metadata": {"annotations": annotations}}
        await client.patch(CRD, crd_of(first), patch, type=PatchType.MERGE)
        assert bool(await is_refused(client, crd_of(first))) is refused, value
    assert await is_refused(client, crd_of(second))
    await client.delete(CRD, crd_of(first))
    await eventually_gone(client, CRD, crd_of(first))


async def test_h_a9_the_command_takes_the_guard_away_with_the_crds(env: Environment) -> None:
    client = env.client("admin")
    await make_by_hand(client)
    assert await custom_resources(client)
    code, output = await uninstall(env, "--keep-objects", "--yes")
    assert code == 0, output
    assert "deleted the guard of the CRDs" in output
    assert await definitions(client) == []
    gone = (eventually_gone(client, mapping, NAME) for mapping in (BINDING, POLICY))
    await asyncio.gather(*gone)


def test_the_guard_covers_every_group_of_the_product() -> None:
    policy = next(each for each in manifests() if each["kind"] == POLICY.gvk.kind)
    (condition,) = policy["spec"]["matchConditions"]
    assert condition["expression"] == "oldObject.spec.group.endsWith('.ctrlruntime.dev')"
    assert {kind.gvk().group.partition(".")[2] for kind in KINDS} == {"ctrlruntime.dev"}
    assert {each["metadata"]["name"] for each in manifests()} == {NAME}

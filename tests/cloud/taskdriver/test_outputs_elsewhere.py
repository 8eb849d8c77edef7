"""Secrets with outputs in another cluster than the objects whose runs made them."""

from __future__ import annotations

from typing import Any

import pytest

from apis.cloud import InstanceTerraform
from ctrlruntime.api import Resource
from ctrlruntime.api.kinds import Manifest
from ctrlruntime.resources import OWNER, OWNER_UID, RemotePlacement
from internal.cloud.taskdriver.writes import SECRET, OutputsRefused, RunCluster, keep_outputs
from tests.cloud.taskdriver.harness import NAMESPACE, TaskDriverHarness

EAST = RemotePlacement(owner_cluster="east", labels={"example.com/data-plane": "east"})
OUTPUTS = {"address": "10.0.0.1"}


async def made_anew(harness: TaskDriverHarness) -> tuple[Resource[Any, Any], Resource[Any, Any]]:
    """Return an object that went without its Secret, and the one of its name that came after it."""
    before = await harness.make()
    await keep_outputs(cluster(harness), before, "acme", OUTPUTS)
    patch = {"metadata": {"finalizers": None}}
    await harness.admin.patch(InstanceTerraform, "acme", patch, namespace=NAMESPACE)
    await harness.admin.delete(InstanceTerraform, "acme", namespace=NAMESPACE)
    return before, await harness.make()


def cluster(harness: TaskDriverHarness, placement: RemotePlacement = EAST) -> RunCluster:
    return RunCluster(client=harness.admin, placement=placement)


async def secret(harness: TaskDriverHarness) -> Manifest:
    return await harness.admin.get(SECRET, "acme-outputs", namespace=NAMESPACE)


async def test_equal_outputs_of_an_object_made_anew_record_it_in_the_same_pass(
    harness: TaskDriverHarness,
) -> None:
    before, after = await made_anew(harness)
    first = await secret(harness)
    assert first["metadata"]["annotations"][OWNER_UID] == before.metadata.uid
    await keep_outputs(cluster(harness), after, "acme", OUTPUTS)
    second = await secret(harness)
    assert second["metadata"]["uid"] == first["metadata"]["uid"]
    assert second["metadata"]["annotations"][OWNER_UID] == after.metadata.uid
    assert second["data"] == first["data"]
    await keep_outputs(cluster(harness), after, "acme", OUTPUTS)
    assert (await secret(harness))["metadata"]["resourceVersion"] == second["metadata"][
        "resourceVersion"
    ]


async def test_the_secret_of_another_data_plane_is_left_alone_and_its_holder_named(
    harness: TaskDriverHarness,
) -> None:
    _, after = await made_anew(harness)
    first = await secret(harness)
    west = RemotePlacement(owner_cluster="west", labels={})
    with pytest.raises(OutputsRefused, match=first["metadata"]["annotations"][OWNER]):
        await keep_outputs(cluster(harness, west), after, "acme", OUTPUTS)
    assert await secret(harness) == first

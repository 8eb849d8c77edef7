"""A control for objects in another cluster than their owners', on an API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.cache import CacheOptions
from ctrlruntime.client.client import Client
from ctrlruntime.cluster import Cluster, ClusterOptions
from ctrlruntime.envtest import Environment
from ctrlruntime.gate import Cause, Permit
from ctrlruntime.resources import OWNER, OWNER_UID, Action, Desired, Owner, RemoteControl
from tests.support.waiting import eventually

CONFIG_MAP = BUILTIN[GroupVersionKind("", "v1", "ConfigMap")]
OWNED = Owner(gvk=GroupVersionKind("g", "v1", "Set"), namespace="default", name="a", uid="u1")
MANAGER = "sets"


@dataclass(slots=True)
class Harness:
    """The server of the objects, and the control of one data plane."""

    client: Client
    cluster: Cluster
    control: RemoteControl

    async def read(self) -> dict[str, Any]:
        found: dict[str, Any] = await self.client.get(CONFIG_MAP, "c", namespace="default")
        return found


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    async with Environment() as hub:
        options = ClusterOptions(cache=CacheOptions(labels="plane=p1"))
        cluster = Cluster("hub", hub.config(), options, fence=None)
        control = RemoteControl(
            cluster, owner_cluster="p1", labels={"plane": "p1"}, field_manager=MANAGER
        )
        cluster.cache.declare(CONFIG_MAP, track_manager=MANAGER)
        await cluster.start()
        await cluster.wait_synced(60.0)
        try:
            yield Harness(hub.client(), cluster, control)
        finally:
            await cluster.close()


def desired(value: str = "1") -> Desired:
    metadata = {"name": "c", "namespace": "default"}
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": value}}
    return Desired(mapping=CONFIG_MAP, manifest=manifest)


async def test_an_object_records_the_cluster_of_its_owner_and_has_no_owner_reference(
    harness: Harness,
) -> None:
    assert (await harness.control.ensure(desired(), OWNED)).action is Action.CREATED
    metadata = (await harness.read())["metadata"]
    assert metadata["annotations"][OWNER] == "Set.g/default/a@p1"
    assert metadata["annotations"][OWNER_UID] == "u1"
    assert metadata["labels"] == {"plane": "p1"}
    assert "ownerReferences" not in metadata
    assert not harness.control.pending(desired(), OWNED)
    assert (await harness.control.ensure(desired(), OWNED)).action is Action.UNCHANGED
    assert (await harness.control.ensure(desired("2"), OWNED)).action is Action.UPDATED


async def test_a_label_that_was_removed_by_hand_is_put_back(harness: Harness) -> None:
    await harness.control.ensure(desired(), OWNED)
    uid = (await harness.read())["metadata"]["uid"]
    patch = {"metadata": {"labels": {"plane": None}}}
    await harness.client.patch(CONFIG_MAP, "c", patch, namespace="default")
    await eventually(lambda: harness.control.look(desired()) is None)
    await harness.control.ensure(desired(), OWNED)
    metadata = (await harness.read())["metadata"]
    assert (metadata["uid"], metadata["labels"]) == (uid, {"plane": "p1"})


async def test_an_object_of_another_cluster_names_its_holder_and_is_never_deleted(
    harness: Harness,
) -> None:
    body = replace(desired(), reference=False).body(replace(OWNED, cluster="p2", uid="u2"))
    body["metadata"]["labels"] = {"plane": "p2"}
    made = await harness.client.create(body)
    outcome = await harness.control.ensure(desired("2"), OWNED)
    assert outcome.action is Action.CONFLICT
    assert outcome.conflict == "it belongs to Set.g/default/a@p2"
    assert outcome.entry is not None
    assert not await harness.control.remove(CONFIG_MAP, outcome.entry, OWNED, Cause.SPEC_CHANGED)
    kept = await harness.read()
    assert kept["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_a_released_object_stays_and_is_adopted_by_an_owner_of_that_name(
    harness: Harness,
) -> None:
    await harness.control.ensure(desired(), OWNED)
    entry = harness.control.look(desired())
    assert entry is not None
    permit = harness.control.permit(entry, OWNED, Cause.ORPHANED)
    assert isinstance(permit, Permit)
    assert await harness.control.release(
        CONFIG_MAP, entry, OWNED, permit, labels={}, annotations={}
    )
    released = (await harness.read())["metadata"]
    assert OWNER_UID not in released["annotations"]
    again = replace(OWNED, uid="u3")
    assert (await harness.control.ensure(desired(), again)).action is Action.UPDATED
    adopted = (await harness.read())["metadata"]
    assert (adopted["uid"], adopted["annotations"][OWNER_UID]) == (released["uid"], "u3")
    entry = harness.control.look(desired())
    assert entry is not None
    assert await harness.control.remove(CONFIG_MAP, entry, again, Cause.SPEC_CHANGED)

"""Which Pods take a disk without a record for their node's own: those whose claim was made empty by the set (G-N5)."""

from __future__ import annotations

from typing import Any

import pytest

from internal.cosmos.fullnode.validator_key import VALIDATOR_KEY
from tests.cosmos.fullnode.harness import POD, NodeSetHarness, Place
from tests.support.waiting import eventually

pytestmark = [pytest.mark.criterion("G-N5"), pytest.mark.asyncio(loop_scope="module")]


def own(pod: dict[str, Any]) -> bool:
    made = {each["name"]: each for each in pod["spec"]["initContainers"]}
    return "own" in made[VALIDATOR_KEY]["args"]


async def test_a_pod_knows_its_own_disk_once_the_set_has_made_the_claim(
    harness: NodeSetHarness, place: Place
) -> None:
    claim: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "pvc-hub-1", "namespace": place.namespace},
        "spec": {
            "storageClassName": "standard",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    await place.client.create(claim)
    await place.apply(place.node_set(replicas=2))
    await place.until(lambda found: found.status.ready_replicas == 2)
    first = await place.uids()
    for name in first:
        await place.client.delete(POD, name, namespace=place.namespace)
    await eventually(
        place.uids, lambda now: len(now) == 2 and not set(now.values()) & set(first.values())
    )
    await place.until(lambda found: found.status.ready_replicas == 2)
    found = {
        each["metadata"]["name"]: own(each)
        for each in await place.client.list(POD, place.namespace)
    }
    assert found == {"hub-0": True, "hub-1": False}, "another's claim may be a copy"
    await place.polled()
    await place.until(lambda found: found.status.rollout.outdated == 0)

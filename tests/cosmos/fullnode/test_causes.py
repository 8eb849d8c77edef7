"""Why nodes do not answer is in the status, in the words of their Pods; what was done about Pods is an event."""

from __future__ import annotations

from typing import Any

import pytest

from ctrlruntime.cache.entry import EntryDecoder
from ctrlruntime.envtest.nodes.kinds import SIMULATE
from internal.cosmos.workload.pod_trouble import pod_trouble
from tests.cosmos.fullnode.harness import EVENT, POD, NodeSetHarness, Place
from tests.support.waiting import eventually

FULL = "write /data/genesis.json: No space left on device"
PULLED = {"name": "node", "image": "gaia:v9"}
SHAPES: dict[str, tuple[dict[str, Any], str]] = {
    "pulling": (
        {"containerStatuses": [{**PULLED, "state": {"waiting": {"reason": "ErrImagePull"}}}]},
        "does not start: container node cannot pull image gaia:v9 (ImagePullBackOff)",
    ),
    "secret": (
        {
            "containerStatuses": [
                {
                    "name": "node",
                    "state": {
                        "waiting": {
                            "reason": "CreateContainerConfigError",
                            "message": 'secret "key" not found',
                        }
                    },
                }
            ]
        },
        'does not start: container node: CreateContainerConfigError: secret "key" not found',
    ),
    "memory": (
        {
            "containerStatuses": [
                {
                    "name": "node",
                    "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
                    "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}},
                }
            ]
        },
        "keeps ending: container node: OOMKilled, exit code 137",
    ),
    "full disk": (
        {
            "initContainerStatuses": [
                {
                    "name": "genesis",
                    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                    "lastState": {
                        "terminated": {"reason": "Error", "exitCode": 1, "message": FULL}
                    },
                }
            ]
        },
        f"keeps ending: init container genesis: Error, exit code 1: {FULL}",
    ),
    "no room": (
        {
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": 'storageclass.storage.k8s.io "nope" not found',
                }
            ]
        },
        'has no machine: Unschedulable: storageclass.storage.k8s.io "nope" not found',
    ),
    "evicted": (
        {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory"},
        "has ended: Evicted: The node was low on memory",
    ),
    "starting": (
        {"containerStatuses": [{**PULLED, "state": {"waiting": {"reason": "PodInitializing"}}}]},
        "",
    ),
    "running": ({"containerStatuses": [{**PULLED, "state": {"running": {}}}]}, ""),
    "unknown": ({}, ""),
}


@pytest.mark.criterion("N-A14")
@pytest.mark.parametrize("shape", SHAPES)
def test_what_a_pod_shows_names_container_and_cause(shape: str) -> None:
    status, text = SHAPES[shape]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "hub-0", "namespace": "a"}}
    decoder = EntryDecoder(POD.gvk)
    assert pod_trouble(decoder.decode_manifest({**pod, "status": status})) == text


@pytest.mark.criterion("N-A14", "N-A23")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.xdist_group("sets of nodes")
async def test_an_image_that_cannot_be_pulled_is_named_and_what_is_done_is_an_event(
    harness: NodeSetHarness, place: Place
) -> None:
    await place.apply(place.node_set(replicas=2))
    await place.settled()
    await place.edit(podTemplate={"image": "gaia:does-not-exist"})
    cause = "does not start: container node cannot pull image gaia:does-not-exist"
    found = await place.until(
        lambda found: (
            cause in found.status.status
            and any(cause in (i.error or "") for i in found.status.sync.values())
        )
    )
    assert found.status.rollout.blocked.count(cause) == 1
    await place.until_event("RolloutBlocked")
    await place.edit(podTemplate={"image": "gaia:v2"})
    await place.settled()
    notes = await _notes(place, "PodReplaced", 3)
    assert any(note.endswith("node runs gaia:does-not-exist, before gaia:v1.") for note in notes)
    await place.edit(replicas=1)
    (removed,) = await _notes(place, "PodRemoved", 1)
    assert removed == "Pod hub-1 was taken away: it is no longer wanted."
    await place.settled()
    await harness.idle()


@pytest.mark.criterion("N-A14", "N-A23")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.xdist_group("sets of nodes")
async def test_a_pod_that_keeps_ending_is_named_and_one_that_has_ended_is_an_event(
    place: Place,
) -> None:
    """One that has ended is made anew, and its event keeps why."""
    await place.apply(place.node_set(replicas=1))
    await place.settled()
    ended = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory"}
    await place.client.patch_status(POD, "hub-0", {"status": ended}, namespace=place.namespace)
    (note, *_) = await _notes(place, "PodEnded", 1)
    assert note == "Pod hub-0 has ended: Evicted: The node was low on memory. It is made anew."
    await place.settled()
    annotations = {"metadata": {"annotations": {SIMULATE: "CrashLoopBackOff"}}}
    await place.client.patch(POD, "hub-0", annotations, namespace=place.namespace)
    place.node(0).unreachable = True
    await place.until(lambda found: "hub-0 keeps ending: container node" in found.status.status)
    place.node(0).unreachable = False


async def _notes(place: Place, reason: str, count: int) -> list[str]:
    async def found() -> list[str]:
        events = await place.client.list(EVENT, place.namespace)
        return [each["note"] for each in events if each["reason"] == reason]

    return await eventually(found, lambda notes: len(notes) >= count)

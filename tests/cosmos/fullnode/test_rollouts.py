"""How changes reach the nodes: within the budget, by what the nodes say of themselves."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from apis.cosmos import CosmosFullNode
from ctrlruntime.api import find_condition
from ctrlruntime.cache.entry import EntryDecoder
from ctrlruntime.envtest.nodes.kinds import SIMULATE
from internal.cosmos.fullnode.observed_health import observed
from internal.cosmos.workload.checksums import CONFIG_CHECKSUM
from tests.cosmos.fullnode.harness import (
    CONFIG_MAP,
    NAME,
    PATIENCE,
    POD,
    NodeSetHarness,
    Place,
    pods,
)
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("sets of nodes"),
]


@dataclass(slots=True)
class Attendance:
    """Which Pods are there, as the server tells by its watch; one being deleted is not."""

    there: dict[str, str] = field(default_factory=dict)
    fewest: int = 1_000
    order: list[str] = field(default_factory=list)
    """Names of those that went, in order."""

    def take(self, kind: str, pod: dict[str, Any]) -> None:
        """One event."""
        metadata = pod["metadata"]
        name, uid = metadata["name"], metadata["uid"]
        if kind == "DELETED" or metadata.get("deletionTimestamp"):
            if self.there.get(name) == uid:
                del self.there[name]
                self.order.append(name)
        else:
            self.there[name] = uid
        self.fewest = min(self.fewest, len(self.there))


@asynccontextmanager
async def attendance(place: Place, expected: int) -> AsyncIterator[Attendance]:
    """Watch until the block is left."""
    seen, complete = Attendance(), asyncio.Event()

    async def follow() -> None:
        events = place.client.watch(POD, place.namespace)
        async with contextlib.aclosing(events):
            async for kind, pod in events:
                seen.take(kind, pod)
                if not complete.is_set() and len(seen.there) == expected:
                    seen.fewest = expected
                    complete.set()

    task = asyncio.create_task(follow())
    try:
        await asyncio.wait_for(complete.wait(), PATIENCE)
        yield seen
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def renewed(place: Place, before: dict[str, str]) -> dict[str, str]:
    """UIDs, once the set is settled and no Pod is one of those before."""

    def is_current(found: CosmosFullNode) -> bool:
        status = found.status
        return (
            status.phase == "Complete"
            and status.observed_generation == found.metadata.generation
            and status.rollout.outdated == 0
            and status.ready_replicas == found.spec.replicas
        )

    async def settled() -> dict[str, str]:
        await place.until(is_current)
        return await place.uids()

    return await eventually(
        settled, lambda uids: not set(uids.values()) & set(before.values()), timeout=PATIENCE
    )


@pytest.mark.criterion("COSMOS-A2-8")
async def test_a_changed_configuration_rolls_within_the_budget(
    harness: NodeSetHarness, place: Place
) -> None:
    await place.apply(place.node_set(replicas=4, strategy={"maxUnavailable": 2}))
    await place.settled()
    before = await place.uids()
    async with attendance(place, 4) as seen:
        await place.edit(chain={"config": {"maxInboundPeers": 7}})
        await renewed(place, before)
    assert 2 <= seen.fewest < 4, seen
    assert sorted(seen.order) == pods(range(4)), "each once"
    config = await place.object(CONFIG_MAP, "hub-0")
    pod = await place.object(POD, "hub-0")
    told = pod["metadata"]["annotations"][CONFIG_CHECKSUM]
    assert told == config["metadata"]["annotations"][CONFIG_CHECKSUM]


async def test_with_on_restart_changed_peers_replace_no_pod_until_something_else_does(
    harness: NodeSetHarness, place: Place
) -> None:
    await place.apply(place.node_set(replicas=2))
    await place.settled()
    before = await place.uids()
    await place.edit(peers={"rollout": "OnRestart"})
    await place.settled()
    await harness.idle()
    assert await place.uids() == before, "turning it on rolls nothing"
    # A node more, and a peer outside: both are in the ConfigMaps, and no Pod is replaced.
    await place.edit(replicas=3, chain={"config": {"peers": "cafe@peer.example.com:26656"}})
    await place.until(lambda found: found.status.ready_replicas == 3)
    await place.settled()
    await harness.idle()
    after = await place.uids()
    assert {name: after[name] for name in before} == before
    overlay = (await place.object(CONFIG_MAP, "hub-0"))["data"]["config-overlay.toml"]
    assert "cafe@peer.example.com:26656" in overlay
    assert "hub-p2p-2" in overlay
    # A Pod that is replaced is not replaced again, and what is not about peers reaches all.
    await place.client.delete(POD, "hub-0", namespace=place.namespace)
    await place.until_object(POD, "hub-0", _made_after(before["hub-0"]))
    await place.settled()
    await harness.idle()
    replaced = await place.uids()
    assert replaced["hub-1"] == before["hub-1"]
    await place.edit(chain={"config": {"maxInboundPeers": 7}})
    await renewed(place, replaced)


async def test_what_changes_nothing_of_a_pod_rolls_none(
    harness: NodeSetHarness, place: Place
) -> None:
    await place.apply(place.node_set(replicas=1))
    await place.settled()
    before = await place.uids()
    await place.edit(
        strategy={"maxUnavailable": 2}, selfHeal={"heightDriftMitigation": {"threshold": 9}}
    )
    await place.settled()
    await harness.idle()
    assert await place.uids() == before


@pytest.mark.criterion("COSMOS-A7-5")
async def test_the_next_waits_until_the_node_itself_has_caught_up(place: Place) -> None:
    """Its Pod is ready long before: what Kubernetes says does not count."""
    await place.apply(place.node_set(replicas=2, type="Sentry"))
    await place.settled()
    before = await place.uids()
    for number in range(2):
        place.node(number).catching_up = False
    async with attendance(place, 2) as seen:
        with behind(place, 0), behind(place, 1):
            # Both were in sync when they were last asked; whichever goes first stays behind.
            await place.edit(chain={"config": {"maxInboundPeers": 8}})
            stuck = await place.until(
                lambda found: (
                    found.status.rollout.outdated > 0 and bool(found.status.rollout.blocked)
                )
            )
            assert "catching up" in stuck.status.rollout.blocked or stuck.status.rollout.blocked
        await renewed(place, before)
    assert seen.fewest >= 1


@pytest.mark.criterion("COSMOS-A7-5")
@pytest.mark.parametrize("strategy", ["Reachable", "InSync"])
async def test_sentries_with_a_probe_roll_though_no_pod_ever_becomes_ready(
    place: Place, strategy: str
) -> None:
    """As with a signer that reaches ready Pods alone: the node's own answers decide."""
    template = {
        "metadata": {"annotations": {SIMULATE: "Unready"}},
        "probes": {"strategy": strategy},
    }
    await place.apply(place.node_set(replicas=2, type="Sentry", podTemplate=template))
    await place.settled()
    pod = await place.object(POD, "hub-0")
    assert "readinessProbe" in pod["spec"]["containers"][0]
    ready = {item["type"]: item["status"] for item in pod["status"]["conditions"]}
    assert ready["Ready"] == "False"
    before = await place.uids()
    await place.edit(chain={"config": {"maxInboundPeers": 9}})
    await renewed(place, before)


@contextlib.contextmanager
def behind(place: Place, number: int) -> Iterator[None]:
    """The node says that it is behind."""
    node = place.node(number)
    node.catching_up = True
    try:
        yield
    finally:
        node.catching_up = False


@pytest.mark.criterion("COSMOS-A10-82")
async def test_a_stuck_node_blocks_the_rollout_and_it_is_said_why(
    harness: NodeSetHarness, place: Place
) -> None:
    await place.apply(place.node_set())
    await place.settled()
    place.node(1).unreachable = True
    await place.until(lambda found: found.status.ready_replicas == 2)
    before = await place.uids()
    await place.edit(podTemplate={"image": "gaia:v2"})
    found = await place.until(lambda found: bool(found.status.rollout.blocked) and _new(found))
    await place.until_object(POD, "hub-1", lambda pod: pod is not None and _image(pod) == "gaia:v2")
    found = await place.until(
        lambda found: found.status.rollout.outdated == 2 and "hub-1" in found.status.rollout.blocked
    )
    assert found.status.phase == "Progressing"
    assert "no more than 1 may" in found.status.rollout.blocked
    await place.polled()
    now = await place.uids()
    assert (now["hub-0"], now["hub-2"]) == (before["hub-0"], before["hub-2"])
    assert now["hub-1"] != before["hub-1"], "what is down anyway goes first"
    progressing = find_condition(found.status.conditions, "Progressing")
    assert progressing is not None
    assert progressing.status == "True"
    place.node(1).unreachable = False
    await renewed(place, before)


@pytest.mark.criterion("COSMOS-A10-339")
async def test_a_pod_deleted_by_another_client_counts_as_down(
    harness: NodeSetHarness, place: Place
) -> None:
    """Also where it is on its way out for long, as a node that ends slowly is."""
    await place.apply(place.node_set())
    await place.settled()
    before = await place.uids()
    hold = {"metadata": {"finalizers": ["test/hold"]}}
    await place.client.patch(POD, "hub-2", hold, namespace=place.namespace)
    await place.client.delete(POD, "hub-2", namespace=place.namespace)
    await place.edit(podTemplate={"image": "gaia:v2"})
    await place.until(lambda found: found.status.rollout.outdated > 0 and _new(found))
    await place.polled()
    now = await place.uids()
    assert now == before, "nothing else is taken down"
    let_go = {"metadata": {"finalizers": None}}
    await place.client.patch(POD, "hub-2", let_go, namespace=place.namespace)
    await renewed(place, before)


@pytest.mark.criterion("COSMOS-A2-22")
async def test_versions_go_by_the_height_of_each_node(place: Place) -> None:
    versions = [
        {"height": 0, "image": "gaia:v1"},
        {"height": 200, "image": "gaia:v2", "containers": {"extra": "extra:v2"}},
    ]
    extra = {"name": "extra", "image": "extra:v1"}
    await place.apply(
        place.node_set(chain={"versions": versions}, podTemplate={"containers": [extra]})
    )
    for number in range(3):
        place.node(number).height = 150
    await place.settled()
    before = await place.uids()
    place.node(0).height = 199  # it makes 200 next, and has stopped for it
    found = await place.until(lambda found: found.status.height.get("hub-0") == 200)
    await place.until_object(POD, "hub-0", lambda pod: pod is not None and _image(pod) == "gaia:v2")
    pod = await place.object(POD, "hub-0")
    assert _image(pod, "extra") == "extra:v2"
    found = await place.settled()
    now = await place.uids()
    assert (now["hub-1"], now["hub-2"]) == (before["hub-1"], before["hub-2"])
    assert found.status.height["hub-1"] < 200

    place.node(1).height = place.node(2).height = 199
    async with attendance(place, 3) as seen:
        await renewed(place, before)
    assert seen.fewest >= 2


async def test_the_container_beside_a_node_is_believed_at_once(place: Place) -> None:
    """It read what the chain wrote down when it stopped, and the node answers nobody."""
    versions = [{"height": 0, "image": "gaia:v1"}, {"height": 300, "image": "gaia:v2"}]
    await place.apply(place.node_set(replicas=1, chain={"versions": versions}))
    await place.settled()
    place.node(0).unreachable = True
    await place.until(lambda found: found.status.ready_replicas == 0)
    await place.set_status(height={"hub-0": 300})
    await place.until_object(POD, "hub-0", lambda pod: pod is not None and _image(pod) == "gaia:v2")
    place.node(0).unreachable = False
    found = await place.settled()
    assert found.status.height["hub-0"] == 300, "no answer of a lower height undoes it"


@pytest.mark.criterion("COSMOS-A2-23")
async def test_a_node_that_is_paused_for_a_snapshot_is_away_and_comes_back(
    harness: NodeSetHarness, place: Place
) -> None:
    await place.apply(place.node_set())
    await place.settled()
    key = "place.daily.v1.cosmos.ctrlruntime.dev"
    await place.set_status(scheduledSnapshotStatus={key: {"podCandidate": "hub-1"}})
    await place.until_object(POD, "hub-1", lambda pod: pod is None)
    found = await place.until(lambda found: found.status.replicas == 2)
    await place.polled()
    assert await place.names(POD) == ["hub-0", "hub-2"]
    found = await place.phase("Complete")
    assert "hub-1 is down for a snapshot" in found.status.status
    assert key in found.status.scheduled_snapshot_status, "it is not ours to take away"
    await place.set_status(scheduledSnapshotStatus={key: None})
    await place.settled()


@pytest.mark.criterion("D5-9", "COSMOS-A2-28")
async def test_a_pod_that_the_cache_lacks_is_no_fault(place: Place) -> None:
    """Its node has never been asked: it is left alone, and nothing else is taken down for it."""
    decoder = EntryDecoder(POD.gvk)
    metadata, address = {"name": "hub-0", "uid": "1"}, {"podIP": "127.0.0.9"}
    entry = decoder.decode_manifest({"metadata": metadata, "status": address})
    health = observed([])(entry)
    assert (health.available, health.reachable, health.known) == (False, False, False)

    await place.apply(place.node_set(replicas=2))
    await place.settled()
    before = await place.uids()
    place.node(0).hold()
    place.node(1).hold()
    try:
        await place.client.delete(POD, "hub-0", namespace=place.namespace)
        await place.until_object(
            POD, "hub-0", lambda pod: pod is not None and pod["metadata"]["uid"] != before["hub-0"]
        )
        await place.edit(podTemplate={"image": "gaia:v2"})
        await place.until(lambda found: "hub-0" in found.status.rollout.blocked and _new(found))
        assert (await place.uids())["hub-1"] == before["hub-1"]
    finally:
        place.node(0).release()
        place.node(1).release()
    await renewed(place, before)


async def test_a_pod_that_never_began_to_run_is_made_anew_when_the_spec_is_mended(
    place: Place,
) -> None:
    """It has no address, so nobody can ask it: that it does not work is known all the same."""
    await place.apply(place.node_set(replicas=2))
    await place.settled()
    before = await place.uids()
    await place.edit(instanceOverrides={"hub-1": {"image": "gaia:does-not-exist"}})
    await place.until(lambda found: found.status.ready_replicas == 1)
    await place.edit(instanceOverrides={"hub-1": {"image": "gaia:v9"}})
    await place.settled()
    after = await place.uids()
    assert after["hub-0"] == before["hub-0"]
    assert after["hub-1"] != before["hub-1"]


async def test_a_pod_that_has_ended_is_made_anew(place: Place) -> None:
    """As one is that was evicted: it never starts again by itself."""
    await place.apply(place.node_set(replicas=1))
    await place.settled()
    before = await place.uids()
    ended = {"status": {"phase": "Failed", "reason": "Evicted"}}
    await place.client.patch(POD, "hub-0", ended, namespace=place.namespace, subresource="status")
    await renewed(place, before)


def _new(found: CosmosFullNode) -> bool:
    return found.status.observed_generation == found.metadata.generation


def _made_after(uid: str) -> Callable[[Any], bool]:
    """Return whether a Pod is ready and not the one of that UID."""

    def is_so(pod: dict[str, Any] | None) -> bool:
        if pod is None or pod["metadata"]["uid"] == uid:
            return False
        conditions = pod.get("status", {}).get("conditions", [])
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    return is_so


def _image(pod: dict[str, Any], container: str = "node") -> str:
    return next(
        str(item["image"]) for item in pod["spec"]["containers"] if item["name"] == container
    )


assert NAME == "hub", "the names above"

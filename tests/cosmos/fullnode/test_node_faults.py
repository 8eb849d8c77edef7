"""Faults of single nodes: a key that changes, Pods that end at once."""

from __future__ import annotations

import pytest

from apis.cosmos import CosmosFullNode
from ctrlruntime.api import find_condition
from ctrlruntime.api.kinds import Manifest
from ctrlruntime.cache.entry import EntryDecoder
from ctrlruntime.client.selectors import selector_matches
from internal.cosmos import labels
from internal.cosmos.fullnode import ended_pods, pod_builder
from internal.cosmos.fullnode.desired_objects import DISRUPTION_BUDGET as BUDGET
from internal.cosmos.fullnode.ended_pods import LONGEST, EndedPods
from internal.cosmos.fullnode.node_key import FILE, NodeKey
from internal.cosmos.labels import NODE_KEY_ID
from tests.cosmos.fullnode.harness import EVENT, NAME, POD, SECRET, NodeSetHarness, Place
from tests.cosmos.stepclock import StepClock
from tests.support.waiting import eventually

on_server = pytest.mark.asyncio(loop_scope="module")
pytestmark = pytest.mark.xdist_group("sets of nodes")


async def notes(place: Place, reason: str, count: int = 1) -> list[str]:
    """The notes of the events of that reason, as soon as there are so many."""

    async def found() -> list[str]:
        events = await place.client.list(EVENT, place.namespace)
        return [each["note"] for each in events if each["reason"] == reason]

    return await eventually(found, lambda texts: len(texts) >= count)


@pytest.mark.criterion("N-A7")
@on_server
@pytest.mark.parametrize("is_deleted", [False, True], ids=["put in", "deleted"])
async def test_another_key_reaches_its_own_node_within_the_budget(
    harness: NodeSetHarness, place: Place, is_deleted: bool
) -> None:
    await place.apply(place.node_set(replicas=2))
    await place.settled()
    before = await place.uids()
    if is_deleted:
        await place.client.delete(SECRET, "hub-1-node-key", namespace=place.namespace)
    else:
        patch = {"stringData": {FILE: NodeKey.make().text}}
        await place.client.patch(SECRET, "hub-1-node-key", patch, namespace=place.namespace)
    texts = await notes(place, "PodReplaced", 2)
    assert "Pod hub-1 is made anew: its node key changed." in texts
    await place.settled()
    after = await place.uids()
    assert [after[name] != before[name] for name in ("hub-0", "hub-1")] == [True, True]
    pod = await place.object(POD, "hub-1")
    assert len(pod["metadata"]["annotations"][NODE_KEY_ID]) == 40
    if is_deleted:
        (made,) = await notes(place, "NodeKeyMade")
        assert made.startswith("Secret hub-1-node-key was gone: hub-1 gets a new key")
    await harness.idle()
    assert await place.uids() == after, "once"


@pytest.mark.criterion("N-A7")
@on_server
@pytest.mark.parametrize("is_held", [False, True], ids=["as built", "held"])
async def test_a_pod_without_the_record_gets_it_in_place(
    harness: NodeSetHarness, place: Place, monkeypatch: pytest.MonkeyPatch, is_held: bool
) -> None:
    """As those have none that an older manager made, which would be built in another way now."""
    await place.apply(place.node_set(replicas=1))
    await place.settled()
    before = await place.uids()
    if is_held:
        monkeypatch.setattr(pod_builder, "GRACE_SECONDS", 31)
    patch = {"metadata": {"annotations": {NODE_KEY_ID: None}}}
    await place.client.patch(POD, "hub-0", patch, namespace=place.namespace)
    await place.until_object(
        POD, "hub-0", lambda pod: NODE_KEY_ID in pod["metadata"]["annotations"]
    )
    await harness.idle()
    assert await place.uids() == before
    key = {"stringData": {FILE: NodeKey.make().text}}
    await place.client.patch(SECRET, "hub-0-node-key", key, namespace=place.namespace)
    assert await notes(place, "PodReplaced") == ["Pod hub-0 is made anew: its node key changed."]


@pytest.mark.criterion("N-A11")
@on_server
async def test_pods_that_end_at_once_are_made_anew_less_and_less_often(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first at once, the second after a wait in which its reason stays to be read."""
    monkeypatch.setattr(ended_pods, "FIRST", 600)  # longer than any machine takes for the rest
    await place.apply(place.node_set(replicas=1))
    await place.settled()
    ended = {"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough"}
    uid = (await place.uids())["hub-0"]
    await place.client.patch_status(POD, "hub-0", {"status": ended}, namespace=place.namespace)
    # Once it runs: a node that begins it would take the end away again.
    second = await place.until_object(POD, "hub-0", lambda pod: is_another(pod, uid))
    await place.client.patch_status(POD, "hub-0", {"status": ended}, namespace=place.namespace)
    first, later = sorted(await notes(place, "PodEnded", 2), key=len)
    assert first.endswith("has ended: OutOfcpu: Node didn't have enough. It is made anew.")
    assert later.endswith("It is made anew in 300 s: those before it ended too.")
    assert (await place.uids())["hub-0"] == second["metadata"]["uid"]
    await place.until(lambda found: "has ended: OutOfcpu" in found.status.status)


def is_another(pod: Manifest | None, uid: str) -> bool:
    """Whether a Pod is not the one of that UID, and runs."""
    if pod is None or pod["metadata"]["uid"] == uid:
        return False
    return bool(pod.get("status", {}).get("phase") == "Running")


@pytest.mark.criterion("N-A11")
def test_the_wait_doubles_while_pods_end_soon_and_begins_anew_after_one_that_lasted() -> None:
    clock = StepClock()
    ended, decoder = EndedPods(clock.now), EntryDecoder(POD.gvk)

    def end(uid: str, age: float = 0.0) -> float:
        clock.step(seconds=age)
        metadata = {"name": "hub-0", "namespace": "a", "uid": uid, "creationTimestamp": created}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
        return ended.wait("set", decoder.decode_manifest(pod))[0]

    waits = []
    for number in range(9):
        created = clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        waits.append(end(str(number), age=1))
        clock.step(seconds=waits[-1])
        assert end(str(number)) == 0
    assert waits == [0, 5, 10, 20, 40, 80, 160, LONGEST, LONGEST]
    created = clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    assert end("lasted", age=3600) == 0


async def least(place: Place, wanted: int | None) -> None:
    """Wait until the budget keeps so many nodes; None: there is none."""
    await place.until_object(
        BUDGET, NAME, lambda item: (item and item["spec"]["minAvailable"]) == wanted
    )


@pytest.mark.criterion("N-A17")
@on_server
async def test_a_set_has_a_disruption_budget_with_the_number_of_its_rollouts(place: Place) -> None:
    """A rollout goes on while it permits nothing, and it goes with the set."""
    await place.apply(place.node_set(replicas=3))
    await place.settled()
    await least(place, 2)
    found = await place.object(BUDGET, NAME)
    pod = await place.object(POD, "hub-0")
    assert selector_matches(found["spec"]["selector"], pod["metadata"]["labels"])
    assert found["metadata"]["ownerReferences"][0]["kind"] == "CosmosFullNode"
    blocked = {"status": {"disruptionsAllowed": 0, "observedGeneration": 1}}
    await place.client.patch_status(BUDGET, NAME, blocked, namespace=place.namespace)
    await place.edit(podTemplate={"image": "gaia:v2"})
    await place.settled()
    await place.edit(strategy={"maxUnavailable": 2})
    await least(place, 1)
    await place.edit(disruptionBudget={"maxUnavailable": 0})
    await least(place, 3)
    await place.edit(disruptionBudget={"enabled": False})
    await least(place, None)
    await place.edit(disruptionBudget=None, instanceOverrides={"hub-2": {"disable": "Pod"}})
    await least(place, None)
    await place.edit(strategy={"maxUnavailable": 1})
    await least(place, 1)
    await place.clear()
    await place.gone()
    await least(place, None)


@pytest.mark.criterion("N-A17")
@on_server
async def test_a_set_of_one_has_a_disruption_budget_only_if_it_is_wanted(
    harness: NodeSetHarness, place: Place
) -> None:
    await place.apply(place.node_set(replicas=1))
    await place.settled()
    await harness.idle()
    assert await place.names(BUDGET) == []
    await place.edit(disruptionBudget={"maxUnavailable": 0})
    await least(place, 1)


@pytest.mark.criterion("N-A17")
@on_server
@pytest.mark.parametrize("is_new", [False, True], ids=["existing", "new"])
async def test_none_is_made_beside_a_disruption_budget_of_another_owner(
    harness: NodeSetHarness, place: Place, is_new: bool
) -> None:
    """A Pod of two cannot be evicted at all. A new set has no Pods yet that would show it."""
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app.kubernetes.io/name": NAME}}}
    metadata = {"name": "by-hand", "namespace": place.namespace}
    mine = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata}
    manifest = place.node_set(replicas=2, disruptionBudget={"enabled": False})
    if not is_new:
        await place.apply(manifest)
        await place.settled()
    await place.client.create({**mine, "spec": spec})
    if is_new:
        await place.apply(place.node_set(replicas=2))
        await place.settled()
    else:
        await place.edit(disruptionBudget={"enabled": True})
    (note,) = await notes(place, "DisruptionBudgetExists")
    assert note.startswith("PodDisruptionBudget by-hand is of another owner")
    await harness.idle()
    assert await place.names(BUDGET) == ["by-hand"]


@pytest.mark.criterion("N-A21")
@on_server
async def test_a_node_is_asked_where_overrides_have_it_listen(
    harness: NodeSetHarness, place: Place
) -> None:
    """Overrides that would lose a table are refused, and nothing is rolled for them."""
    moved = f'[rpc]\nladdr = "tcp://0.0.0.0:{harness.comet.port}"'
    config = {"rpcListenAddress": "tcp://0.0.0.0:26657", "overrides": moved}
    await place.apply(place.node_set(replicas=1, chain={"config": config}))
    await place.settled()
    before = await place.uids()
    await place.edit(chain={"config": {"overrides": f'p2p = "text"\n{moved}'}})
    found = await place.phase("Error")
    assert "spec.chain.config.overrides: p2p is a table" in found.status.status
    ready = find_condition(found.status.conditions, "Ready")
    assert ready is not None
    assert ready.reason == "InvalidSpec"
    await place.edit(chain={"config": {"overrides": moved}})
    await place.settled()
    assert await place.uids() == before


@pytest.mark.criterion("N-A15")
@on_server
async def test_how_full_disks_are_is_in_the_status_and_one_that_does_not_grow_a_condition(
    harness: NodeSetHarness, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labels, "HEALTH_PORT", harness.comet.port)
    place.node(1).disk_free = place.node(1).disk_total * 3 // 100
    await place.apply(place.node_set(replicas=2))
    await place.until(lambda found: shows(found, "DisksFull", "NoAutoScale"))
    # Usages that came later than the first answers are written within a minute.
    await place.until(lambda found: usages(found) == {"hub-0": 40, "hub-1": 97})
    (note,) = await notes(place, "DisksFull")
    assert note.startswith("pvc-hub-1: 90% are used or more. Raise")
    scale = {"usedSpacePercentage": 80, "increaseQuantity": "20%", "maxSize": "1Gi"}
    await place.edit(selfHeal={"pvcAutoScale": scale})
    await place.until(lambda found: shows(found, "DisksFull", "AtCeiling"))
    place.node(1).disk_free = place.node(1).disk_total // 2
    await place.until(lambda found: find_condition(found.status.conditions, "DisksFull") is None)


def usages(found: CosmosFullNode) -> dict[str, int | None]:
    return {pod: info.disk_used_percentage for pod, info in found.status.sync.items()}


def shows(found: CosmosFullNode, kind: str, reason: str) -> bool:
    condition = find_condition(found.status.conditions, kind)
    return condition is not None and (condition.status, condition.reason) == ("True", reason)

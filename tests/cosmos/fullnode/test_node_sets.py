"""Sets of nodes from apply to gone: what they have, how it is scaled, kept and put right."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from apis.cosmos import CosmosFullNode
from ctrlruntime.api import Manifest, find_condition
from ctrlruntime.client.errors import Invalid
from ctrlruntime.envtest.proxy import Fail, Match, Rule
from internal.cosmos.fullnode import pod_builder
from internal.cosmos.labels import FINALIZER
from tests.cosmos.fullnode.harness import (
    CLAIM,
    CONFIG_MAP,
    NAME,
    POD,
    SECRET,
    SERVICE,
    NodeSetHarness,
    Place,
    pods,
)
from tests.cosmos.servers.snapshotcrds import SNAPSHOT, SNAPSHOT_CRDS

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("sets of nodes"),
]

CLAIMS = [f"pvc-{NAME}-{number}" for number in range(5)]


@pytest.mark.criterion("COSMOS-A2-2")
async def test_from_apply_to_complete_then_silence_and_a_restart_that_writes_nothing(
    harness: NodeSetHarness, place: Place
) -> None:
    await place.apply(place.node_set())
    found = await place.settled()
    assert await place.names(POD) == pods(range(3))
    assert await place.names(CLAIM) == CLAIMS[:3]
    assert await place.names(CONFIG_MAP) == pods(range(3))
    assert await place.names(SECRET) == [f"{name}-node-key" for name in pods(range(3))]
    assert "hub-rpc" in await place.names(SERVICE)
    assert found.status.height == dict.fromkeys(pods(range(3)), harness.comet.height + 1)
    assert found.status.sidecar_image == "manager:v1"
    assert [item.type for item in found.status.conditions if item.status == "True"] == [
        "ClaimsAsSpecified",
        "Ready",
    ]
    pod = await place.object(POD, "hub-0")
    owner = pod["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("CosmosFullNode", NAME, True)

    await harness.idle()
    at_rest = harness.mark()
    await harness.stop_manager()
    await harness.start_manager()
    await place.polled()
    assert place.writes(at_rest) == []
    assert {item.verb for item in harness.requests(at_rest)} <= {"list"}
    before = harness.comet.questions
    silence = harness.mark()
    await harness.comet.until_asked("hub-0", place.namespace, more=5)
    assert harness.comet.questions > before
    assert place.requests(silence) == [], "the nodes were asked, the server was not"

    harness.comet.advance(7)
    await harness.comet.until_asked("hub-0", place.namespace, more=5)
    writes = place.writes(silence)
    assert len(writes) <= 1, "heights alone are written once a minute at most"


@pytest.mark.criterion("COSMOS-A2-5", "COSMOS-A10-23")
async def test_kubectl_scale_and_the_highest_goes_first(
    harness: NodeSetHarness, place: Place
) -> None:
    await place.apply(place.node_set())
    await place.settled()
    scale = await place.client.get_scale(CosmosFullNode, NAME, namespace=place.namespace)
    assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (3, 3)
    selector = scale["status"]["selector"]
    chosen = await place.client.list(POD, place.namespace, labels=selector)
    assert len(chosen) == 3

    await place.client.patch_scale(CosmosFullNode, NAME, 5, namespace=place.namespace)
    await place.settled()
    assert await place.names(CLAIM) == CLAIMS
    await harness.idle()

    before = await place.uids()
    down = harness.mark()
    await place.client.patch_scale(CosmosFullNode, NAME, 2, namespace=place.namespace)
    found = await place.settled()
    gone = place.deletions(down)
    assert gone[:3] == ["hub-4", "hub-3", "hub-2"]
    assert await place.names(CLAIM) == CLAIMS, "more disks than one wait for an approval"
    await place.edit(deletions={"maxPercent": 100, "maxWithState": 3})
    await place.until_object(CLAIM, CLAIMS[2], lambda claim: claim is None)
    found = await place.until(lambda each: set(each.status.height) == set(pods(range(2))))
    assert await place.names(CLAIM) == CLAIMS[:2]
    assert await place.names(POD) == pods(range(2))
    assert found.status.replicas == 2
    assert set(found.status.height) == set(pods(range(2)))
    assert set(before) == set(pods(range(5)))
    names = await place.names(SECRET)
    assert "hub-4-node-key" in names, "a node that comes back is known to its peers"


@pytest.mark.criterion("COSMOS-A2-30")
async def test_retained_claims_come_back_with_their_nodes(place: Place) -> None:
    await place.apply(place.node_set(replicas=2, volumeRetentionPolicy="Retain"))
    await place.settled()
    kept = await place.object(CLAIM, CLAIMS[1])
    key = await place.object(SECRET, "hub-1-node-key")
    await place.edit(replicas=1)
    found = await place.settled()
    assert (await place.object(CLAIM, CLAIMS[1]))["metadata"]["uid"] == kept["metadata"]["uid"]
    assert "hub-1" in found.status.height, "its disk is there, and so is what is known of it"
    await place.edit(replicas=2)
    await place.settled()
    assert (await place.object(CLAIM, CLAIMS[1]))["metadata"]["uid"] == kept["metadata"]["uid"]
    assert (await place.object(SECRET, "hub-1-node-key"))["data"] == key["data"]


@pytest.mark.criterion("COSMOS-A10-445")
async def test_numbers_start_at_the_given_ordinal(place: Place) -> None:
    await place.apply(place.node_set(replicas=2, ordinals={"start": 4}))
    await place.settled()
    assert await place.names(POD) == pods([4, 5])


@pytest.mark.criterion("COSMOS-A2-34")
async def test_a_set_goes_with_all_it_has_by_its_owner_references(
    harness: NodeSetHarness, place: Place
) -> None:
    """The embedded server collects garbage, as a cluster does; the manager takes the finalizer off."""
    await place.apply(place.node_set(replicas=1, deletionProtection=False))
    found = await place.settled()
    assert found.metadata.finalizers == [FINALIZER]
    gone = harness.mark()
    await place.client.delete(CosmosFullNode, NAME, namespace=place.namespace)
    for kind in (POD, CLAIM, SERVICE, CONFIG_MAP, SECRET):
        for name in await place.names(kind):
            await place.until_object(kind, name, lambda item: item is None)
    writes = [(item.verb, item.resource) for item in place.writes(gone)]
    assert writes == [("patch", "cosmosfullnodes.cosmos.ctrlruntime.dev")]


@pytest.mark.criterion("COSMOS-A2-4")
async def test_what_hands_change_or_delete_is_put_right(
    harness: NodeSetHarness, place: Place
) -> None:
    await place.apply(place.node_set(replicas=1))
    await place.settled()
    before = await place.uids()
    config = await place.object(CONFIG_MAP, "hub-0")
    await place.client.patch(
        CONFIG_MAP,
        "hub-0",
        {"data": {"app-overlay.toml": "mine = true\n"}},
        namespace=place.namespace,
    )
    await place.until_object(CONFIG_MAP, "hub-0", lambda item: item["data"] == config["data"])
    labels = {"metadata": {"labels": {"app.kubernetes.io/instance": "other"}}}
    await place.client.patch(POD, "hub-0", labels, namespace=place.namespace)
    await place.until_object(
        POD,
        "hub-0",
        lambda item: item["metadata"]["labels"]["app.kubernetes.io/instance"] == "hub-0",
    )
    await harness.idle()
    assert await place.uids() == before, "nothing of it takes a Pod down"

    for kind, name in ((SERVICE, "hub-rpc"), (CONFIG_MAP, "hub-0"), (POD, "hub-0")):
        old = (await place.object(kind, name))["metadata"]["uid"]
        await place.client.delete(kind, name, namespace=place.namespace)

        def is_another(item: Manifest | None, old: str = old) -> bool:
            return item is not None and item["metadata"]["uid"] != old

        await place.until_object(kind, name, is_another)
    await place.settled()


@pytest.mark.criterion("COSMOS-A2-13")
async def test_a_key_of_ones_own_is_kept_and_sent_to_peers(place: Place) -> None:
    await place.apply(place.node_set(replicas=2))
    await place.settled()
    other = await place.object(SECRET, "hub-1-node-key")
    patch = {"data": other["data"]}
    await place.client.patch(SECRET, "hub-0-node-key", patch, namespace=place.namespace)
    first = (await place.object(CONFIG_MAP, "hub-1"))["data"]
    await place.until_object(CONFIG_MAP, "hub-1", lambda item: item["data"] != first)
    await place.settled()
    assert (await place.object(SECRET, "hub-0-node-key"))["data"] == other["data"]

    bad = {"data": {"node_key.json": base64.b64encode(b"{}").decode()}}
    await place.client.patch(SECRET, "hub-0-node-key", bad, namespace=place.namespace)
    found = await place.phase("Error")
    assert "hub-0-node-key" in found.status.status
    assert (await place.object(SECRET, "hub-0-node-key"))["data"] == bad["data"]


async def test_a_foreign_pod_is_left_alone_and_all_else_is_done(
    harness: NodeSetHarness, place: Place
) -> None:
    foreign: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "hub-1", "namespace": place.namespace},
        "spec": {"containers": [{"name": "theirs", "image": "theirs:1"}]},
    }
    made = await place.client.create(foreign, kind=POD)
    await place.apply(place.node_set())
    found = await place.phase("Error")
    assert "hub-1" in found.status.status
    await place.until(lambda found: found.status.ready_replicas == 2)
    assert await place.names(CLAIM) == CLAIMS[:3], "later steps were taken too"
    assert (await place.uids())["hub-1"] == made["metadata"]["uid"]
    await place.until_event("Error")

    await place.client.delete(POD, "hub-1", namespace=place.namespace)
    await place.settled()


@pytest.mark.criterion("COSMOS-A2-9")
async def test_a_failure_that_passes_is_distinguished_and_keeps_no_step_from_being_taken(
    harness: NodeSetHarness, place: Place
) -> None:
    proxy = harness.environment.proxy
    refusal = Rule(
        match=Match(verb="apply", resource="services", namespace=place.namespace),
        action=Fail(code=503, message="overloaded by the test"),
        times=None,
    )
    rule = proxy.add_rule(refusal)
    try:
        await place.apply(place.node_set(replicas=1))
        found = await place.phase("TransientError")
        assert "overloaded by the test" in found.status.status
        assert await place.names(POD) == ["hub-0"], "later steps were taken too"
        await place.until_object(POD, "hub-0", lambda pod: pod is not None)
    finally:
        proxy.remove(rule)
    await place.settled()
    await place.until_event("ErrorTransient")


async def test_what_cannot_be_built_is_an_error_that_names_the_field(place: Place) -> None:
    await place.apply(place.node_set(replicas=1))
    await place.settled()
    before = await place.uids()
    await place.edit(chain={"config": {"overrides": "this is = not [ toml"}})
    found = await place.phase("Error")
    assert "overrides" in found.status.status
    assert await place.uids() == before
    await place.edit(chain={"config": {"overrides": None}})
    await place.settled()
    assert await place.uids() == before


@pytest.mark.criterion("COSMOS-A2-6")
async def test_a_step_that_fails_as_a_whole_keeps_no_other_from_being_taken(
    place: Place,
) -> None:
    beside = {"name": NAME, "spec": {"containers": [{"name": "index", "image": "index:1"}]}}
    await place.apply(place.node_set(replicas=1, additionalVersionedPods=[beside]))
    found = await place.phase("Error")
    assert "additionalVersionedPods" in found.status.status
    assert await place.names(POD) == ["hub-0"]
    assert await place.names(CLAIM) == CLAIMS[:1], "the step after it"
    await place.edit(additionalVersionedPods=[{**beside, "name": "index"}])
    await place.settled()
    assert await place.names(POD) == ["hub-0", "index-0"]


async def test_the_spec_of_a_further_pod_may_stand_beside_its_name(place: Place) -> None:
    containers = [{"name": "index", "image": "index:1"}]
    inline = {"name": "index", "containers": containers, "terminationGracePeriodSeconds": 7}
    both = {**inline, "spec": {"containers": containers}}
    with pytest.raises(Invalid, match="below spec, or its fields beside name"):
        await place.apply(place.node_set(replicas=1, additionalVersionedPods=[both]))
    await place.apply(place.node_set(replicas=1, additionalVersionedPods=[inline]))
    await place.settled()
    assert await place.names(POD) == ["hub-0", "index-0"]
    spec = (await place.object(POD, "index-0"))["spec"]
    assert spec["terminationGracePeriodSeconds"] == 7
    assert spec["containers"][0]["image"] == "index:1"


@pytest.mark.criterion("COSMOS-A10-91")
async def test_instances_are_overridden(place: Place) -> None:
    overrides = {
        "hub-0": {"disable": "Pod"},
        "hub-1": {"image": "gaia:patched", "nodeSelector": {"disk": "fast"}},
        "hub-2": {"disable": "All"},
    }
    await place.apply(place.node_set(instanceOverrides=overrides))
    found = await place.phase("Complete")
    await place.until(lambda found: found.status.ready_replicas == 1)
    assert await place.names(POD) == ["hub-1"]
    assert await place.names(CLAIM) == CLAIMS[:2]
    pod = await place.object(POD, "hub-1")
    node = next(item for item in pod["spec"]["containers"] if item["name"] == "node")
    assert node["image"] == "gaia:patched"
    assert pod["spec"]["nodeSelector"] == {"disk": "fast"}
    await place.edit(instanceOverrides=None)
    found = await place.settled()
    assert await place.names(POD) == pods(range(3))
    assert found.status.ready_replicas == 3


@pytest.mark.criterion("COSMOS-A2-32")
async def test_disks_grow_and_what_cannot_be_changed_is_reported(place: Place) -> None:
    await place.apply(place.node_set(replicas=1))
    await place.settled()
    before = await place.uids()
    await place.edit(volumeClaimTemplate={"resources": {"requests": {"storage": "2Gi"}}})
    await place.until_object(
        CLAIM, CLAIMS[0], lambda item: item["spec"]["resources"]["requests"]["storage"] == "2Gi"
    )
    await place.edit(volumeClaimTemplate={"storageClassName": "fixed"})
    found = await place.until(lambda found: _claims(found) == "False")
    condition = find_condition(found.status.conditions, "ClaimsAsSpecified")
    assert condition is not None
    assert condition.reason == "ImmutableFieldChanged"
    assert "storageClassName" in condition.message
    await place.until_event("ImmutableFieldChanged")
    await place.edit(volumeClaimTemplate={"storageClassName": "standard"})
    await place.until(lambda found: _claims(found) == "True")
    assert await place.uids() == before


@pytest.mark.criterion("COSMOS-A2-11")
async def test_load_balancers_are_waited_for_and_their_addresses_reported(place: Place) -> None:
    await place.apply(place.node_set(replicas=2, service={"maxP2PExternalAddresses": 1}))
    found = await place.until(lambda found: bool(found.status.peers))
    service = await place.object(SERVICE, "hub-p2p-0")
    address = service["status"]["loadBalancer"]["ingress"][0]["ip"]
    assert [peer.partition("@")[2] for peer in found.status.peers] == [f"{address}:26656"]
    await place.settled()


@pytest.mark.criterion("COSMOS-A2-31")
async def test_a_claim_is_made_once_there_is_what_it_is_filled_from(
    harness: NodeSetHarness, place: Place
) -> None:
    """First the cluster does not even serve snapshots."""
    auto = {"volumeSnapshotSelector": {"chain": "hub"}}
    await place.apply(place.node_set(replicas=1, volumeClaimTemplate={"autoDataSource": auto}))
    found = await place.phase("Progressing")
    condition = find_condition(found.status.conditions, "CRDsAvailable")
    assert condition is not None
    assert condition.status == "False"
    await place.until_event("AutoDataSourceFindSnapshot")
    assert await place.names(CLAIM) == []

    await harness.environment.install_crds(*SNAPSHOT_CRDS)
    snapshot = {
        "apiVersion": SNAPSHOT.api_version,
        "kind": SNAPSHOT.kind,
        "metadata": {"name": "first", "namespace": place.namespace, "labels": {"chain": "hub"}},
        "spec": {"source": {"persistentVolumeClaimName": "other"}},
    }
    await place.client.create(snapshot)
    taken = {"readyToUse": True, "creationTime": "2026-05-01T00:00:00Z", "restoreSize": "3Gi"}
    await place.client.patch_status(SNAPSHOT, "first", {"status": taken}, namespace=place.namespace)
    await place.until_object(CLAIM, CLAIMS[0], lambda claim: claim is not None)
    claim = await place.object(CLAIM, CLAIMS[0])
    assert claim["spec"]["dataSource"]["name"] == "first"
    assert claim["spec"]["resources"]["requests"]["storage"] == "3Gi"
    await place.settled()


async def test_a_claim_is_filled_from_another_that_is_waited_for(place: Place) -> None:
    source = {"kind": "PersistentVolumeClaim", "name": "template"}
    await place.apply(place.node_set(replicas=1, volumeClaimTemplate={"dataSource": source}))
    await place.until_event("DataSourceGetPVC")
    assert await place.names(CLAIM) == []
    await place.client.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "template", "namespace": place.namespace},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
    )
    await place.until_object(CLAIM, CLAIMS[0], lambda claim: claim is not None)
    claim = await place.object(CLAIM, CLAIMS[0])
    assert claim["spec"]["dataSource"] == source
    await place.client.delete(CLAIM, "template", namespace=place.namespace)
    await place.settled()


@pytest.mark.criterion("COSMOS-A2-3")
async def test_what_only_a_new_manager_would_change_is_held_back_until_it_is_requested(
    harness: NodeSetHarness, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await place.apply(place.node_set(replicas=2))
    await place.settled()
    before = await place.uids()
    await harness.idle()
    await harness.stop_manager()
    monkeypatch.setattr(pod_builder, "GRACE_SECONDS", 31)
    at_rest = harness.mark()
    await harness.start_manager()
    found = await place.until(
        lambda found: find_condition(found.status.conditions, "BuilderChangeHeld") is not None
    )
    condition = find_condition(found.status.conditions, "BuilderChangeHeld")
    assert condition is not None
    assert "hub-0" in condition.message
    await harness.idle()
    assert await place.uids() == before
    assert place.deletions(at_rest) == []

    await place.edit(strategy={"builderChanges": "Roll"})
    await place.until_object(POD, "hub-1", lambda pod: pod is not None and _grace(pod) == 31)
    found = await place.settled()
    assert find_condition(found.status.conditions, "BuilderChangeHeld") is None
    assert not set((await place.uids()).values()) & set(before.values())


def _grace(pod: dict[str, Any]) -> int:
    return int(pod["spec"]["terminationGracePeriodSeconds"])


async def test_a_template_that_is_no_spec_is_refused_by_the_server(place: Place) -> None:
    manifest = place.node_set()
    del manifest["spec"]["chain"]["network"]
    with pytest.raises(Invalid):
        await place.apply(manifest)


def _claims(found: CosmosFullNode) -> str:
    condition = find_condition(found.status.conditions, "ClaimsAsSpecified")
    return "" if condition is None else condition.status


@pytest.mark.criterion("H-C5")
async def test_h_c5_a_template_that_shrinks_is_reported_and_the_claims_stay(place: Place) -> None:
    disk = {"resources": {"requests": {"storage": "2Gi"}}}
    await place.apply(place.node_set(replicas=2, volumeClaimTemplate=disk))
    await place.settled()
    await place.edit(volumeClaimTemplate={"resources": {"requests": {"storage": "1Gi"}}})

    def is_reported(found: CosmosFullNode) -> bool:
        condition = find_condition(found.status.conditions, "ClaimsAsSpecified")
        return condition is not None and condition.reason == "CannotShrink"

    found = await place.until(is_reported)
    condition = find_condition(found.status.conditions, "ClaimsAsSpecified")
    assert condition is not None
    assert condition.status == "False"
    assert "pvc-hub-0 has 2Gi, not 1Gi; pvc-hub-1 has 2Gi, not 1Gi" in condition.message
    claim = await place.object(CLAIM, CLAIMS[0])
    assert claim["spec"]["resources"]["requests"]["storage"] == "2Gi"
    await place.until_event("CannotShrink")
    await place.edit(volumeClaimTemplate=disk)
    await place.until(lambda found: not is_reported(found))


@pytest.mark.criterion("H-A10")
@pytest.mark.parametrize("spec", [{"replicas": 0}, {"chain": {"config": {"overrides": "["}}}])
async def test_h_a10_the_column_of_ready_nodes_shows_a_zero(
    place: Place, spec: dict[str, Any]
) -> None:
    """From the first status on, also of a set that cannot be reconciled."""
    await place.apply(place.node_set(**spec))
    await place.until(lambda found: found.status.observed_generation == found.metadata.generation)
    stored = await place.object(CosmosFullNode.mapping(), NAME)
    assert stored["status"]["readyReplicas"] == 0

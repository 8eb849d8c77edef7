"""Labels of a set are on everything that it has, and a change of them restarts nothing."""

from __future__ import annotations

import pytest

from apis.cosmos import CosmosFullNode
from ctrlruntime.api import Manifest
from ctrlruntime.api.kinds import RESTMapping
from internal.cosmos.fullnode.desired_objects import ACCOUNT, ROLE, ROLE_BINDING
from internal.cosmos.labels import CREATED_BY, INSTANCE
from tests.cosmos.fullnode.harness import (
    CLAIM,
    CONFIG_MAP,
    NAME,
    POD,
    SECRET,
    SERVICE,
    NodeSetHarness,
    Place,
)

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("sets of nodes"),
    pytest.mark.criterion("H-C7"),
]

ALL: tuple[tuple[RESTMapping, str], ...] = (
    (POD, "hub-0"),
    (CLAIM, "pvc-hub-0"),
    (SERVICE, "hub-p2p-0"),
    (SERVICE, "hub-rpc"),
    (CONFIG_MAP, "hub-0"),
    (SECRET, "hub-0-node-key"),
    (ACCOUNT, "hub-vc-sa"),
    (ROLE, "hub-vc-r"),
    (ROLE_BINDING, "hub-vc-rb"),
)


async def label(place: Place, **labels: str | None) -> None:
    """Change labels of the set."""
    patch = {"metadata": {"labels": labels}}
    await place.client.patch(
        CosmosFullNode, NAME, patch, namespace=place.namespace, field_manager="people"
    )


async def test_h_c7_labels_of_a_set_are_on_its_objects(
    harness: NodeSetHarness, place: Place
) -> None:
    """Also after a change, without another Pod; those that objects are found by, or have themselves, stay."""
    given = place.node_set(replicas=1, podTemplate={"metadata": {"labels": {"tier": "pods"}}})
    given["metadata"]["labels"] = {"team": "chains", "tier": "set", CREATED_BY: "x", INSTANCE: "y"}
    await place.apply(given)
    await place.settled()
    for kind, name in ALL:
        labels = (await place.object(kind, name))["metadata"]["labels"]
        assert labels["team"] == "chains", name
        assert labels["tier"] == ("pods" if kind is POD else "set")
        assert labels[CREATED_BY] == "cosmos-manager"
        assert labels.get(INSTANCE) != "y"
    await harness.idle()
    began, running = harness.mark(), await place.uids()
    await label(place, team="nodes", cost="7", tier=None)
    for kind, name in ALL:

        def is_new(found: Manifest, kind: RESTMapping = kind) -> bool:
            labels = found["metadata"]["labels"]
            tier = "pods" if kind is POD else None
            return (labels.get("team"), labels.get("cost"), labels.get("tier")) == (
                "nodes",
                "7",
                tier,
            )

        await place.until_object(kind, name, is_new)
    await label(place, team=None, cost=None)
    for kind, name in ALL:
        await place.until_object(kind, name, lambda item: "team" not in item["metadata"]["labels"])
        assert "cost" not in (await place.object(kind, name))["metadata"]["labels"]
    await place.settled()
    await harness.idle()
    assert await place.uids() == running
    assert place.deletions(began) == []


async def test_h_c7_an_inherited_label_that_is_changed_by_hand_is_put_back(
    harness: NodeSetHarness, place: Place
) -> None:
    given = place.node_set(replicas=1)
    given["metadata"]["labels"] = {"team": "chains"}
    await place.apply(given)
    await place.settled()
    await harness.idle()
    running = await place.uids()
    for kind, name in ALL:
        for value in ("mine", None):
            patch = {"metadata": {"labels": {"team": value}}}
            await place.client.patch(
                kind, name, patch, namespace=place.namespace, field_manager="people"
            )
            await place.until_object(
                kind, name, lambda item: item["metadata"]["labels"].get("team") == "chains"
            )
    assert await place.uids() == running

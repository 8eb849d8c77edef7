"""Who the nodes are to each other, and to peers outside."""

from __future__ import annotations

from typing import Any

import pytest

from internal.cosmos.fullnode.peers import Peers, build_peers, external_address

from .samples import balanced, key, keys_of, node_set


def peers(*services: dict[str, Any], **changes: object) -> Peers:
    nodes = node_set(**changes)
    return build_peers(nodes, keys_of(nodes), {each["metadata"]["name"]: each for each in services})


@pytest.mark.criterion("COSMOS-A2-14")
def test_nodes_find_each_other_within_the_cluster() -> None:
    made = peers(replicas=3)
    assert [peer.private_peer for peer in made.others("test-1")] == [
        f"{key(0).id}@test-p2p-0.chains.svc.cluster.local:26656",
        f"{key(2).id}@test-p2p-2.chains.svc.cluster.local:26656",
    ]
    assert made.get("test-1") in made.nodes
    assert made.get("other") is None


def test_a_node_without_key_is_no_peer() -> None:
    nodes = node_set(replicas=2)
    assert [peer.pod for peer in build_peers(nodes, {"test-1": key(1)}, {}).nodes] == ["test-1"]


@pytest.mark.parametrize(
    ("ingress", "address"),
    [
        ({"ip": "203.0.113.7"}, "203.0.113.7:26656"),
        ({"hostname": "lb.example.com"}, "lb.example.com:26656"),
        ({"ip": "2001:db8::7"}, "[2001:db8::7]:26656"),
        ({}, ""),
    ],
)
def test_addresses_of_load_balancers(ingress: dict[str, str], address: str) -> None:
    assert external_address(balanced(node_set(), 0, **ingress)) == address
    made = peers(balanced(node_set(), 0, **ingress))
    assert made.external == ([f"{key(0).id}@{address}"] if address else [])
    assert made.awaited == ([] if address else ["test-0"])


def test_what_is_not_balanced_has_no_address_for_peers_outside() -> None:
    service = balanced(node_set(), 0, ip="203.0.113.7")
    service["spec"]["type"] = "ClusterIP"
    assert external_address(service) == ""
    assert external_address(None) == ""
    assert external_address({}) == ""


def test_an_address_is_awaited_only_where_one_is_to_come() -> None:
    assert peers(replicas=3).awaited == ["test-0"]
    assert peers(replicas=3, service={"maxP2PExternalAddresses": 2}).awaited == ["test-0", "test-1"]
    assert peers(service={"maxP2PExternalAddresses": 0}).awaited == []
    assert peers(service={"p2pTemplate": {"type": "NodePort"}}).awaited == []
    own = {"test-0": {"externalAddress": "me.example:1"}}
    made = peers(instanceOverrides=own)
    assert made.awaited == []
    assert made.external == [f"{key(0).id}@me.example:1"]

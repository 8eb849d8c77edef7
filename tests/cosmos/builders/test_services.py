"""Services: for requests, for peers, for signers."""

from __future__ import annotations

from typing import Any

import pytest

from internal.cosmos import labels as label_keys
from internal.cosmos.fullnode.service_builder import build_services

from .samples import node_set

Manifest = dict[str, Any]


def services(**changes: object) -> dict[str, Manifest]:
    return {item.name: item.manifest for item in build_services(node_set(**changes))}


def test_one_for_each_node_and_one_for_requests() -> None:
    made = build_services(node_set(replicas=2, ordinals={"start": 3}))
    assert [item.name for item in made] == ["test-p2p-3", "test-p2p-4", "test-rpc"]
    assert [item.instance for item in made] == [3, 4, None]


@pytest.mark.criterion("COSMOS-A2-12")
def test_requests_go_to_the_nodes_and_to_nothing_beside_them() -> None:
    made = services()["test-rpc"]
    assert made["spec"]["selector"] == {
        label_keys.NAME: "test",
        label_keys.COMPONENT: "CosmosFullNode",
    }
    ports = {each["name"]: (each["port"], each["targetPort"]) for each in made["spec"]["ports"]}
    assert ports == {
        "api": (1317, "api"),
        "rosetta": (8080, "rosetta"),
        "grpc": (9090, "grpc"),
        "rpc": (26657, "rpc"),
        "grpc-web": (9091, "grpc-web"),
    }
    assert made["spec"]["type"] == "ClusterIP"
    assert made["metadata"]["labels"][label_keys.COMPONENT] == "rpc"


def test_peers_reach_one_node_each() -> None:
    made = services()["test-p2p-1"]
    assert made["spec"]["selector"] == {
        label_keys.NAME: "test",
        label_keys.COMPONENT: "CosmosFullNode",
        label_keys.INSTANCE: "test-1",
    }
    assert [each["port"] for each in made["spec"]["ports"]] == [26656]
    assert made["metadata"]["labels"][label_keys.INSTANCE] == "test-1"


@pytest.mark.criterion("COSMOS-A2-11")
@pytest.mark.parametrize(("most", "external"), [(None, 1), (0, 0), (2, 2), (9, 3)])
def test_how_many_nodes_peers_outside_can_reach(most: int | None, external: int) -> None:
    service = {} if most is None else {"maxP2PExternalAddresses": most}
    made = services(replicas=3, ordinals={"start": 5}, service=service)
    types = [made[f"test-p2p-{ordinal}"]["spec"]["type"] for ordinal in (5, 6, 7)]
    assert types == ["LoadBalancer"] * external + ["ClusterIP"] * (3 - external)
    for each in made.values():
        wanted = "Local" if each["spec"]["type"] == "LoadBalancer" else None
        assert each["spec"].get("externalTrafficPolicy") == wanted


@pytest.mark.parametrize(
    ("template", "name", "usual"),
    [("p2pTemplate", "test-p2p-0", "LoadBalancer"), ("rpcTemplate", "test-rpc", "ClusterIP")],
)
def test_what_a_template_defines(template: str, name: str, usual: str) -> None:
    assert services()[name]["spec"]["type"] == usual
    given = {
        "metadata": {"labels": {"team": "a", label_keys.NAME: "no"}, "annotations": {"b": "c"}},
        "type": "NodePort",
        "clusterIP": "10.0.0.7",
        "externalTrafficPolicy": "Cluster",
        "ports": [
            {"name": "p2p", "nodePort": 30001},
            {"name": "grpc", "appProtocol": "h2c"},
            {"name": "own", "port": 7},
        ],
    }
    made = services(service={template: given})[name]
    assert made["metadata"]["labels"]["team"] == "a"
    assert made["metadata"]["labels"][label_keys.NAME] == "test"
    assert made["metadata"]["annotations"] == {"b": "c"}
    assert made["spec"]["type"] == "NodePort"
    assert made["spec"]["clusterIP"] == "10.0.0.7"
    assert made["spec"]["externalTrafficPolicy"] == "Cluster"
    ports = {each["name"]: each for each in made["spec"]["ports"]}
    assert ports["own"] == {"name": "own", "port": 7, "protocol": "TCP"}
    if template == "p2pTemplate":
        assert ports["p2p"] == {
            "name": "p2p",
            "port": 26656,
            "protocol": "TCP",
            "targetPort": "p2p",
            "nodePort": 30001,
        }
        others = services(service={template: given})["test-p2p-1"]
        assert others["spec"]["type"] == "ClusterIP"
        assert "team" not in others["metadata"]["labels"]
    else:
        assert ports["grpc"]["port"] == 9090
        assert ports["grpc"]["appProtocol"] == "h2c"


def test_a_service_within_the_cluster_has_no_policy_for_traffic_from_outside() -> None:
    made = services(service={"p2pTemplate": {"type": "ClusterIP"}})["test-p2p-0"]
    assert "externalTrafficPolicy" not in made["spec"]


@pytest.mark.criterion("COSMOS-A7-3", "COSMOS-A10-351")
def test_signers_find_sentries_before_they_are_ready() -> None:
    assert not [name for name in services() if "privval" in name]
    made = services(type="Sentry")
    each = made["test-privval-1"]
    assert {name for name in made if "privval" in name} == {"test-privval-0", "test-privval-1"}
    assert each["spec"]["publishNotReadyAddresses"] is True
    assert each["spec"]["type"] == "ClusterIP"
    assert each["spec"]["selector"][label_keys.INSTANCE] == "test-1"
    (port,) = each["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (1234, "privval")
    assert each["metadata"]["labels"][label_keys.COMPONENT] == "cosmos-sentry"

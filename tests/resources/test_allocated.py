"""Values that a server allocates for Services, carried over where all of a spec is replaced."""

from typing import Any

import pytest

from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.resources.allocated import SERVICE, with_allocated

LIVE: dict[str, Any] = {
    "type": "NodePort",
    "clusterIP": "10.0.0.7",
    "clusterIPs": ["10.0.0.7"],
    "ports": [
        {"port": 80, "protocol": "TCP", "nodePort": 30080},
        {"port": 53, "protocol": "UDP", "nodePort": 30053},
    ],
}
ADDRESSES = {"clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"]}


def test_addresses_and_node_ports_that_are_not_named_are_kept() -> None:
    wanted = {"type": "NodePort", "ports": [{"port": 53, "protocol": "UDP"}, {"port": 80}]}
    ports = [{"port": 53, "protocol": "UDP", "nodePort": 30053}, {"port": 80, "nodePort": 30080}]
    assert with_allocated(SERVICE, wanted, LIVE) == {
        "type": "NodePort",
        **ADDRESSES,
        "ports": ports,
    }
    assert "clusterIP" not in wanted, "what was given is as it was"


def test_what_is_named_is_written_as_it_is() -> None:
    wanted = {"type": "NodePort", "clusterIP": "None", "ports": [{"port": 80, "nodePort": 31000}]}
    assert with_allocated(SERVICE, wanted, LIVE) == wanted


@pytest.mark.parametrize(
    ("wanted", "kept"),
    [
        ({"ports": [{"port": 80}]}, ADDRESSES),
        ({"type": "NodePort", "ports": [{"port": 81}]}, ADDRESSES),
        ({"type": "ExternalName", "externalName": "example.com"}, {}),
    ],
    ids=["no-node-ports", "another-port", "no-addresses"],
)
def test_what_has_no_use_for_them_does_without(wanted: dict[str, Any], kept: Any) -> None:
    assert with_allocated(SERVICE, wanted, LIVE) == wanted | kept


def test_other_kinds_and_objects_without_a_spec_are_left_alone() -> None:
    wanted = {"ports": [{"port": 80}]}
    assert with_allocated(GroupKind("example.com", "Service"), wanted, LIVE) == wanted
    assert with_allocated(SERVICE, wanted, {}) == wanted

"""Addresses of simulated Pods."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any

from ctrlruntime.client.client import Client
from ctrlruntime.envtest.eventually import eventually
from ctrlruntime.envtest.nodes.cluster import PodAddresses
from ctrlruntime.envtest.nodes.kinds import POD

LOOPBACK = ipaddress.ip_network("127.128.0.0/9")


def pod(name: str, uid: str, **status: object) -> dict[str, Any]:
    metadata = {"namespace": "default", "name": name, "uid": uid}
    return {"metadata": metadata, "status": status}


def test_every_pod_has_an_address_of_its_own_on_loopback() -> None:
    addresses = PodAddresses()
    given = [addresses.of(pod(f"p{number}", f"uid-{number}")) for number in range(20_000)]
    assert len(set(given)) == len(given)
    assert all(ipaddress.ip_address(each) in LOOPBACK for each in given)
    assert not any(each.endswith((".0", ".255")) for each in given)


def test_a_pod_keeps_its_address_and_its_successor_has_another() -> None:
    addresses = PodAddresses()
    first = addresses.of(pod("p", "one"))
    assert addresses.of(pod("p", "one")) == first
    assert addresses.of(pod("p", "two")) != first


def test_what_a_status_reports_holds_after_a_restart() -> None:
    addresses = PodAddresses()
    assert addresses.of(pod("p", "one", podIP="127.130.1.2")) == "127.130.1.2"


def test_an_address_is_free_again_once_its_pod_is_gone() -> None:
    addresses = PodAddresses()
    first = addresses.of(pod("p", "one"))
    assert addresses.of(pod("q", "one")) != first
    addresses.release(("default", "p"))
    assert addresses.of(pod("r", "one")) == first


async def test_requests_to_a_simulated_pod_stay_on_this_machine(
    client: Client, start: Callable[..., Any]
) -> None:
    await start()
    spec = {"containers": [{"name": "c", "image": "i"}]}
    metadata = {"name": "p", "namespace": "default"}
    await client.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    made = await eventually(client, POD, "p", {"status": {"podIP": ...}}, namespace="default")
    assert ipaddress.ip_address(made["status"]["podIP"]) in LOOPBACK

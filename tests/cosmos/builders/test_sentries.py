"""Readiness of sentries: by the probe strategy that is given, and none without one."""

from __future__ import annotations

from typing import Any

import pytest

from apis.cosmos import CosmosFullNode
from ctrlruntime.resources import Desired
from internal.cosmos.fullnode.pod_builder import build_pods

from .samples import SIDECAR, node_set

pytestmark = pytest.mark.criterion("COSMOS-A7-4")


def first_pod(strategy: str | None, kind: str = "Sentry") -> Desired:
    probes = {} if strategy is None else {"strategy": strategy}
    nodes: CosmosFullNode = node_set(type=kind, podTemplate__probes=probes)
    return next(build_pods(nodes, {}, sidecar_image=SIDECAR))


def probed(pod: Desired) -> dict[str, Any]:
    """Path and port of the readiness probe of each container that has one."""
    return {
        each["name"]: (probe["httpGet"]["path"], probe["httpGet"]["port"])
        for each in pod.manifest["spec"]["containers"]
        if (probe := each.get("readinessProbe"))
    }


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (None, {}),
        ("None", {}),
        ("Reachable", {"node": ("/health", "rpc")}),
        ("InSync", {"node": ("/health", "rpc"), "healthcheck": ("/health", "health")}),
    ],
)
def test_a_sentry_has_the_probes_of_its_strategy_and_none_without_one(
    strategy: str | None, expected: dict[str, Any]
) -> None:
    assert probed(first_pod(strategy)) == expected


def test_a_full_node_without_a_strategy_is_ready_when_it_is_in_sync() -> None:
    assert probed(first_pod(None, "FullNode")) == probed(first_pod("InSync", "FullNode")) != {}


def test_no_container_of_a_sentry_is_restarted_by_a_probe() -> None:
    """A sentry ends without its signer; a liveness probe would end it while it waits."""
    for strategy in (None, "None", "Reachable", "InSync"):
        containers = first_pod(strategy).manifest["spec"]["containers"]
        assert not [each["name"] for each in containers if "livenessProbe" in each]
        assert not [each["name"] for each in containers if "startupProbe" in each]


def test_another_strategy_rolls_a_sentry_and_naming_the_default_does_not() -> None:
    unset, none, reachable, in_sync = map(first_pod, (None, "None", "Reachable", "InSync"))
    assert (unset.inputs, unset.revision) == (none.inputs, none.revision)
    assert len({unset.inputs, reachable.inputs, in_sync.inputs}) == 3
    assert len({unset.revision, reachable.revision, in_sync.revision}) == 3


def test_a_strategy_that_was_stored_as_the_default_is_no_input() -> None:
    """Managers up to 0.1 recorded inputs without it: what they built is held back, and not rolled."""
    full, stored = first_pod(None, "FullNode"), first_pod("InSync", "FullNode")
    assert (full.inputs, full.revision) == (stored.inputs, stored.revision)
    # Recorded by that version for these very sets.
    assert stored.inputs == "505f2610"
    assert first_pod("InSync").inputs == "f7566e92"

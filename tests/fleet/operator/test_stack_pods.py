"""What the FleetConfig specifies of the Pods of stacks is in every stack, and what it leaves out rolls nothing."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from apis.fleet.fleetconfig import FleetConfigSpec, StackPods
from internal.fleet.labels import ADMISSION, CONTROLLERS, WORKERS
from internal.fleet.stack_builder import STATEFUL_SET, StackOptions, build_stack
from tests.fleet.operator.harness import Hub, deployed, planes
from tests.support.waiting import eventually

pytestmark = [pytest.mark.criterion("R-F16"), pytest.mark.xdist_group("fleet operator")]
PODS: dict[str, Any] = {
    "workers": {"limits": {"memory": "4Gi"}, "requests": {"memory": "1Gi", "cpu": "1"}},
    "nodeSelector": {"pool": "control"},
    "tolerations": [{"key": "control", "operator": "Exists"}],
    "imagePullSecrets": [{"name": "registry"}],
    "priorityClassName": "system-cluster-critical",
}


def _templates(pods: StackPods | None) -> dict[str, Any]:
    found = build_stack("east", StackOptions(image="stack:1"), pods=pods)
    specs = {each.name: each.manifest.get("spec", {}) for each in found}
    return {name: spec["template"]["spec"] for name, spec in specs.items() if "template" in spec}


def test_what_is_left_out_stays_as_it_was() -> None:
    assert _templates(StackPods()) == _templates(None)
    made = _templates(StackPods.model_validate(PODS))
    assert made[WORKERS]["containers"][0]["resources"] == {
        "limits": {"cpu": "2", "memory": "4Gi"},
        "requests": {"cpu": "1", "memory": "1Gi"},
    }
    for name in (CONTROLLERS, ADMISSION):
        assert made[name]["containers"] == _templates(None)[name]["containers"]
        assert made[name]["nodeSelector"] == PODS["nodeSelector"]


async def test_stacks_follow_the_fleet_config_both_ways() -> None:
    async with Hub.running() as hub, planes(1) as (plane,), hub.operator():
        await hub.configure(scaleMode={"enabled": True})
        await deployed(hub, east=plane)
        before = await _workers(hub)
        await hub.configure(scaleMode={"enabled": True}, stackPods=PODS)
        found = await eventually(lambda: _workers(hub), lambda spec: "nodeSelector" in spec)
        assert found["containers"][0]["resources"]["limits"] == {"cpu": "2", "memory": "4Gi"}
        assert found["tolerations"] == PODS["tolerations"]
        assert found["imagePullSecrets"] == PODS["imagePullSecrets"]
        assert found["priorityClassName"] == PODS["priorityClassName"]
        await hub.configure(scaleMode={"enabled": True}, stackPods={})
        await eventually(lambda: _workers(hub), lambda spec: spec == before)


async def _workers(hub: Hub) -> dict[str, Any]:
    found: Any = await hub.client.get(STATEFUL_SET, WORKERS, namespace="east")
    spec: dict[str, Any] = found["spec"]["template"]["spec"]
    return spec


@pytest.mark.parametrize("name", ["UPPER_case", "a.b", "-a", "a\n"])
def test_a_target_namespace_that_no_namespace_can_have_is_refused(name: str) -> None:
    assert FleetConfigSpec().target_namespace == ""
    assert FleetConfigSpec.model_validate({"targetNamespace": "fleet-1"}).target_namespace
    with pytest.raises(ValidationError, match="pattern"):
        FleetConfigSpec.model_validate({"targetNamespace": name})

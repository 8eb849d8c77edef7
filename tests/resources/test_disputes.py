"""A field that the last apply set is set back whatever comes first, an edit or the next revision; others' stay."""

from __future__ import annotations

from typing import Any

import pytest

from ctrlruntime.client.config import Config
from ctrlruntime.resources import Action, Desired
from ctrlruntime.resources.applied_fields import record_fields, was_applied
from tests.resources.test_list_drift import APP, POD, added, controls, desired, edit, live

pytestmark = pytest.mark.criterion("SIM-F3")

EDITS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "replicas": ("deployment", [{"op": "replace", "path": "/spec/replicas", "value": 0}]),
    "image": ("deployment", [{"op": "replace", "path": f"{APP}/image", "value": "app:9"}]),
    "variable": ("deployment", [{"op": "replace", "path": f"{APP}/env/0/value", "value": "x"}]),
    "atomic list": ("deployment", added(f"{POD}/tolerations/-", {"operator": "Exists"})),
    "name of a container": (
        "deployment",
        [{"op": "replace", "path": f"{APP}/name", "value": "renamed"}],
    ),
    "port of a Service": (
        "service",
        [{"op": "replace", "path": "/spec/ports/0/port", "value": 81}],
    ),
    "target port": ("service", [{"op": "replace", "path": "/spec/ports/0/targetPort", "value": 1}]),
    "custom item": ("shape", [{"op": "replace", "path": "/spec/ports/0/name", "value": "z"}]),
}


def revised(which: str) -> Desired:
    """The next revision: what is edited has another value, too."""
    wanted = desired(which)
    spec = wanted.manifest["spec"]
    if which == "deployment":
        spec["replicas"] = 1
        spec["template"]["spec"]["containers"][0]["image"] = "app:2"
        spec["template"]["spec"]["containers"][0]["env"][0]["value"] = "slow"
        spec["template"]["spec"]["tolerations"][0]["effect"] = "NoSchedule"
    elif which == "shape":
        spec["ports"][0]["name"] = "other"
    else:
        spec["ports"][0]["targetPort"] = 8081
    return Desired(mapping=wanted.mapping, manifest=wanted.manifest)


@pytest.mark.parametrize("first", ["edit", "revision"])
@pytest.mark.parametrize("name", EDITS)
async def test_an_edit_is_undone_in_either_order(api_config: Config, name: str, first: str) -> None:
    """The second life remembers nothing of the first: it ended between the two."""
    which, patch = EDITS[name]
    before, after = desired(which), revised(which)
    async with controls(api_config) as (control, client, owner):
        await control.ensure(before, owner)
        if first == "revision":
            await control.ensure(after, owner)
        await edit(control, client, before, patch, "kubectl-edit")
        fresh = control.__class__(control._cache, field_manager="manager")
        outcome = await fresh.ensure(after, owner)
        assert (outcome.action, outcome.conflict) == (Action.UPDATED, "")
        found = (await live(client, after))["spec"]
        assert (await fresh.ensure(after, owner)).action is Action.UNCHANGED
        for manager in (
            e["manager"] for e in (await live(client, after))["metadata"]["managedFields"]
        ):
            assert manager != "kubectl-edit"
        ports = found.get("ports", found.get("replicas"))
        assert ports == 1 or len(ports) == 2


@pytest.mark.parametrize("operation", ["apply", "update"])
async def test_a_field_that_was_never_applied_stays_in_conflict(
    api_config: Config, operation: str
) -> None:
    wanted = desired("deployment")
    new = desired("deployment")
    new.manifest["spec"]["minReadySeconds"] = 5
    new = Desired(mapping=new.mapping, manifest=new.manifest)
    async with controls(api_config) as (control, client, owner):
        await control.ensure(wanted, owner)
        if operation == "apply":
            spec = {"minReadySeconds": 7, "selector": wanted.manifest["spec"]["selector"]}
            await client.apply({**wanted.manifest, "spec": spec}, field_manager="mesh")
        else:
            await edit(control, client, wanted, added("/spec/minReadySeconds", 7), "mesh")
        outcome = await control.ensure(new, owner)
        assert outcome.action is Action.CONFLICT
        assert "mesh" in outcome.conflict
        assert ".spec.minReadySeconds" in outcome.conflict
        assert (await live(client, wanted))["spec"]["minReadySeconds"] == 7


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (".spec.replicas", True),
        (".spec.paused", False),
        ('.spec.ports[port=80,protocol="TCP"].name', True),
        ('.spec.ports[port=81,protocol="TCP"].name', False),
        (".spec.ports", True),
        ('.data.a[b]."c', True),
        (".data.new", False),
        ('.metadata.finalizers[="x"]', False),
    ],
)
def test_a_field_of_the_record_is_recognized(field: str, expected: bool) -> None:
    spec: dict[str, Any] = {"replicas": 1, "ports": [{"port": 80, "name": "http"}]}
    before = {"metadata": {}, "spec": spec, "data": {'a[b]."c': "1"}}
    now = {
        "metadata": {"finalizers": ["x"]},
        "spec": {
            **spec,
            "replicas": 2,
            "paused": True,
            "ports": [*spec["ports"], {"port": 81, "name": "new"}],
        },
        "data": {'a[b]."c': "2", "new": "x"},
    }
    assert was_applied(field, now, record_fields(before)) is expected

"""Where each object has its page. Pure."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from manager.kinds import KINDS

CLUSTER: Final = "-"
"""Stands for the namespace in a path of an object that has none: no namespace can be called so."""
RUNS: Final = (
    *("InstanceTerraform", "UpgradeInstanceTask", "InstanceKubernetes"),
    *("InstanceKubernetesPVC", "InstanceInvariants"),
)
"""Kinds whose objects have runs."""
PLURALS: Final = {each.gvk().kind: each.mapping().plural for each in KINDS}
_OWN: Final = {
    "Tenant": "/tenants",
    "Instance": "/instances",
    "FleetRollout": "/rollouts/fleetrollouts",
    **{kind: f"/runs/{PLURALS[kind]}" for kind in RUNS},
}
"""Kinds with a page of their own; all others have one below `/objects`."""


def object_path(kind: str, namespace: str, name: str) -> str:
    """Return the path of an object's page; empty for a kind that has none."""
    if kind not in PLURALS or not name:
        return ""
    return _path(_OWN.get(kind, f"/objects/{PLURALS[kind]}"), namespace, name)


def rollout_path(kind: str, namespace: str, name: str) -> str:
    """Return the path of the page of a rollout."""
    return _path(f"/rollouts/{PLURALS[kind]}", namespace, name)


def yaml_path(kind: str, namespace: str, name: str) -> str:
    """Return the path of an object's manifest."""
    return _path(f"/yaml/{PLURALS[kind]}", namespace, name)


def _path(head: str, namespace: str, name: str) -> str:
    return f"{head}/{quote(namespace or CLUSTER, safe='')}/{quote(name, safe='')}"

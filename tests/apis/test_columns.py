"""`kubectl get` of every kind answers what a person looks for first: ready or not, why, which version, how old."""

from __future__ import annotations

from typing import Any

import pytest

from apis.health import RULES
from ctrlruntime.envtest.server.printers.jsonpath import compile_path
from manager.kinds import KINDS

KINDS_BY_NAME = {kind.__name__: kind for kind in KINDS}
VERSIONS: dict[str, dict[str, Any]] = {
    "CosmosFullNode": {"status": {"version": "v21", "lastBlock": 123}},
    "FleetRollout": {"spec": {"targetVersion": "v21"}},
    "Instance": {"status": {"version": "v21"}},
    "InstanceInvariants": {"spec": {"version": "v21"}},
    "InstanceKubernetes": {"spec": {"version": "v21"}},
    "UpgradeInstanceTask": {"spec": {"toVersion": "v21"}},
}
"""Where the version is, of kinds that have one."""
FIRST_MESSAGES = {"TenantTemplate"}
"""Kinds whose message is that of another condition; theirs of Ready is printed with `-o wide`."""


def columns(kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = KINDS_BY_NAME[kind].crd()["spec"]["versions"][0][
        "additionalPrinterColumns"
    ]
    return found


def cells(kind: str, manifest: dict[str, Any], *, wide: bool = False) -> list[Any]:
    """What is printed, the first of what each path finds, as the API server has it."""
    shown = [each for each in columns(kind) if wide or not each.get("priority")]
    found = [compile_path(each["jsonPath"]).find(manifest) for each in shown]
    return [values[0] for values in found if values]


@pytest.mark.parametrize("kind", sorted(KINDS_BY_NAME))
def test_kubectl_get_answers_ready_why_which_version_and_since_when(kind: str) -> None:
    phases = RULES[kind].phases
    ready = {"type": "Ready", "status": "False", "reason": "ReasonOfReady", "message": "the why"}
    status: dict[str, Any] = {"conditions": [ready], "phase": "APhase"}
    status |= {"message": "the why", "status": "the why"} if phases else {}
    more = VERSIONS.get(kind, {})
    manifest = {
        "metadata": {"creationTimestamp": "2026-11-28T10:00:00Z"},
        "status": {**status, **more.get("status", {})},
        "spec": more.get("spec", {}),
    }
    shown = cells(kind, manifest)
    assert "2026-11-28T10:00:00Z" in shown
    assert "ReasonOfReady" in shown or (phases and "APhase" in shown)
    assert "the why" in cells(kind, manifest, wide=kind in FIRST_MESSAGES)
    names = [each["name"] for each in columns(kind) if not each.get("priority")]
    assert ("v21" in shown) == bool(more) == bool({"Version", "Target"} & {*names})
    assert 123 in shown or kind != "CosmosFullNode"
    assert names[-2:] == ["Age", "Message"]

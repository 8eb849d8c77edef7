"""docs/conditions.md and the reference of metrics have what the code has."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from apis.cloud import Phase
from apis.fleet import Reason
from manager.manifests.metric_catalogue import PARTS, families
from tests.docs.blocks import ROOT, table, words

PAGE = "docs/conditions.md"
MODULES = {
    "cloud conditions": (
        "ctrlruntime/lifecycle/remote.py",
        "internal/cloud/hub_instances.py",
        "internal/cloud/taskdriver/summary.py",
        "internal/cloud/taskdriver/plan_approval.py",
        "internal/cloud/instance/status.py",
        "internal/cloud/rollouts/status.py",
        "internal/cloud/subresource_reconciler.py",
    ),
    "cosmos conditions": (
        "ctrlruntime/lifecycle/remote.py",
        "internal/cosmos/fullnode/full_disks.py",
        "internal/cosmos/fullnode/phase.py",
        "internal/cosmos/fullnode/status.py",
        "internal/cosmos/snapshots/conditions.py",
        "internal/cosmos/statefuljob/reconciler.py",
    ),
    "fleet conditions": ("internal/fleet/status.py", "internal/fleet/hub.py"),
    "events of the other systems": (
        "internal/cloud/rollouts/assigner.py",
        "internal/cosmos/fullnode/events.py",
        "internal/cosmos/selfheal/events.py",
        "internal/cosmos/snapshots/events.py",
    ),
}
"""Modules whose CamelCase words are types and reasons of conditions and events, by table."""
NO_REASON = {
    "False", "True", "Normal", "Warning", "Error", "Cannot", "Pending",
    "VolumeSnapshot", "SelfHeal", "Snapshot", "RollOut", "Reconcile", "Job", "ConfigMap",
}  # fmt: skip
"""States of conditions, types and actions of events, kinds."""


def spoken(paths: tuple[str, ...]) -> set[str]:
    """Return the words of the modules that look like a type or a reason."""
    return {
        node.value
        for path in paths
        for node in ast.walk(ast.parse((ROOT / path).read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"[A-Z][a-z0-9]+[A-Za-z0-9]*", node.value)
    } - NO_REASON


@pytest.mark.parametrize("header", MODULES)
def test_every_type_and_reason_in_the_code_is_on_the_page(header: str) -> None:
    listed = {
        word for each in MODULES for row in table(PAGE, each) for word in words(" ".join(row))
    }
    assert spoken(MODULES[header]) - listed == set()


@pytest.mark.parametrize("header", MODULES)
def test_every_reason_on_the_page_is_in_the_code(header: str) -> None:
    sources = "".join(
        path.read_text()
        for folder in (
            "apis",
            "internal",
            "manager",
            "ctrlruntime/manager",
            "ctrlruntime/lifecycle",
            "ctrlruntime/sharding",
        )
        for path in (ROOT / folder).rglob("*.py")
    )
    listed = {word for row in table(PAGE, header) for cell in row[1:] for word in words(cell)}
    assert {word for word in listed if f'"{word}"' not in sources} == set()


def test_the_phases_of_an_instance_are_listed_as_its_reasons() -> None:
    row = next(row for row in table(PAGE, "cloud conditions") if row[:2] == ["Instance", "`Ready`"])
    assert {phase.value for phase in Phase} - {"Superseded"} <= set(words(row[2]))


def test_the_reasons_of_data_planes_are_in_the_page_of_scale_mode() -> None:
    text = (ROOT / "docs" / "fleet.md").read_text()
    assert {reason.value for reason in Reason if reason.value not in text} == set()


def test_every_metric_of_the_systems_is_in_the_catalogue() -> None:
    known = {part.__name__ for parts in PARTS.values() for part in parts}
    made = {
        node.name
        for folder in ("internal", "manager")
        for path in Path(ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
        and node.name.endswith("Metrics")
        and "CollectorRegistry" in ast.unparse(node)
    }
    assert made - known == set()


def test_every_metric_has_a_name_of_its_own_and_a_sentence() -> None:
    found = list(families())
    assert len({family.name for family in found}) == len(found) > 60
    assert [family.name for family in found if not family.text] == []


def test_metrics_that_the_pages_of_operations_name_exist() -> None:
    names = {family.name for family in families()}
    for page in ("docs/operations/tuning.md", "docs/how-to/sizing.md", "docs/performance.md"):
        text = (ROOT / page).read_text()
        said = set(
            re.findall(
                r"`((?:controller_runtime|workqueue|rest_client|ctrlruntime|process|cloud|registry|leader_election(?!_id\b)|apply)_\w+)`",
                text,
            )
        )
        missing = {
            name
            for name in said
            if name.removesuffix("_total") not in names | {"process_cpu_seconds"}
        }
        assert missing == set(), page

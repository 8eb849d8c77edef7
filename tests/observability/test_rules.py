"""Alerts, runbooks and the dashboard: they name series that exist, and say what to do."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import promql_parser
import pytest
import yaml
from prometheus_client import CollectorRegistry

from apis.cloud import Phase, TaskOutcome
from apis.cosmos import FullNodePhase, SnapshotPhase
from internal.cloud.taskdriver.deps import TaskMetrics
from internal.cosmos.cache.metrics import STATES
from manager.metric_catalogue import registries

ROOT: Final = Path(__file__).parents[2]
RULES: Final = yaml.safe_load((ROOT / "config/prometheus/rules.yaml").read_text())
ALERTS: Final = [rule for group in RULES["spec"]["groups"] for rule in group["rules"]]
DASHBOARD: Final = json.loads((ROOT / "config/grafana/cloud-tasks.json").read_text())
TARGETS: Final = [target for panel in DASHBOARD["panels"] for target in panel["targets"]]
SUFFIXES: Final = {
    "counter": {"_total": set[str]()},
    "histogram": {"_bucket": {"le"}, "_count": set[str](), "_sum": set[str]()},
}
LABELS: Final = {
    "cloud_task_objects": {"task", "phase"},
    "cloud_rollout_halted": {"namespace", "rollout"},
    "cloud_task_results": {"task", "result"},
    "cosmos_fullnode_sets": {"phase"},
    "cosmos_snapshot_schedules": {"phase"},
    "cosmos_cache_nodes": {"state"},
    "fleet_target_namespaces": {"result", "reason"},
    "fleet_data_plane_up": {"namespace"},
} | {
    f"cloud_task_{name}": {"task"}
    for name in (
        "dispatched",
        "retries",
        "running",
        "waiting",
        "duration_seconds",
        "wait_seconds",
    )
}
"""Families that say their labels only once they have values."""
RUNBOOKS: Final = ROOT / "docs/runbooks"


def expressions() -> list[tuple[str, str]]:
    alerts = [(rule["alert"], rule["expr"]) for rule in ALERTS]
    panels = [
        (f"{panel['title']} {target['refId']}", target["expr"].replace("$task", ".*"))
        for panel in DASHBOARD["panels"]
        for target in panel["targets"]
    ]
    return alerts + panels


def selectors(node: Any) -> list[Any]:
    """The series that an expression reads."""
    if isinstance(node, promql_parser.VectorSelector):
        return [node]
    if isinstance(node, promql_parser.MatrixSelector):
        return [node.vector_selector]
    found = []
    for name in ("expr", "lhs", "rhs", "param"):
        child = getattr(node, name, None)
        if child is not None:
            found += selectors(child)
    for child in getattr(node, "args", None) or []:
        found += selectors(child)
    return found


@pytest.fixture(scope="module")
def series() -> dict[str, set[str]]:
    """The names that the manager serves, with their labels."""
    found: dict[str, set[str]] = {}
    for family in (family for registry in registries().values() for family in registry.collect()):
        labels = set(getattr(family, "_labelnames", ())) or LABELS.get(family.name, set())
        for suffix, more in SUFFIXES.get(family.type, {"": set()}).items():
            found[family.name + suffix] = labels | more
    return found


@pytest.mark.parametrize(("name", "expr"), expressions(), ids=[n for n, _ in expressions()])
def test_every_series_and_label_exists(name: str, expr: str, series: dict[str, set[str]]) -> None:
    read = selectors(promql_parser.parse(expr))
    assert read, f"{name} reads nothing"
    for selector in read:
        assert selector.name in series, f"{name}: no series {selector.name}"
        matched = {matcher.name for matcher in selector.matchers.matchers}
        assert matched <= series[selector.name] | {"__name__"}, f"{name}: {selector.name}"
    grouped = {
        label for group in re.findall(r"by \(([^)]*)\)", expr) for label in re.split(r",\s*", group)
    }
    everything = {label for selector in read for label in series[selector.name]} | {"pod"}
    assert grouped <= everything


def test_the_words_of_labels_are_words_that_are_used() -> None:
    text = " ".join(expr for _, expr in expressions())
    phases = set(re.findall(r'phase="(\w+)"', text))
    results = {
        word for found in re.findall(r'result!?[=~]+"([\w|]+)"', text) for word in found.split("|")
    }
    cosmos = {*FullNodePhase, *SnapshotPhase}
    assert phases <= {phase.value for phase in (*Phase, *cosmos)}
    assert set(re.findall(r'state="(\w+)"', text)) <= set(STATES)
    assert results <= {outcome.value for outcome in TaskOutcome}


@pytest.mark.parametrize("rule", ALERTS, ids=[rule["alert"] for rule in ALERTS])
def test_every_alert_has_a_severity_a_sentence_and_a_runbook(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert rule["annotations"]["summary"]
    runbook = ROOT / rule["annotations"]["runbook_url"]
    assert runbook == RUNBOOKS / f"{rule['alert']}.md"
    text = runbook.read_text()
    assert text.startswith(f"# {rule['alert']}\n")
    assert "**What it means.**" in text
    assert "**What to do.**" in text or "and what to do.**" in text


def test_every_runbook_has_its_alert() -> None:
    assert {path.stem for path in RUNBOOKS.glob("*.md")} == {rule["alert"] for rule in ALERTS}


def test_the_dashboard_shows_every_series_of_the_tasks() -> None:
    registry = CollectorRegistry()
    TaskMetrics(registry)
    names = {metric.name for metric in registry.collect()}
    shown = " ".join(target["expr"] for target in TARGETS)
    assert {name for name in names if name not in shown} == set()

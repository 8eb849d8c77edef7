"""Alerts, runbooks and dashboards: they name series that exist, and say what to do."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import promql_parser
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from apis.cloud import FleetRolloutPhase, Phase, TaskOutcome
from apis.cosmos import FullNodePhase, SnapshotPhase
from apis.tenancy import RolloutPhase
from ctrlruntime.rollout.health_checks import HealthCheckState
from hack.dashboards import drifted
from internal.cloud.taskdriver.deps import TaskMetrics
from internal.cosmos.cache.metrics import STATES
from internal.tenancy.shared.metrics import QUERY_RESULTS
from manager.manifests.metric_catalogue import registries
from tests.observability.queries import DASHBOARDS, RULES, of_alerts, selectors

ROOT: Final = Path(__file__).parents[2]
ALERTS: Final = [rule for group in RULES["spec"]["groups"] for rule in group["rules"]]
SUFFIXES: Final = {
    "counter": {"_total": set[str]()},
    "histogram": {"_bucket": {"le"}, "_count": set[str](), "_sum": set[str]()},
}
RUNBOOKS: Final = ROOT / "docs/runbooks"


def expressions() -> list[tuple[str, str]]:
    alerts = [(rule["alert"], rule["expr"]) for rule in ALERTS]
    panels = [
        (f"{name} {panel['title']} {target['refId']}", target["expr"].replace("$task", ".*"))
        for name, dashboard in DASHBOARDS.items()
        for panel in dashboard["panels"]
        for target in panel["targets"]
    ]
    return alerts + panels


def families_with_labels() -> Iterator[tuple[Any, set[str]]]:
    """Each family with its labels, which families without values do not list themselves."""
    for registry in registries().values():
        named = {
            collector._name: set(collector._labelnames)
            for collector in registry._collector_to_names
            if isinstance(collector, MetricWrapperBase)
        }
        for family in registry.collect():
            yield family, set(getattr(family, "_labelnames", ())) or named.get(family.name, set())


@pytest.fixture(scope="module")
def series() -> dict[str, set[str]]:
    """The names that the manager serves, with their labels."""
    found: dict[str, set[str]] = {}
    for family, labels in families_with_labels():
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


OF_GROUP: Final = {
    "ctrlruntime.manager": ("Runtime", ""),
    "ctrlruntime.operations": ("Runtime", "change_freeze_"),
    "ctrlruntime.tenancy": ("Tenancy", ""),
    "ctrlruntime.cloud.tasks": ("Cloud", "cloud_task_"),
    "ctrlruntime.cloud.types": ("Cloud", "cloud_terraform_"),
    "ctrlruntime.cloud.rollouts": ("Cloud", "cloud_rollout_"),
    "ctrlruntime.cosmos": ("Cosmos", ""),
    "ctrlruntime.fleet": ("Scale mode", ""),
}
"""The system whose metrics the alerts of a group read, and how those of the group begin."""


def test_every_group_of_alerts_is_of_a_system() -> None:
    names = [group["name"] for group in RULES["spec"]["groups"]]
    assert sorted(names) == sorted(OF_GROUP), "a group is there once"


@pytest.mark.parametrize("group", OF_GROUP)
def test_a_group_of_alerts_reads_metrics_of_its_own_system_only(group: str) -> None:
    system, prefix = OF_GROUP[group]
    own = {family.name for family in registries()[system].collect()}
    read = [
        selector.name
        for expr in of_alerts(group)
        for selector in selectors(promql_parser.parse(expr))
    ]
    assert read
    for name in read:
        family = name if name in own else re.sub(r"_(total|bucket|count|sum)$", "", name)
        assert family in own, f"{name} is no metric of {system}: give its alert another group"
        assert name.startswith(prefix), f"{name} belongs to another group of {system}"


def test_the_words_of_labels_are_words_that_are_used() -> None:
    text = " ".join(expr for _, expr in expressions())
    phases = set(re.findall(r'phase="(\w+)"', text))
    results = {
        word for found in re.findall(r'result!?[=~]+"([\w|]+)"', text) for word in found.split("|")
    }
    cosmos = {*FullNodePhase, *SnapshotPhase}
    assert phases <= {phase.value for phase in (*Phase, *FleetRolloutPhase, *RolloutPhase, *cosmos)}
    states = {*STATES, *(state.value for state in HealthCheckState)}
    assert set(re.findall(r'state="(\w+)"', text)) <= states
    assert results <= {outcome.value for outcome in TaskOutcome} | {*QUERY_RESULTS}


@pytest.mark.parametrize("rule", ALERTS, ids=[rule["alert"] for rule in ALERTS])
def test_every_alert_has_a_severity_a_sentence_and_a_runbook(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert rule["annotations"]["summary"]
    runbook = RUNBOOKS / f"{rule['alert']}.md"
    site = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Documentation"]
    page = runbook.relative_to(ROOT / "docs").with_suffix(".html")
    assert rule["annotations"]["runbook_url"] == f"{site}/{page}"
    text = runbook.read_text()
    assert text.startswith(f"# {rule['alert']}\n")
    assert "**What it means.**" in text
    assert "**What to do.**" in text or "and what to do.**" in text


def test_every_runbook_has_its_alert() -> None:
    assert {path.stem for path in RUNBOOKS.glob("*.md")} == {rule["alert"] for rule in ALERTS}


def shown(*dashboards: str) -> str:
    """The expressions of dashboards."""
    return " ".join(
        target["expr"]
        for name in dashboards
        for panel in DASHBOARDS[name]["panels"]
        for target in panel["targets"]
    )


def test_the_dashboard_shows_every_series_of_the_tasks() -> None:
    registry = CollectorRegistry()
    TaskMetrics(registry)
    names = {metric.name for metric in registry.collect()}
    assert {name for name in names if name not in shown("cloud-tasks")} == set()


OF_SYSTEMS: Final = {
    "Tenancy": ("tenancy",),
    "Cloud": ("cloud-tasks", "cloud-rollouts"),
    "Cosmos": ("cosmos",),
    "Scale mode": ("fleet",),
}
ELSEWHERE: Final = {
    # By tenant: in `manager tenant NAME` and the console.
    "tenant_condition_status",
    "tenant_resources_desired",
    "tenant_resources_ready",
    # An alert, and nothing to look at over time.
    "cloud_task_settings_valid",
    "cloud_terraform_types_valid",
}


@pytest.mark.parametrize("system", OF_SYSTEMS)
def test_the_dashboards_of_a_system_show_its_series(system: str) -> None:
    text = shown(*OF_SYSTEMS[system])
    names = {family.name for family in registries()[system].collect()} - ELSEWHERE
    assert {name for name in names if name not in text} == set()


def test_the_dashboards_are_those_of_their_tables() -> None:
    assert not [str(path) for path in drifted()], "run `python -m hack.dashboards`"


def test_every_panel_has_its_place_and_every_dashboard_its_name() -> None:
    assert len({board["uid"] for board in DASHBOARDS.values()}) == len(DASHBOARDS)
    for board in DASHBOARDS.values():
        places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in board["panels"]]
        assert len(set(places)) == len(places), board["title"]

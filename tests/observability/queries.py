"""What alerts and dashboards read, and whether a process serves it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import promql_parser
import yaml
from prometheus_client.parser import text_string_to_metric_families

ROOT: Final = Path(__file__).parents[2]
RULES: Final = yaml.safe_load((ROOT / "config/prometheus/rules.yaml").read_text())
DASHBOARDS: Final = {
    path.stem: json.loads(path.read_text())
    for path in sorted((ROOT / "config/grafana").glob("*.json"))
}


def selectors(node: object) -> list[Any]:
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


def of_dashboard(name: str) -> Iterator[str]:
    """Yield the expressions of a dashboard."""
    for panel in DASHBOARDS[name]["panels"]:
        yield from (target["expr"].replace("$task", ".*") for target in panel["targets"])


def of_alerts(group: str) -> Iterator[str]:
    """Yield the expressions of a group of alerts."""
    for found in RULES["spec"]["groups"]:
        if found["name"] == group:
            yield from (rule["expr"] for rule in found["rules"])


def unserved(exposition: str, expressions: Iterator[str]) -> set[str]:
    """Return the series that expressions read and that have no sample with the labels they name.

    `pod` is added when Prometheus scrapes. A matcher of a value that no sample has is not served either.
    """
    served: dict[str, list[dict[str, str]]] = {}
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            served.setdefault(sample.name, []).append(sample.labels)
    missing: set[str] = set()
    for expr in expressions:
        grouped = {
            name
            for group in re.findall(r"by \(([^)]*)\)", expr)
            for name in re.split(r",\s*", group)
        }
        for selector in selectors(promql_parser.parse(expr)):
            samples = served.get(selector.name, [])
            fitting = [labels for labels in samples if _matches(labels, selector)]
            wanted = grouped - {"pod"}
            if not any(wanted <= labels.keys() for labels in fitting):
                missing.add(selector.name)
    return missing


def _matches(labels: dict[str, str], selector: promql_parser.VectorSelector) -> bool:
    for matcher in selector.matchers.matchers:
        if matcher.name == "__name__":
            continue
        value = labels.get(matcher.name, "")
        match str(matcher.op):
            case "MatchOp.Equal":
                holds = value == matcher.value
            case "MatchOp.NotEqual":
                holds = value != matcher.value
            case "MatchOp.Re":
                holds = re.fullmatch(matcher.value, value) is not None
            case _:
                holds = re.fullmatch(matcher.value, value) is None
        if not holds:
            return False
    return True

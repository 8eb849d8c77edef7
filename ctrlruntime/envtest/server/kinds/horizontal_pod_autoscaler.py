"""HorizontalPodAutoscalers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.checking import Rules
from ctrlruntime.envtest.server.defaulting import Defaults
from ctrlruntime.envtest.server.errors import FieldError, bad_value, forbidden_field, required
from ctrlruntime.envtest.server.kinds.declare import builtin_kind
from ctrlruntime.envtest.server.printers.column import NONE, UNKNOWN, UNSET, Cells, age, items, part

_Object = dict[str, Any]
_SOURCES: Final = ("object", "pods", "resource", "containerResource", "external")


def _metrics(spec: _Object) -> None:
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]


_UP: Final[_Object] = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_DOWN: Final[_Object] = {
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}
_BEHAVIOR: Final = Defaults(
    {"scaleUp": {}, "scaleDown": {}}, {"scaleUp": Defaults(_UP), "scaleDown": Defaults(_DOWN)}
)


def _target(spec: _Object, prefix: str) -> Iterator[FieldError]:
    """Check the group of the target: only the core group has none."""
    target = spec.get("scaleTargetRef") or {}
    if "/" not in str(target.get("apiVersion") or "") and target.get("kind") != (
        "ReplicationController"
    ):
        path = f"{prefix}scaleTargetRef.apiVersion"
        yield bad_value(path, target.get("apiVersion") or "", "apiVersion must specify API group")


def _bounds(spec: _Object, prefix: str) -> Iterator[FieldError]:
    most, least = spec.get("maxReplicas") or 0, spec.get("minReplicas", 1)
    if most == 0:
        yield required(f"{prefix}maxReplicas", "must be set and greater than 0")
    elif most < 0:
        yield bad_value(f"{prefix}maxReplicas", most, "must be greater than or equal to 1")
    if most < least:
        detail = "must be greater than or equal to `minReplicas`"
        yield bad_value(f"{prefix}maxReplicas", most, detail)


def _metric_targets(spec: _Object, prefix: str) -> Iterator[FieldError]:
    kinds = {metric.get("type") for metric in spec.get("metrics") or ()}
    if spec.get("minReplicas") == 0 and not kinds & {"Object", "External"}:
        text = "must specify at least one Object or External metric to support scaling to zero replicas"
        yield forbidden_field(f"{prefix}metrics", text)
    for index, metric in enumerate(spec.get("metrics") or ()):
        path, own = f"{prefix}metrics[{index}]", _member(metric)
        for each in _SOURCES:
            if each != own and metric.get(each) is not None:
                yield forbidden_field(
                    f"{path}.{each}", "must populate the given metric source only"
                )
        target = (metric.get("resource") or {}).get("target") or {}
        share = target.get("averageUtilization")
        path = f"{path}.resource.target"
        if share is not None and share < 1:
            yield bad_value(f"{path}.averageUtilization", share, "must be greater than 0")
        if share is not None and target.get("averageValue") is not None:
            text = "may not set both a target raw value and a target utilization"
            yield forbidden_field(f"{path}.averageValue", text)


def _member(metric: _Object) -> str:
    """Return the field of a metric that has what its type names."""
    kind = str(metric.get("type") or "")
    return kind[:1].lower() + kind[1:]


def _cells(obj: Manifest, now: datetime) -> Cells:
    spec, status = part(obj, "spec"), part(obj, "status")
    target = part(spec, "scaleTargetRef")
    least = spec.get("minReplicas")
    return [
        obj["metadata"]["name"],
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _targets(spec, status),
        UNSET if least is None else str(least),
        spec.get("maxReplicas") or 0,
        status.get("currentReplicas") or 0,
        age(obj, now),
    ]


def _targets(spec: dict[str, Any], status: dict[str, Any]) -> str:
    goal = spec.get("targetCPUUtilizationPercentage")
    if goal is not None:
        current = status.get("currentCPUUtilizationPercentage")
        return f"cpu: {UNKNOWN if current is None else f'{current}%'}/{goal}%"
    metrics = items(spec, "metrics")
    if not metrics:
        return NONE
    current = items(status, "currentMetrics")
    shown = [
        _metric(metric, current[index] if index < len(current) else {})
        for index, metric in enumerate(metrics)
    ]
    more = f" + {len(shown) - 2} more..." if len(shown) > 2 else ""
    return ", ".join(shown[:2]) + more


def _metric(metric: dict[str, Any], current: dict[str, Any]) -> str:
    kind, member = metric.get("type"), _member(metric)
    source, seen = part(metric, member), part(part(current, member), "current")
    goal = part(source, "target")
    name = source.get("name") or part(source, "metric").get("name") or ""
    if goal.get("averageUtilization") is not None:
        value = seen.get("averageUtilization")
        shown = f"{UNKNOWN if value is None else f'{value}%'}/{goal['averageUtilization']}%"
    else:
        key = "averageValue" if goal.get("averageValue") is not None else "value"
        suffix = " (avg)" if key == "averageValue" and kind in {"External", "Object"} else ""
        shown = f"{seen.get(key) or UNKNOWN}/{goal.get(key, '')}{suffix}"
    return f"{name}: {shown}" if kind in {"Resource", "ContainerResource"} else shown


HORIZONTAL_POD_AUTOSCALER: Final = builtin_kind(
    "autoscaling",
    "HorizontalPodAutoscaler",
    "horizontalpodautoscalers",
    "hpa",
    categories=("all",),
    versions=("v2", "v1"),
    storage_version="v2",
    subresources=("status",),
    spec_defaults=Defaults({"minReplicas": 1}, {"behavior": _BEHAVIOR}, (_metrics,)),
    status={"desiredReplicas": 0, "currentMetrics": None},
    spec_rules=Rules(
        minimum={"minReplicas": 1},
        within={"scaleTargetRef": Rules(required={"kind": "", "name": ""})},
        checks=(_bounds, _target, _metric_targets),
    ),
    columns="Name | Reference | Targets | MinPods | MaxPods | Replicas | Age",
    cells=_cells,
)

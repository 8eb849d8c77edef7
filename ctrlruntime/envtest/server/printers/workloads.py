"""Rows of workloads: Deployments and what runs Pods otherwise."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.api.scalars import parse_time
from ctrlruntime.envtest.server.printers.column import (
    NONE,
    UNKNOWN,
    UNSET,
    Cells,
    Printer,
    age,
    columns,
    containers,
    human_duration,
    items,
    labels_text,
    part,
    selector_text,
    since,
    template,
)


def _counts(obj: Manifest, *names: str) -> list[int]:
    status = part(obj, "status")
    return [int(status.get(name) or 0) for name in names]


def _wanted(obj: Manifest) -> int:
    replicas = part(obj, "spec").get("replicas")
    return 1 if replicas is None else int(replicas)


def _deployment(obj: Manifest, now: datetime) -> Cells:
    ready, updated, available = _counts(
        obj, "readyReplicas", "updatedReplicas", "availableReplicas"
    )
    head = [obj["metadata"]["name"], f"{ready}/{_wanted(obj)}", updated, available, age(obj, now)]
    return [*head, *containers(template(obj)), selector_text(part(obj, "spec").get("selector"))]


def _replicas(obj: Manifest, now: datetime) -> Cells:
    counts = _counts(obj, "replicas", "readyReplicas")
    head = [obj["metadata"]["name"], _wanted(obj), *counts, age(obj, now)]
    selector = part(obj, "spec").get("selector")
    plain = obj.get("kind") == "ReplicationController"
    shown = labels_text(selector) if plain else selector_text(selector)
    return [*head, *containers(template(obj)), shown]


def _stateful_set(obj: Manifest, now: datetime) -> Cells:
    (ready,) = _counts(obj, "readyReplicas")
    head = [obj["metadata"]["name"], f"{ready}/{_wanted(obj)}", age(obj, now)]
    return [*head, *containers(template(obj))]


def _daemon_set(obj: Manifest, now: datetime) -> Cells:
    counts = _counts(
        obj,
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    nodes = labels_text(template(obj).get("nodeSelector"))
    head = [obj["metadata"]["name"], *counts, nodes, age(obj, now)]
    return [*head, *containers(template(obj)), selector_text(part(obj, "spec").get("selector"))]


def _job(obj: Manifest, now: datetime) -> Cells:
    return [
        obj["metadata"]["name"],
        _job_status(obj),
        _completions(obj),
        _duration(part(obj, "status"), now),
        age(obj, now),
        *containers(template(obj)),
        selector_text(part(obj, "spec").get("selector")),
    ]


def _job_status(obj: Manifest) -> str:
    conditions = items(part(obj, "status"), "conditions")
    true = {each.get("type") for each in conditions if each.get("status") == "True"}
    for kind in ("Complete", "Failed"):
        if kind in true:
            return kind
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if kind in true:
            return kind
    return "Running"


def _completions(obj: Manifest) -> str:
    spec, (done,) = part(obj, "spec"), _counts(obj, "succeeded")
    if spec.get("completions") is not None:
        return f"{done}/{spec['completions']}"
    parallel = int(spec.get("parallelism") or 0)
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _duration(status: dict[str, Any], now: datetime) -> str:
    start, end = status.get("startTime"), status.get("completionTime")
    if not start:
        return ""
    until = parse_time(end) if end else now
    return human_duration((until - parse_time(start)).total_seconds())


def _cron_job(obj: Manifest, now: datetime) -> Cells:
    spec, status = part(obj, "spec"), part(obj, "status")
    pod = part(part(part(part(spec, "jobTemplate"), "spec"), "template"), "spec")
    selector = part(part(spec, "jobTemplate"), "spec").get("selector")
    last = status.get("lastScheduleTime")
    return [
        obj["metadata"]["name"],
        spec.get("schedule") or "",
        spec.get("timeZone") or NONE,
        "True" if spec.get("suspend") else "False",
        len(items(status, "active")),
        since(last, now) if last else NONE,
        age(obj, now),
        *containers(pod),
        selector_text(selector),
    ]


def _autoscaler(obj: Manifest, now: datetime) -> Cells:
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
    kind = str(metric.get("type") or "")
    member = kind[:1].lower() + kind[1:]
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


def _budget(obj: Manifest, now: datetime) -> Cells:
    spec = part(obj, "spec")
    bounds = [spec.get("minAvailable"), spec.get("maxUnavailable")]
    shown = ["N/A" if bound is None else str(bound) for bound in bounds]
    allowed = part(obj, "status").get("disruptionsAllowed") or 0
    return [obj["metadata"]["name"], *shown, allowed, age(obj, now)]


_COUNTS: Final = "Desired:integer | Current:integer | Ready:integer"
_PODS: Final = "Containers+ | Images+"
_REPLICAS: Final = Printer(columns(f"Name | {_COUNTS} | Age | {_PODS} | Selector+"), _replicas)

WORKLOADS: Final[dict[tuple[str, str], Printer]] = {
    ("apps", "Deployment"): Printer(
        columns(f"Name | Ready | Up-to-date | Available | Age | {_PODS} | Selector+"), _deployment
    ),
    ("apps", "ReplicaSet"): _REPLICAS,
    ("", "ReplicationController"): _REPLICAS,
    ("apps", "StatefulSet"): Printer(columns(f"Name | Ready | Age | {_PODS}"), _stateful_set),
    ("apps", "DaemonSet"): Printer(
        columns(
            f"Name | {_COUNTS} | Up-to-date:integer | Available:integer | Node Selector | Age | "
            f"{_PODS} | Selector+"
        ),
        _daemon_set,
    ),
    ("batch", "Job"): Printer(
        columns(f"Name | Status | Completions | Duration | Age | {_PODS} | Selector+"), _job
    ),
    ("batch", "CronJob"): Printer(
        columns(
            "Name | Schedule | Timezone | Suspend:boolean | Active:integer | Last Schedule | Age | "
            f"{_PODS} | Selector+"
        ),
        _cron_job,
    ),
    ("autoscaling", "HorizontalPodAutoscaler"): Printer(
        columns("Name | Reference | Targets | MinPods | MaxPods | Replicas | Age"), _autoscaler
    ),
    ("policy", "PodDisruptionBudget"): Printer(
        columns("Name | Min Available | Max Unavailable | Allowed Disruptions:integer | Age"),
        _budget,
    ),
}

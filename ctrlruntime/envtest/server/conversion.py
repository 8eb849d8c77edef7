"""Between the served versions of a kind and the one it is stored in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import orjson

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.kinds import Kind
from ctrlruntime.json import Json

Converter = Callable[[Manifest], Manifest]
_HPA_ANNOTATIONS: Final = {
    "metrics": "autoscaling.alpha.kubernetes.io/metrics",
    "behavior": "autoscaling.alpha.kubernetes.io/behavior",
    "conditions": "autoscaling.alpha.kubernetes.io/conditions",
    "currentMetrics": "autoscaling.alpha.kubernetes.io/current-metrics",
}


def from_storage(kind: Kind, obj: Manifest, version: str) -> Manifest:
    """Return the object as `version` shows it. The result may share parts with `obj`."""
    converter = _FROM.get((kind.group, kind.kind, version))
    if converter is not None:
        return converter(obj)
    api_version = kind.api_version(version)
    return obj if obj.get("apiVersion") == api_version else {**obj, "apiVersion": api_version}


def to_storage(kind: Kind, obj: Manifest, version: str) -> Manifest:
    """Return the stored form of an object sent as `version`."""
    converter = _TO.get((kind.group, kind.kind, version))
    if converter is not None:
        return converter(obj)
    if kind.group == "events.k8s.io":
        return obj
    return {**obj, "apiVersion": kind.api_version(kind.storage_version), "kind": kind.kind}


def same_in_storage(kind: Kind, version: str) -> bool:
    """Whether the stored bytes are already what `version` shows."""
    return version == kind.storage_version and kind.group != "events.k8s.io"


_EVENT_RENAMES: Final = (
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
)


def _renamed(obj: Manifest, names: dict[str, str], api_version: str) -> Manifest:
    out = {names.get(key, key): value for key, value in obj.items()}
    out["apiVersion"] = api_version
    return out


def _event_to_new(obj: Manifest) -> Manifest:
    return _renamed(obj, dict(_EVENT_RENAMES), "events.k8s.io/v1")


def _event_to_core(obj: Manifest) -> Manifest:
    out = _renamed(obj, {new: old for old, new in _EVENT_RENAMES}, "v1")
    out.setdefault("involvedObject", {})
    return out


def _hpa_to_v1(obj: Manifest) -> Manifest:
    out: Manifest = orjson.loads(orjson.dumps(obj))
    out["apiVersion"] = "autoscaling/v1"
    spec: dict[str, Any] = out.get("spec") or {}
    others: list[Any] = []
    for metric in spec.pop("metrics", None) or []:
        resource = metric.get("resource") or {}
        target = resource.get("target") or {}
        if resource.get("name") == "cpu" and "averageUtilization" in target:
            spec["targetCPUUtilizationPercentage"] = target["averageUtilization"]
        else:
            others.append(metric)
    if others:
        _annotate(out, "metrics", others)
    if behavior := spec.pop("behavior", None):
        _annotate(out, "behavior", behavior)
    status: dict[str, Any] = out.get("status") or {}
    if "desiredReplicas" in status:
        status.setdefault("currentReplicas", 0)
    for name in ("conditions", "currentMetrics"):
        if value := status.pop(name, None):
            _annotate(out, name, value)
    return out


def _annotate(out: Manifest, name: str, value: object) -> None:
    annotations = out["metadata"].setdefault("annotations", {})
    annotations[_HPA_ANNOTATIONS[name]] = orjson.dumps(value).decode()


def _hpa_to_v2(obj: Manifest) -> Manifest:
    out: Manifest = orjson.loads(orjson.dumps(obj))
    out["apiVersion"] = "autoscaling/v2"
    spec: dict[str, Any] = out.setdefault("spec", {})
    metrics: list[Any] = []
    percentage = spec.pop("targetCPUUtilizationPercentage", None)
    if percentage is not None:
        target = {"type": "Utilization", "averageUtilization": percentage}
        metrics.append({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    metrics += _pop_annotation(out, "metrics") or []
    if metrics:
        spec["metrics"] = metrics
    if behavior := _pop_annotation(out, "behavior"):
        spec["behavior"] = behavior
    status: dict[str, Any] = out.setdefault("status", {})
    for name in ("conditions", "currentMetrics"):
        if value := _pop_annotation(out, name):
            status[name] = value
    return out


def _pop_annotation(out: Manifest, name: str) -> Json:
    annotations = out["metadata"].get("annotations")
    if not annotations or _HPA_ANNOTATIONS[name] not in annotations:
        return None
    text = annotations.pop(_HPA_ANNOTATIONS[name])
    if not annotations:
        del out["metadata"]["annotations"]
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


_FROM: Final[dict[tuple[str, str, str], Converter]] = {
    ("events.k8s.io", "Event", "v1"): _event_to_new,
    ("autoscaling", "HorizontalPodAutoscaler", "v1"): _hpa_to_v1,
}
_TO: Final[dict[tuple[str, str, str], Converter]] = {
    ("events.k8s.io", "Event", "v1"): _event_to_core,
    ("autoscaling", "HorizontalPodAutoscaler", "v1"): _hpa_to_v2,
}

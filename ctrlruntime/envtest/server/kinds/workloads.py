"""What the kinds that make Pods share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.client.selectors import selector_matches
from ctrlruntime.envtest.server.errors import FieldError, bad_value, not_supported, required
from ctrlruntime.envtest.server.kinds.kind import ScalePaths
from ctrlruntime.envtest.server.metadata import validate_labels
from ctrlruntime.envtest.server.printers.column import part

_Object = dict[str, Any]


def rolling(
    field: str, values: _Object, *, only_by_default: bool = False
) -> Callable[[_Object], None]:
    """`only_by_default`: who names the type is not given the parameters."""

    def rule(spec: _Object) -> None:
        strategy = spec.get(field)
        if not isinstance(strategy, dict):
            return
        named = bool(strategy.get("type"))
        if not named:
            strategy["type"] = "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            if strategy.get("rollingUpdate") is None:
                if named and only_by_default:
                    return
                strategy["rollingUpdate"] = {}
            for name, value in values.items():
                strategy["rollingUpdate"].setdefault(name, value)

    return rule


def always(spec: _Object, prefix: str) -> Iterator[FieldError]:
    """Pods of a controller that replaces them are restarted always."""
    template = (spec.get("template") or {}).get("spec") or {}
    policy = template.get("restartPolicy")
    if policy != "Always" and policy:
        yield not_supported(f"{prefix}template.spec.restartPolicy", policy, ("Always",))


def _named_selector(spec: _Object, prefix: str) -> Iterator[FieldError]:
    if spec.get("selector") is None:
        yield required(f"{prefix}selector")


def selects_template(spec: _Object, prefix: str) -> Iterator[FieldError]:
    selector = spec.get("selector")
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    if (
        selector is not None
        and not selector.get("matchLabels")
        and not selector.get("matchExpressions")
    ):
        detail = "empty selector is invalid for deployment"
        yield bad_value(f"{prefix}selector", selector, detail)
    if selector is None or not selector_matches(selector, labels):
        detail = "`selector` does not match template `labels`"
        yield bad_value(f"{prefix}template.metadata.labels", labels or None, detail)
    yield from validate_labels(labels, f"{prefix}template.metadata.labels")
    if not (spec.get("template") or {}).get("spec"):
        yield required(f"{prefix}template.spec.containers")


REPLICAS: Final = {"replicas": 0, "minReadySeconds": 0, "revisionHistoryLimit": 0}
SET_CHECKS: Final = (_named_selector, selects_template, always)


def numbers(obj: Manifest, *names: str) -> list[int]:
    status = part(obj, "status")
    return [int(status.get(name) or 0) for name in names]


def wanted(obj: Manifest) -> int:
    replicas = part(obj, "spec").get("replicas")
    return 1 if replicas is None else int(replicas)


COUNTS: Final = "Desired:integer | Current:integer | Ready:integer"
PODS: Final = "Containers+ | Images+"
WORKLOAD: Final[dict[str, Any]] = {"categories": ("all",), "generation": True}
SCALED: Final[dict[str, Any]] = {
    **WORKLOAD,
    "subresources": ("scale", "status"),
    "scale": ScalePaths(selector="spec.selector"),
}

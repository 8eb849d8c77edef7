"""Deployments."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.checking import Rules
from ctrlruntime.envtest.server.defaulting import Defaults
from ctrlruntime.envtest.server.errors import FieldError, bad_value, forbidden_field, not_supported
from ctrlruntime.envtest.server.kinds.declare import builtin_kind
from ctrlruntime.envtest.server.kinds.immutable import fixed
from ctrlruntime.envtest.server.kinds.pod_template import TEMPLATE, TEMPLATE_RULES
from ctrlruntime.envtest.server.kinds.workloads import (
    PODS,
    REPLICAS,
    SCALED,
    SET_CHECKS,
    numbers,
    rolling,
    wanted,
)
from ctrlruntime.envtest.server.printers.column import (
    Cells,
    age,
    containers,
    part,
    selector_text,
    template,
)

_Object = dict[str, Any]
_NONE: Final = (0, "0%")


def _strategy(spec: _Object, prefix: str) -> Iterator[FieldError]:
    strategy = spec.get("strategy") or {}
    if strategy.get("type") not in {None, "", "Recreate", "RollingUpdate"}:
        yield not_supported(f"{prefix}strategy", strategy, ("Recreate", "RollingUpdate"))
    if strategy.get("type") == "Recreate" and strategy.get("rollingUpdate") is not None:
        detail = "may not be specified when strategy `type` is 'Recreate'"
        yield forbidden_field(f"{prefix}strategy.rollingUpdate", detail)
    update = strategy.get("rollingUpdate") or {}
    stops, starts = update.get("maxUnavailable"), update.get("maxSurge")
    if stops in _NONE and starts in _NONE:
        path = f"{prefix}strategy.rollingUpdate.maxUnavailable"
        yield bad_value(path, stops, "may not be 0 when `maxSurge` is 0")


def _progress(spec: _Object, prefix: str) -> Iterator[FieldError]:
    deadline, ready = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds") or 0
    if deadline is not None and deadline <= ready:
        detail = "must be greater than minReadySeconds"
        yield bad_value(f"{prefix}progressDeadlineSeconds", deadline, detail)


def _cells(obj: Manifest, now: datetime) -> Cells:
    ready, updated, available = numbers(
        obj, "readyReplicas", "updatedReplicas", "availableReplicas"
    )
    head = [obj["metadata"]["name"], f"{ready}/{wanted(obj)}", updated, available, age(obj, now)]
    return [*head, *containers(template(obj)), selector_text(part(obj, "spec").get("selector"))]


DEPLOYMENT: Final = builtin_kind(
    "apps",
    "Deployment",
    "deployments",
    "deploy",
    **SCALED,
    spec_defaults=Defaults(
        {"replicas": 1, "strategy": {}, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600},
        {"template": TEMPLATE},
        (rolling("strategy", {"maxUnavailable": "25%", "maxSurge": "25%"}),),
    ),
    spec_rules=Rules(
        minimum=REPLICAS,
        within={"template": TEMPLATE_RULES},
        checks=(*SET_CHECKS, _strategy, _progress),
    ),
    updates=(fixed("spec.selector"),),
    columns=f"Name | Ready | Up-to-date | Available | Age | {PODS} | Selector+",
    cells=_cells,
)

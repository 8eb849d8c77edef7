"""DaemonSets."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.checking import Rules
from ctrlruntime.envtest.server.defaulting import Defaults
from ctrlruntime.envtest.server.errors import FieldError, bad_value, required
from ctrlruntime.envtest.server.kinds.declare import builtin_kind
from ctrlruntime.envtest.server.kinds.immutable import fixed
from ctrlruntime.envtest.server.kinds.pod_template import TEMPLATE, TEMPLATE_RULES
from ctrlruntime.envtest.server.kinds.workloads import (
    COUNTS,
    PODS,
    REPLICAS,
    WORKLOAD,
    always,
    numbers,
    rolling,
    selects_template,
)
from ctrlruntime.envtest.server.printers.column import (
    Cells,
    age,
    containers,
    labels_text,
    part,
    selector_text,
    template,
)

_Object = dict[str, Any]
_NONE: Final = (0, "0%", None)
_TEMPLATE_COUNT: Final = "deprecated.daemonset.template.generation"


def _create(obj: Manifest) -> None:
    annotations = obj["metadata"].setdefault("annotations", {})
    annotations[_TEMPLATE_COUNT] = "1"


def _show_template_count(obj: Manifest) -> None:
    """Who sends the annotation not at all sends, as the server sees it, a zero."""
    annotations = obj["metadata"].setdefault("annotations", {})
    annotations.setdefault(_TEMPLATE_COUNT, "0")


def _send_update(new: Manifest, old: Manifest, subresource: str) -> None:
    del old, subresource
    _show_template_count(new)


def _count_templates(new: Manifest, old: Manifest) -> None:
    """Keep the annotation of a field of the old API, whatever the sender makes of it."""
    count = int((old["metadata"].get("annotations") or {}).get(_TEMPLATE_COUNT) or 0)
    count += new["spec"].get("template") != old["spec"].get("template")
    new["metadata"].setdefault("annotations", {})[_TEMPLATE_COUNT] = str(count)


def _rolls(spec: _Object, prefix: str) -> Iterator[FieldError]:
    """Refuse an update that may neither stop nor start a Pod, and one that may do both."""
    update = (spec.get("updateStrategy") or {}).get("rollingUpdate")
    if update is None:
        return
    path, surge = f"{prefix}updateStrategy.rollingUpdate", update.get("maxSurge")
    stops, starts = (update.get(name) not in _NONE for name in ("maxUnavailable", "maxSurge"))
    if stops and starts:
        yield bad_value(f"{path}.maxSurge", surge, "may not be set when maxUnavailable is non-zero")
    if not stops and not starts:
        yield required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")


def _cells(obj: Manifest, now: datetime) -> Cells:
    counts = numbers(
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


DAEMON_SET: Final = builtin_kind(
    "apps",
    "DaemonSet",
    "daemonsets",
    "ds",
    **WORKLOAD,
    subresources=("status",),
    spec_defaults=Defaults(
        {"updateStrategy": {}, "revisionHistoryLimit": 10},
        {"template": TEMPLATE},
        (rolling("updateStrategy", {"maxUnavailable": 1, "maxSurge": 0}),),
    ),
    status={
        "currentNumberScheduled": 0,
        "desiredNumberScheduled": 0,
        "numberMisscheduled": 0,
        "numberReady": 0,
    },
    spec_rules=Rules(
        minimum=REPLICAS,
        within={"template": TEMPLATE_RULES},
        checks=(selects_template, always, _rolls),
    ),
    updates=(fixed("spec.selector"),),
    columns=(
        f"Name | {COUNTS} | Up-to-date:integer | Available:integer | Node Selector | Age | "
        f"{PODS} | Selector+"
    ),
    cells=_cells,
    before_tracking=_show_template_count,
    before_create=_create,
    before_update=_send_update,
    after_tracking=_count_templates,
)

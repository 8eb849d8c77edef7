"""ReplicaSets and ReplicationControllers."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.checking import Rules
from ctrlruntime.envtest.server.defaulting import Defaults
from ctrlruntime.envtest.server.kinds.declare import builtin_kind
from ctrlruntime.envtest.server.kinds.immutable import fixed
from ctrlruntime.envtest.server.kinds.pod_template import TEMPLATE, TEMPLATE_RULES
from ctrlruntime.envtest.server.kinds.workloads import (
    COUNTS,
    PODS,
    REPLICAS,
    SCALED,
    SET_CHECKS,
    numbers,
    wanted,
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


def _controller_labels(controller: _Object) -> None:
    """Give a ReplicationController labels and selector from its template."""
    spec = controller.get("spec") or {}
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        if not controller["metadata"].get("labels"):
            controller["metadata"]["labels"] = dict(labels)


def _cells(obj: Manifest, now: datetime) -> Cells:
    counts = numbers(obj, "replicas", "readyReplicas")
    head = [obj["metadata"]["name"], wanted(obj), *counts, age(obj, now)]
    selector = part(obj, "spec").get("selector")
    plain = obj.get("kind") == "ReplicationController"
    shown = labels_text(selector) if plain else selector_text(selector)
    return [*head, *containers(template(obj)), shown]


_DEFAULTS: Final = Defaults(within={"spec": Defaults({"replicas": 1}, {"template": TEMPLATE})})
_COLUMNS: Final = f"Name | {COUNTS} | Age | {PODS} | Selector+"
REPLICA_SET: Final = builtin_kind(
    "apps",
    "ReplicaSet",
    "replicasets",
    "rs",
    **SCALED,
    more_fields=("status.replicas",),
    defaults=_DEFAULTS,
    status={"replicas": 0},
    spec_rules=Rules(minimum=REPLICAS, within={"template": TEMPLATE_RULES}, checks=SET_CHECKS),
    updates=(fixed("spec.selector"),),
    columns=_COLUMNS,
    cells=_cells,
)
REPLICATION_CONTROLLER: Final = builtin_kind(
    "",
    "ReplicationController",
    "replicationcontrollers",
    "rc",
    **SCALED,
    more_fields=("status.replicas",),
    defaults=Defaults(within=_DEFAULTS.within, rules=(_controller_labels,)),
    status={"replicas": 0},
    columns=_COLUMNS,
    cells=_cells,
)

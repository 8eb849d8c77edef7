"""PodDisruptionBudgets."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.checking import Rules
from ctrlruntime.envtest.server.defaulting import Defaults
from ctrlruntime.envtest.server.errors import FieldError, bad_value
from ctrlruntime.envtest.server.kinds.declare import builtin_kind
from ctrlruntime.envtest.server.printers.column import Cells, age, part

_Object = dict[str, Any]


def _check(spec: _Object, prefix: str) -> Iterator[FieldError]:
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        detail = "minAvailable and maxUnavailable cannot be both set"
        yield bad_value(prefix.rstrip("."), spec, detail)
    for name in ("minAvailable", "maxUnavailable"):
        bound = spec.get(name)
        share = str(bound).removesuffix("%") if isinstance(bound, str) else ""
        if share.isdecimal() and int(share) > 100:
            yield bad_value(f"{prefix}{name}", bound, "must not be greater than 100%")


def _cells(obj: Manifest, now: datetime) -> Cells:
    spec = part(obj, "spec")
    bounds = [spec.get("minAvailable"), spec.get("maxUnavailable")]
    shown = ["N/A" if bound is None else str(bound) for bound in bounds]
    allowed = part(obj, "status").get("disruptionsAllowed") or 0
    return [obj["metadata"]["name"], *shown, allowed, age(obj, now)]


POD_DISRUPTION_BUDGET: Final = builtin_kind(
    "policy",
    "PodDisruptionBudget",
    "poddisruptionbudgets",
    "pdb",
    generation=True,
    unconditional_update=False,
    subresources=("status",),
    defaults=Defaults({"spec": {}}),
    status={"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0},
    spec_rules=Rules(checks=(_check,)),
    columns="Name | Min Available | Max Unavailable | Allowed Disruptions:integer | Age",
    cells=_cells,
)

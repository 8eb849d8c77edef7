"""Leases."""

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
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if seconds is not None and seconds <= 0:
        yield bad_value(f"{prefix}leaseDurationSeconds", seconds, "must be greater than 0")
    if transitions is not None and transitions < 0:
        detail = "must be greater than or equal to 0"
        yield bad_value(f"{prefix}leaseTransitions", transitions, detail)


def _cells(obj: Manifest, now: datetime) -> Cells:
    holder = part(obj, "spec").get("holderIdentity") or ""
    return [obj["metadata"]["name"], holder, age(obj, now)]


LEASE: Final = builtin_kind(
    "coordination.k8s.io",
    "Lease",
    "leases",
    create_on_update=True,
    unconditional_update=False,
    defaults=Defaults({"spec": {}}),
    spec_rules=Rules(checks=(_check,)),
    columns="Name | Holder | Age",
    cells=_cells,
)

"""CronJobs."""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.checking import Rules
from ctrlruntime.envtest.server.defaulting import Defaults
from ctrlruntime.envtest.server.errors import FieldError, bad_value, required
from ctrlruntime.envtest.server.kinds.declare import builtin_kind
from ctrlruntime.envtest.server.kinds.job import JOB_RULES
from ctrlruntime.envtest.server.kinds.pod_template import TEMPLATE
from ctrlruntime.envtest.server.kinds.workloads import PODS, WORKLOAD
from ctrlruntime.envtest.server.printers.column import (
    NONE,
    Cells,
    age,
    containers,
    items,
    part,
    selector_text,
    since,
)

_Object = dict[str, Any]
# CronJob templates are not completed before a job is made of them.
_POD_TEMPLATE: Final = Defaults({"metadata": {}, **TEMPLATE.values}, TEMPLATE.within)
_JOB_TEMPLATE: Final = Defaults(
    {"metadata": {}}, {"spec": Defaults(within={"template": _POD_TEMPLATE})}
)
_LONGEST: Final = 52
"""Of a name: the jobs' names add eleven characters."""


def _schedule(spec: _Object, prefix: str) -> Iterator[FieldError]:
    schedule = spec.get("schedule") or ""
    if not schedule:
        yield required(f"{prefix}schedule")
    elif not schedule.startswith("@"):
        fields = schedule.split()
        if len(fields) != 5:
            detail = f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
            yield bad_value(f"{prefix}schedule", schedule, detail)
    zone = spec.get("timeZone")
    if zone is not None and zone not in zoneinfo.available_timezones():
        yield bad_value(f"{prefix}timeZone", zone, f"unknown time zone {zone}")


def _name(obj: _Object, prefix: str) -> Iterator[FieldError]:
    name = obj["metadata"].get("name") or ""
    if len(name) > _LONGEST:
        detail = f"must be no more than {_LONGEST} characters"
        yield bad_value(f"{prefix}metadata.name", name, detail)


def _cells(obj: Manifest, now: datetime) -> Cells:
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


CRON_JOB: Final = builtin_kind(
    "batch",
    "CronJob",
    "cronjobs",
    "cj",
    **WORKLOAD,
    subresources=("status",),
    spec_defaults=Defaults(
        {
            "concurrencyPolicy": "Allow",
            "suspend": False,
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1,
        },
        {"jobTemplate": _JOB_TEMPLATE},
    ),
    rules=Rules(
        within={
            "spec": Rules(
                enums={"concurrencyPolicy": ("Allow", "Forbid", "Replace")},
                within={"jobTemplate": Rules(within={"spec": JOB_RULES})},
                checks=(_schedule,),
            )
        },
        checks=(_name,),
    ),
    columns=(
        "Name | Schedule | Timezone | Suspend:boolean | Active:integer | Last Schedule | "
        f"Age | {PODS} | Selector+"
    ),
    cells=_cells,
)

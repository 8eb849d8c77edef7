"""Jobs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.api.scalars import parse_time
from ctrlruntime.envtest.server.checking import Rules
from ctrlruntime.envtest.server.defaulting import Defaults
from ctrlruntime.envtest.server.errors import FieldError, not_supported, required
from ctrlruntime.envtest.server.kinds.declare import builtin_kind
from ctrlruntime.envtest.server.kinds.immutable import fixed
from ctrlruntime.envtest.server.kinds.pod_template import TEMPLATE, TEMPLATE_RULES
from ctrlruntime.envtest.server.kinds.workloads import PODS, WORKLOAD, numbers
from ctrlruntime.envtest.server.printers.column import (
    Cells,
    age,
    containers,
    human_duration,
    items,
    part,
    selector_text,
    template,
)

_Object = dict[str, Any]


def _template_labels(job: _Object) -> None:
    """Give a Job without labels those of its template."""
    labels = ((job.get("spec") or {}).get("template") or {}).get("metadata") or {}
    if labels.get("labels") and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(labels["labels"])


def _default_completions(spec: _Object) -> None:
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    if spec.get("parallelism") is None:
        spec["parallelism"] = 1
    if spec.get("backoffLimit") is None:
        each = spec.get("backoffLimitPerIndex")
        spec["backoffLimit"] = 6 if each is None else (1 << 31) - 1
    if spec.get("podReplacementPolicy") is None:
        policy = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
        spec["podReplacementPolicy"] = policy


_FAILURE_POLICY: Final = Defaults(
    within={"rules": Defaults(within={"onPodConditions": Defaults({"status": "True"})})}
)
_JOB_DEFAULTS: Final = Defaults(
    {"completionMode": "NonIndexed", "manualSelector": False, "suspend": False},
    {"template": TEMPLATE, "podFailurePolicy": _FAILURE_POLICY},
    (_default_completions,),
)


def _job_restart(spec: _Object, prefix: str) -> Iterator[FieldError]:
    template = (spec.get("template") or {}).get("spec") or {}
    policy = template.get("restartPolicy")
    path = f"{prefix}template.spec.restartPolicy"
    if policy in {None, "", "Always"}:
        yield required(path, 'valid values: "OnFailure", "Never"')
    elif policy not in {"OnFailure", "Never"}:
        yield not_supported(path, policy, ("OnFailure", "Never"))


JOB_RULES: Final = Rules(
    minimum={"completions": 0, "parallelism": 0, "backoffLimit": 0, "activeDeadlineSeconds": 0},
    enums={"completionMode": ("Indexed", "NonIndexed")},
    within={"template": TEMPLATE_RULES},
    checks=(_job_restart,),
)


def _create(obj: Manifest) -> None:
    """Selector and labels made of the uid, unless the owner does that by hand."""
    metadata, spec = obj["metadata"], obj.get("spec")
    if not isinstance(spec, dict) or spec.get("manualSelector"):
        return
    template = spec.setdefault("template", {})
    if template.get("metadata") is None:
        template["metadata"] = {}
    if template["metadata"].get("labels") is None:
        template["metadata"]["labels"] = {}
    labels = template["metadata"]["labels"]
    uid, name = metadata["uid"], metadata.get("name", "")
    for prefix in ("batch.kubernetes.io/", ""):
        labels[f"{prefix}controller-uid"] = uid
        labels[f"{prefix}job-name"] = name
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    if not metadata.get("labels"):
        metadata["labels"] = dict(labels)


def _cells(obj: Manifest, now: datetime) -> Cells:
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
    spec, (done,) = part(obj, "spec"), numbers(obj, "succeeded")
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


JOB: Final = builtin_kind(
    "batch",
    "Job",
    "jobs",
    **WORKLOAD,
    subresources=("status",),
    more_fields=("status.successful",),
    defaults=Defaults(within={"spec": _JOB_DEFAULTS}, rules=(_template_labels,)),
    spec_rules=JOB_RULES,
    updates=(fixed("spec.completions", "spec.selector", "spec.template"),),
    columns=f"Name | Status | Completions | Duration | Age | {PODS} | Selector+",
    cells=_cells,
    before_create=_create,
)

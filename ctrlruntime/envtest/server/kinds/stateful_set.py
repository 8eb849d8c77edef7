"""StatefulSets."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.checking import Rules
from ctrlruntime.envtest.server.defaulting import Defaults
from ctrlruntime.envtest.server.errors import FieldError, bad_value, forbidden_field
from ctrlruntime.envtest.server.kinds.declare import builtin_kind
from ctrlruntime.envtest.server.kinds.immutable import without
from ctrlruntime.envtest.server.kinds.persistent_volume_claim import CLAIM
from ctrlruntime.envtest.server.kinds.pod_template import (
    CLAIMING_TEMPLATE_RULES,
    TEMPLATE,
    volume_mounts,
)
from ctrlruntime.envtest.server.kinds.workloads import (
    PODS,
    REPLICAS,
    SCALED,
    SET_CHECKS,
    numbers,
    rolling,
    wanted,
)
from ctrlruntime.envtest.server.printers.column import Cells, age, containers, template

_Object = dict[str, Any]


def _claim_templates(spec: _Object) -> None:
    for claim in spec.get("volumeClaimTemplates") or ():
        claim.setdefault("kind", "PersistentVolumeClaim")
        claim.setdefault("apiVersion", "v1")
        CLAIM.fill(claim)
        claim["status"] = {"phase": "Pending"}


def _mounts(spec: _Object, prefix: str) -> Iterator[FieldError]:
    """Check mounts, which may be of a volume or of a claim template."""
    names = [
        str((claim.get("metadata") or {}).get("name") or "")
        for claim in spec.get("volumeClaimTemplates") or ()
    ]
    template = (spec.get("template") or {}).get("spec") or {}
    yield from volume_mounts(template, f"{prefix}template.spec.", names)


def _set_strategy(spec: _Object, prefix: str) -> Iterator[FieldError]:
    strategy = spec.get("updateStrategy") or {}
    policy = spec.get("podManagementPolicy")
    if policy not in {None, "", "OrderedReady", "Parallel"}:
        detail = "must be 'OrderedReady' or 'Parallel'"
        yield bad_value(f"{prefix}podManagementPolicy", policy, detail)
    if strategy.get("type") not in {None, "", "OnDelete", "RollingUpdate"}:
        yield bad_value(
            f"{prefix}updateStrategy", strategy, "must be 'RollingUpdate' or 'OnDelete'"
        )
    if strategy.get("type") == "OnDelete" and strategy.get("rollingUpdate") is not None:
        detail = "only allowed for updateStrategy 'RollingUpdate'"
        yield bad_value(f"{prefix}updateStrategy.rollingUpdate", strategy["rollingUpdate"], detail)


def _frozen(new: _Object, old: _Object) -> Iterator[FieldError]:
    free = {
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    }
    if without(new["spec"], free) != without(old["spec"], free):
        yield forbidden_field(
            "spec",
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
            "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
            "'minReadySeconds' are forbidden",
        )


def _cells(obj: Manifest, now: datetime) -> Cells:
    (ready,) = numbers(obj, "readyReplicas")
    head = [obj["metadata"]["name"], f"{ready}/{wanted(obj)}", age(obj, now)]
    return [*head, *containers(template(obj))]


STATEFUL_SET: Final = builtin_kind(
    "apps",
    "StatefulSet",
    "statefulsets",
    "sts",
    **SCALED,
    spec_defaults=Defaults(
        {
            "replicas": 1,
            "podManagementPolicy": "OrderedReady",
            "updateStrategy": {},
            "revisionHistoryLimit": 10,
            "persistentVolumeClaimRetentionPolicy": {},
        },
        {
            "template": TEMPLATE,
            "persistentVolumeClaimRetentionPolicy": Defaults(
                {"whenDeleted": "Retain", "whenScaled": "Retain"}
            ),
        },
        (rolling("updateStrategy", {"partition": 0}, only_by_default=True), _claim_templates),
    ),
    status={"replicas": 0, "availableReplicas": 0},
    spec_rules=Rules(
        minimum=REPLICAS,
        within={"template": CLAIMING_TEMPLATE_RULES},
        checks=(*SET_CHECKS, _set_strategy, _mounts),
    ),
    updates=(_frozen,),
    columns=f"Name | Ready | Age | {PODS}",
    cells=_cells,
)

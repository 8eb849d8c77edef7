"""Kinds that are hardly more than their names."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.api.name_rules import label
from ctrlruntime.envtest.server.checking import Rules
from ctrlruntime.envtest.server.defaulting import Defaults
from ctrlruntime.envtest.server.errors import FieldError, bad_value, forbidden_field
from ctrlruntime.envtest.server.kinds.declare import builtin_kind
from ctrlruntime.envtest.server.kinds.immutable import fixed
from ctrlruntime.envtest.server.kinds.persistent_volume_claim import finalizer
from ctrlruntime.envtest.server.kinds.pod_template import TEMPLATE
from ctrlruntime.envtest.server.printers.column import Cells, age, items, part

_STORAGE: Final = "storage.k8s.io"
_ONCE: Final[dict[str, Any]] = {"namespaced": False, "unconditional_update": False}


def _account(obj: Manifest, now: datetime) -> Cells:
    return [obj["metadata"]["name"], len(items(obj, "secrets")), age(obj, now)]


SERVICE_ACCOUNT: Final = builtin_kind(
    "",
    "ServiceAccount",
    "serviceaccounts",
    "sa",
    subresources=("token",),
    columns="Name | Secrets | Age",
    cells=_account,
)
POD_TEMPLATE: Final = builtin_kind(
    "",
    "PodTemplate",
    "podtemplates",
    generation=True,
    defaults=Defaults(within={"template": TEMPLATE}),
)
CONTROLLER_REVISION: Final = builtin_kind(
    "apps", "ControllerRevision", "controllerrevisions", updates=(fixed("data"),)
)
INGRESS_CLASS: Final = builtin_kind(
    "networking.k8s.io",
    "IngressClass",
    "ingressclasses",
    namespaced=False,
    generation=True,
    spec_defaults=Defaults(within={"parameters": Defaults({"scope": "Cluster"})}),
)
_MOST_PRIORITY: Final = 1_000_000_000


def _priority(obj: Manifest, prefix: str) -> Iterator[FieldError]:
    name = obj["metadata"].get("name") or ""
    if name.startswith("system-"):
        text = "priority class names with 'system-' prefix are reserved for system use only. error:"
        text += f" {name} is not a known system priority class"
        yield forbidden_field(f"{prefix}metadata.name", text)
    elif (obj.get("value") or 0) > _MOST_PRIORITY:
        text = f"maximum allowed value of a user defined priority is {_MOST_PRIORITY}"
        yield forbidden_field(f"{prefix}value", text)


PRIORITY_CLASS: Final = builtin_kind(
    "scheduling.k8s.io",
    "PriorityClass",
    "priorityclasses",
    "pc",
    namespaced=False,
    generation=True,
    defaults=Defaults({"preemptionPolicy": "PreemptLowerPriority"}),
    rules=Rules(checks=(_priority,)),
    updates=(fixed("value"),),
)


def _unset_tokens(new: Manifest, old: Manifest | None) -> Iterator[str]:
    spec = part(new, "spec")
    if (
        old is None
        and spec.get("tokenRequests")
        and spec.get("serviceAccountTokenInSecrets") is None
    ):
        yield (
            "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to "
            "true to prevent possible logging of tokens in volume attributes"
        )


VOLUMES: Final = (
    builtin_kind(
        _STORAGE,
        "CSIDriver",
        "csidrivers",
        **_ONCE,
        warnings=_unset_tokens,
        defaults=Defaults(
            {"spec": {}},
            {
                "spec": Defaults(
                    {
                        "attachRequired": True,
                        "podInfoOnMount": False,
                        "storageCapacity": False,
                        "fsGroupPolicy": "ReadWriteOnceWithFSType",
                        "volumeLifecycleModes": ["Persistent"],
                        "requiresRepublish": False,
                        "seLinuxMount": False,
                    }
                )
            },
        ),
    ),
    builtin_kind(_STORAGE, "CSINode", "csinodes", **_ONCE),
    builtin_kind(
        _STORAGE, "VolumeAttachment", "volumeattachments", subresources=("status",), **_ONCE
    ),
    builtin_kind(_STORAGE, "CSIStorageCapacity", "csistoragecapacities"),
)
VOLUME_ATTRIBUTES_CLASS: Final = builtin_kind(
    _STORAGE,
    "VolumeAttributesClass",
    "volumeattributesclasses",
    "vac",
    **_ONCE,
    admit=partial(finalizer, name="kubernetes.io/vac-protection"),
    updates=(fixed("driverName", "parameters"),),
)


def _handler(obj: Manifest, prefix: str) -> Iterator[FieldError]:
    for text in label(obj.get("handler") or ""):
        yield bad_value(f"{prefix}handler", obj.get("handler") or "", text)


RUNTIME_CLASS: Final = builtin_kind(
    "node.k8s.io",
    "RuntimeClass",
    "runtimeclasses",
    **_ONCE,
    rules=Rules(checks=(_handler,)),
    updates=(fixed("handler"),),
)
_REVIEW: Final[dict[str, Any]] = {"verbs": ("create",), "create_only": True, "name_rule": "none"}
_CLUSTER_REVIEW: Final[dict[str, Any]] = {**_REVIEW, "namespaced": False}
_AUTHN: Final = "authentication.k8s.io"
_AUTHZ: Final = "authorization.k8s.io"
REVIEWS: Final = (
    builtin_kind(_AUTHN, "TokenReview", "tokenreviews", **_CLUSTER_REVIEW),
    builtin_kind(_AUTHN, "SelfSubjectReview", "selfsubjectreviews", **_CLUSTER_REVIEW),
    builtin_kind(_AUTHZ, "SubjectAccessReview", "subjectaccessreviews", **_CLUSTER_REVIEW),
    builtin_kind(_AUTHZ, "SelfSubjectAccessReview", "selfsubjectaccessreviews", **_CLUSTER_REVIEW),
    builtin_kind(_AUTHZ, "SelfSubjectRulesReview", "selfsubjectrulesreviews", **_CLUSTER_REVIEW),
    builtin_kind(_AUTHZ, "LocalSubjectAccessReview", "localsubjectaccessreviews", **_REVIEW),
)

"""Kinds that are hardly more than their names."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.defaulting import Defaults
from ctrlruntime.envtest.server.kinds.declare import builtin_kind
from ctrlruntime.envtest.server.kinds.immutable import fixed
from ctrlruntime.envtest.server.kinds.pod_template import TEMPLATE
from ctrlruntime.envtest.server.printers.column import Cells, age, items

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
    "networking.k8s.io", "IngressClass", "ingressclasses", namespaced=False, generation=True
)
PRIORITY_CLASS: Final = builtin_kind(
    "scheduling.k8s.io",
    "PriorityClass",
    "priorityclasses",
    "pc",
    namespaced=False,
    generation=True,
    defaults=Defaults({"preemptionPolicy": "PreemptLowerPriority"}),
    updates=(fixed("value"),),
)
VOLUMES: Final = (
    builtin_kind(
        _STORAGE,
        "CSIDriver",
        "csidrivers",
        **_ONCE,
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

"""The table of built-in kinds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from ctrlruntime.envtest.server.kinds import DEFAULT_FIELDS, Kind, ScalePaths

_EVENT_FIELDS: Final = (
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
)
_POD_FIELDS: Final = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
)


def _kind(group: str, kind: str, plural: str, short: str = "", **more: Any) -> Kind:
    short_names = tuple(short.split())
    more_fields: tuple[str, ...] = more.pop("more_fields", ())
    in_namespace = more.get("namespaced", True)
    fields = (*DEFAULT_FIELDS, *more_fields) if in_namespace else ("metadata.name", *more_fields)
    return Kind(
        group=group, kind=kind, plural=plural, short_names=short_names, fields=fields, **more
    )


_ALL: Final = ("all",)
_STATUS: Final = ("status",)
_SCALED: Final = ("scale", "status")


def _core() -> tuple[Kind, ...]:
    return (
        _kind(
            "",
            "Pod",
            "pods",
            "po",
            categories=_ALL,
            generation=True,
            subresources=("binding", "ephemeralcontainers", "eviction", "resize", "status"),
            more_fields=_POD_FIELDS,
        ),
        _kind(
            "",
            "Service",
            "services",
            "svc",
            categories=_ALL,
            subresources=_STATUS,
            name_rule="label",
            create_on_update=True,
            more_fields=("spec.clusterIP", "spec.type"),
        ),
        _kind("", "ConfigMap", "configmaps", "cm"),
        _kind("", "Secret", "secrets", more_fields=("type",)),
        _kind("", "ServiceAccount", "serviceaccounts", "sa", subresources=("token",)),
        _kind(
            "",
            "Namespace",
            "namespaces",
            "ns",
            namespaced=False,
            name_rule="label",
            subresources=("finalize", "status"),
            verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
            more_fields=("status.phase",),
        ),
        _kind(
            "",
            "Node",
            "nodes",
            "no",
            namespaced=False,
            subresources=_STATUS,
            more_fields=("spec.unschedulable",),
        ),
        _kind("", "PersistentVolumeClaim", "persistentvolumeclaims", "pvc", subresources=_STATUS),
        _kind(
            "",
            "PersistentVolume",
            "persistentvolumes",
            "pv",
            namespaced=False,
            subresources=_STATUS,
        ),
        _kind(
            "",
            "Event",
            "events",
            "ev",
            create_on_update=True,
            name_rule="subdomain",
            more_fields=_EVENT_FIELDS,
        ),
        _kind("", "Endpoints", "endpoints", "ep", create_on_update=True),
        _kind("", "LimitRange", "limitranges", "limits", create_on_update=True),
        _kind("", "ResourceQuota", "resourcequotas", "quota", subresources=_STATUS),
        _kind(
            "",
            "ReplicationController",
            "replicationcontrollers",
            "rc",
            categories=_ALL,
            generation=True,
            subresources=_SCALED,
            scale=ScalePaths(selector="spec.selector"),
            more_fields=("status.replicas",),
        ),
        _kind("", "PodTemplate", "podtemplates", generation=True),
    )


def _workloads() -> tuple[Kind, ...]:
    scaled = ScalePaths(selector="spec.selector")
    return (
        _kind(
            "apps",
            "Deployment",
            "deployments",
            "deploy",
            categories=_ALL,
            generation=True,
            subresources=_SCALED,
            scale=scaled,
        ),
        _kind(
            "apps",
            "StatefulSet",
            "statefulsets",
            "sts",
            categories=_ALL,
            generation=True,
            subresources=_SCALED,
            scale=scaled,
        ),
        _kind(
            "apps",
            "DaemonSet",
            "daemonsets",
            "ds",
            categories=_ALL,
            generation=True,
            subresources=_STATUS,
        ),
        _kind(
            "apps",
            "ReplicaSet",
            "replicasets",
            "rs",
            categories=_ALL,
            generation=True,
            subresources=_SCALED,
            scale=scaled,
            more_fields=("status.replicas",),
        ),
        _kind("apps", "ControllerRevision", "controllerrevisions"),
        _kind(
            "batch",
            "Job",
            "jobs",
            categories=_ALL,
            generation=True,
            subresources=_STATUS,
            more_fields=("status.successful",),
        ),
        _kind(
            "batch",
            "CronJob",
            "cronjobs",
            "cj",
            categories=_ALL,
            generation=True,
            subresources=_STATUS,
        ),
        _kind(
            "autoscaling",
            "HorizontalPodAutoscaler",
            "horizontalpodautoscalers",
            "hpa",
            categories=_ALL,
            versions=("v2", "v1"),
            storage_version="v2",
            subresources=_STATUS,
        ),
        _kind(
            "policy",
            "PodDisruptionBudget",
            "poddisruptionbudgets",
            "pdb",
            generation=True,
            unconditional_update=False,
            subresources=_STATUS,
        ),
    )


def _network() -> tuple[Kind, ...]:
    return (
        _kind(
            "networking.k8s.io",
            "Ingress",
            "ingresses",
            "ing",
            generation=True,
            subresources=_STATUS,
        ),
        _kind(
            "networking.k8s.io",
            "IngressClass",
            "ingressclasses",
            namespaced=False,
            generation=True,
        ),
        _kind("networking.k8s.io", "NetworkPolicy", "networkpolicies", "netpol", generation=True),
        _kind(
            "discovery.k8s.io",
            "EndpointSlice",
            "endpointslices",
            generation=True,
        ),
    )


def _access() -> tuple[Kind, ...]:
    group = "rbac.authorization.k8s.io"
    rules: dict[str, Any] = {"name_rule": "path", "create_on_update": True}
    return (
        _kind(group, "Role", "roles", **rules),
        _kind(group, "RoleBinding", "rolebindings", **rules),
        _kind(group, "ClusterRole", "clusterroles", namespaced=False, **rules),
        _kind(group, "ClusterRoleBinding", "clusterrolebindings", namespaced=False, **rules),
        _kind(
            "coordination.k8s.io",
            "Lease",
            "leases",
            create_on_update=True,
            unconditional_update=False,
        ),
        _kind(
            "scheduling.k8s.io",
            "PriorityClass",
            "priorityclasses",
            "pc",
            namespaced=False,
            generation=True,
        ),
    )


def _storage() -> tuple[Kind, ...]:
    group = "storage.k8s.io"
    once: dict[str, Any] = {"namespaced": False, "unconditional_update": False}
    return (
        _kind(group, "StorageClass", "storageclasses", "sc", namespaced=False),
        _kind(group, "CSIDriver", "csidrivers", **once),
        _kind(group, "CSINode", "csinodes", **once),
        _kind(group, "VolumeAttachment", "volumeattachments", subresources=_STATUS, **once),
        _kind(group, "CSIStorageCapacity", "csistoragecapacities"),
    )


def _extension() -> tuple[Kind, ...]:
    hooks: dict[str, Any] = {
        "namespaced": False,
        "generation": True,
        "unconditional_update": False,
        "categories": ("api-extensions",),
    }
    group = "admissionregistration.k8s.io"
    return (
        _kind(group, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", **hooks),
        _kind(group, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", **hooks),
        _kind(
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            "customresourcedefinitions",
            "crd crds",
            subresources=_STATUS,
            **hooks,
        ),
    )


def _reviews() -> tuple[Kind, ...]:
    review: dict[str, Any] = {"verbs": ("create",), "create_only": True, "name_rule": "none"}
    cluster: dict[str, Any] = {**review, "namespaced": False}
    authn, authz = "authentication.k8s.io", "authorization.k8s.io"
    return (
        _kind(authn, "TokenReview", "tokenreviews", **cluster),
        _kind(authn, "SelfSubjectReview", "selfsubjectreviews", **cluster),
        _kind(authz, "SubjectAccessReview", "subjectaccessreviews", **cluster),
        _kind(authz, "SelfSubjectAccessReview", "selfsubjectaccessreviews", **cluster),
        _kind(authz, "SelfSubjectRulesReview", "selfsubjectrulesreviews", **cluster),
        _kind(authz, "LocalSubjectAccessReview", "localsubjectaccessreviews", **review),
    )


def builtin_kinds() -> tuple[Kind, ...]:
    """All built-in kinds. Events of `events.k8s.io` share the storage of the core ones."""
    core = _core()
    events = next(kind for kind in core if kind.kind == "Event")
    new_events = replace(
        events,
        group="events.k8s.io",
        fields=(*DEFAULT_FIELDS, "reason", "reportingController", "type"),
    )
    return (
        *core,
        *_workloads(),
        *_network(),
        *_access(),
        *_storage(),
        *_extension(),
        new_events,
        *_reviews(),
    )

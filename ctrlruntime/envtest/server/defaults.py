"""What the server fills in for built-in kinds, as tables."""

from __future__ import annotations

import base64
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.defaulting import Defaults
from ctrlruntime.envtest.server.definitions import default_definition
from ctrlruntime.envtest.server.kinds import Kind
from ctrlruntime.envtest.server.pods import TEMPLATE, default_pod

_Object = dict[str, Any]


# -- workloads -----------------------------------------------------------------------------


def _rolling(field: str, values: _Object, *, only_by_default: bool = False) -> Any:
    """`only_by_default`: who names the type is not given the parameters."""

    def rule(spec: _Object) -> None:
        strategy = spec.get(field)
        if not isinstance(strategy, dict):
            return
        named = bool(strategy.get("type"))
        if not named:
            strategy["type"] = "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            if strategy.get("rollingUpdate") is None:
                if named and only_by_default:
                    return
                strategy["rollingUpdate"] = {}
            for name, value in values.items():
                strategy["rollingUpdate"].setdefault(name, value)

    return rule


def _claim_templates(spec: _Object) -> None:
    for claim in spec.get("volumeClaimTemplates") or ():
        claim.setdefault("kind", "PersistentVolumeClaim")
        claim.setdefault("apiVersion", "v1")
        CLAIM.fill(claim)
        claim["status"] = {"phase": "Pending"}


def _template_labels(job: _Object) -> None:
    """Give a Job without labels those of its template."""
    labels = ((job.get("spec") or {}).get("template") or {}).get("metadata") or {}
    if labels.get("labels") and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(labels["labels"])


def _completions(spec: _Object) -> None:
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    if spec.get("parallelism") is None:
        spec["parallelism"] = 1
    if spec.get("podReplacementPolicy") is None:
        policy = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
        spec["podReplacementPolicy"] = policy


def _controller_labels(controller: _Object) -> None:
    """Give a ReplicationController labels and selector from its template."""
    spec = controller.get("spec") or {}
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        if not controller["metadata"].get("labels"):
            controller["metadata"]["labels"] = dict(labels)


def _limit_range(item: _Object) -> None:
    if item.get("type") != "Container":
        return
    for name, amount in (item.get("max") or {}).items():
        item.setdefault("default", {}).setdefault(name, amount)
    for name, amount in (item.get("default") or {}).items():
        item.setdefault("defaultRequest", {}).setdefault(name, amount)
    for name, amount in (item.get("min") or {}).items():
        item.setdefault("defaultRequest", {}).setdefault(name, amount)


def _metrics(spec: _Object) -> None:
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]


def _event_times(event: _Object) -> None:
    for name in ("firstTimestamp", "lastTimestamp", "eventTime"):
        event.setdefault(name, None)


def _policy_types(spec: _Object) -> None:
    if spec.get("policyTypes") is None:
        spec["policyTypes"] = ["Ingress"] + (["Egress"] if spec.get("egress") else [])


def _string_data(secret: _Object) -> None:
    sent = secret.pop("stringData", None)
    if sent:
        data = secret.get("data") or {}
        for key, text in sent.items():
            data[key] = base64.b64encode(str(text).encode()).decode()
        secret["data"] = data


def _service(spec: _Object) -> None:
    for port in spec.get("ports") or ():
        if port.get("targetPort") in {None, "", 0}:
            port["targetPort"] = port.get("port") or 0
    kind = spec.get("type")
    if kind in {"NodePort", "LoadBalancer"}:
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind in {"ClusterIP", "NodePort", "LoadBalancer"}:
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    if spec["sessionAffinity"] == "ClientIP":
        config = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        config.setdefault("timeoutSeconds", 10800)


_HPA_STATUS: Final = ("currentMetrics", "conditions")
_ANY: Final[_Object] = {}
CLAIM: Final = Defaults(
    {"spec": {}},
    {
        "spec": Defaults(
            {"volumeMode": "Filesystem"},
        )
    },
)
_JOB_SPEC: Final = Defaults(
    {
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "manualSelector": False,
        "suspend": False,
    },
    {"template": TEMPLATE},
    (_completions,),
)
# CronJob templates are not completed before a job is made of them.
_JOB_TEMPLATE_SPEC: Final = Defaults(within={"template": TEMPLATE})
_SUBJECTS: Final = Defaults(
    rules=(
        lambda s: (
            s.setdefault("apiGroup", "rbac.authorization.k8s.io")
            if s.get("kind") in {"User", "Group"}
            else None
        ),
    )
)
_BINDING: Final = Defaults(
    {"roleRef": {}},
    within={
        "roleRef": Defaults({"apiGroup": "rbac.authorization.k8s.io"}),
        "subjects": _SUBJECTS,
    },
)
_WEBHOOK: Final = Defaults(
    {
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        "timeoutSeconds": 10,
    },
    {
        "clientConfig": Defaults(within={"service": Defaults({"port": 443})}),
        "rules": Defaults({"scope": "*"}),
    },
)
_MUTATING: Final = Defaults({**_WEBHOOK.values, "reinvocationPolicy": "Never"}, _WEBHOOK.within)
_TCP: Final = Defaults({"protocol": "TCP"})

_TABLE: Final[dict[tuple[str, str], Defaults]] = {
    ("apps", "Deployment"): Defaults(
        within={
            "spec": Defaults(
                {
                    "replicas": 1,
                    "strategy": {},
                    "revisionHistoryLimit": 10,
                    "progressDeadlineSeconds": 600,
                },
                {"template": TEMPLATE},
                (_rolling("strategy", {"maxUnavailable": "25%", "maxSurge": "25%"}),),
            )
        }
    ),
    ("apps", "StatefulSet"): Defaults(
        within={
            "spec": Defaults(
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
                (
                    _rolling("updateStrategy", {"partition": 0}, only_by_default=True),
                    _claim_templates,
                ),
            )
        }
    ),
    ("apps", "DaemonSet"): Defaults(
        within={
            "spec": Defaults(
                {"updateStrategy": {}, "revisionHistoryLimit": 10},
                {"template": TEMPLATE},
                (_rolling("updateStrategy", {"maxUnavailable": 1, "maxSurge": 0}),),
            )
        }
    ),
    ("apps", "ReplicaSet"): Defaults(
        within={"spec": Defaults({"replicas": 1}, {"template": TEMPLATE})}
    ),
    ("", "ReplicationController"): Defaults(
        within={"spec": Defaults({"replicas": 1}, {"template": TEMPLATE})},
        rules=(_controller_labels,),
    ),
    ("", "PodTemplate"): Defaults(within={"template": TEMPLATE}),
    ("batch", "Job"): Defaults(within={"spec": _JOB_SPEC}, rules=(_template_labels,)),
    ("batch", "CronJob"): Defaults(
        within={
            "spec": Defaults(
                {
                    "concurrencyPolicy": "Allow",
                    "suspend": False,
                    "successfulJobsHistoryLimit": 3,
                    "failedJobsHistoryLimit": 1,
                },
                {"jobTemplate": Defaults(within={"spec": _JOB_TEMPLATE_SPEC})},
            )
        }
    ),
    ("", "Service"): Defaults(
        {"spec": {}},
        {
            "spec": Defaults(
                {"sessionAffinity": "None", "type": "ClusterIP"}, {"ports": _TCP}, (_service,)
            )
        },
    ),
    ("", "Secret"): Defaults({"type": "Opaque"}, rules=(_string_data,)),
    ("", "PersistentVolumeClaim"): CLAIM,
    ("", "PersistentVolume"): Defaults(
        within={
            "spec": Defaults(
                {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"},
                {"hostPath": Defaults({"type": ""})},
            )
        }
    ),
    ("", "Namespace"): Defaults({"spec": {}}),
    ("", "Node"): Defaults({"spec": {}}),
    ("", "ResourceQuota"): Defaults({"spec": {}}, {"spec": Defaults()}),
    ("", "LimitRange"): Defaults(
        within={"spec": Defaults(within={"limits": Defaults(rules=(_limit_range,))})}
    ),
    ("", "Endpoints"): Defaults(within={"subsets": Defaults(within={"ports": _TCP})}),
    ("", "Event"): Defaults(
        {"source": {}, "reportingComponent": "", "reportingInstance": "", "involvedObject": {}},
        rules=(_event_times,),
    ),
    ("discovery.k8s.io", "EndpointSlice"): Defaults(
        within={
            "endpoints": Defaults({"conditions": {}}),
            "ports": Defaults({"name": "", "protocol": "TCP"}),
        }
    ),
    ("networking.k8s.io", "NetworkPolicy"): Defaults(
        {"spec": {}},
        {
            "spec": Defaults(
                {"podSelector": {}},
                {
                    "ingress": Defaults(within={"ports": _TCP}),
                    "egress": Defaults(within={"ports": _TCP}),
                },
                (_policy_types,),
            )
        },
    ),
    ("networking.k8s.io", "Ingress"): Defaults({"spec": {}}),
    ("autoscaling", "HorizontalPodAutoscaler"): Defaults(
        within={"spec": Defaults({"minReplicas": 1}, rules=(_metrics,))}
    ),
    ("coordination.k8s.io", "Lease"): Defaults({"spec": {}}),
    ("policy", "PodDisruptionBudget"): Defaults({"spec": {}}),
    ("storage.k8s.io", "StorageClass"): Defaults(
        {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}
    ),
    ("storage.k8s.io", "CSIDriver"): Defaults(
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
    ("scheduling.k8s.io", "PriorityClass"): Defaults({"preemptionPolicy": "PreemptLowerPriority"}),
    ("rbac.authorization.k8s.io", "RoleBinding"): _BINDING,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _BINDING,
    ("rbac.authorization.k8s.io", "Role"): Defaults(rules=(lambda r: r.setdefault("rules", None),)),
    ("rbac.authorization.k8s.io", "ClusterRole"): Defaults(
        rules=(lambda r: r.setdefault("rules", None),)
    ),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): Defaults(
        within={"webhooks": _MUTATING}
    ),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): Defaults(
        within={"webhooks": _WEBHOOK}
    ),
}


def apply_defaults(kind: Kind, obj: Manifest) -> None:
    """Fill in the defaults of a built-in kind, in place, in its storage version."""
    if kind.kind == "Pod":
        default_pod(obj)
    elif kind.kind == "CustomResourceDefinition":
        default_definition(obj)
    elif kind.kind == "Event":
        _TABLE["", "Event"].fill(obj)
    elif (table := _TABLE.get((kind.group, kind.kind))) is not None:
        table.fill(obj)


_STATUS: Final[dict[tuple[str, str], Any]] = {
    ("", "Service"): {"loadBalancer": {}},
    ("networking.k8s.io", "Ingress"): {"loadBalancer": {}},
    ("", "Namespace"): {"phase": "Active"},
    ("", "PersistentVolumeClaim"): {"phase": "Pending"},
    ("", "PersistentVolume"): {"phase": "Pending"},
    ("apps", "DaemonSet"): {
        "currentNumberScheduled": 0,
        "desiredNumberScheduled": 0,
        "numberMisscheduled": 0,
        "numberReady": 0,
    },
    ("apps", "ReplicaSet"): {"replicas": 0},
    ("apps", "StatefulSet"): {"replicas": 0, "availableReplicas": 0},
    ("", "ReplicationController"): {"replicas": 0},
    ("policy", "PodDisruptionBudget"): {
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "disruptionsAllowed": 0,
        "expectedPods": 0,
    },
    ("autoscaling", "HorizontalPodAutoscaler"): {"desiredReplicas": 0, "currentMetrics": None},
}


def initial_status(kind: Kind) -> dict[str, Any] | None:
    """Return the status of a new object; None keeps what was sent (nodes)."""
    if kind.kind in {"Node", "CustomResourceDefinition"}:
        return None
    return dict(_STATUS.get((kind.group, kind.kind), _ANY))

"""What an object of a built-in kind holds before anything is set, and which zero members are left out.

The server compares a created object with the empty one of its Go type. Members that are structs
rather than pointers, and lists that are always written, are there from the start, so the creator
owns what it puts into them but not the members themselves (no ``.`` in its ``fieldsV1``).

Optional members that are values rather than pointers in the Go types are not written when they are
false, zero or empty: `paused: false` is taken and owned, but never comes back.
"""

from __future__ import annotations

import copy
from typing import Any, Final

_POD_SPEC: dict[str, Any] = {"containers": None}
_META: dict[str, Any] = {"creationTimestamp": None}
_TEMPLATE: dict[str, Any] = {"metadata": _META, "spec": _POD_SPEC}
_WORKLOAD: dict[str, Any] = {"selector": None, "template": _TEMPLATE}
_PARTS: dict[str, dict[str, Any]] = {
    "ClusterRole": {"rules": None},
    "ClusterRoleBinding": {"roleRef": {}},
    "CronJob": {"spec": {"jobTemplate": {"metadata": _META, "spec": {"template": _TEMPLATE}}}},
    "CustomResourceDefinition": {
        "spec": {"names": {}, "versions": None},
        "status": {"conditions": None, "acceptedNames": {}, "storedVersions": None},
    },
    "DaemonSet": {"spec": {**_WORKLOAD, "updateStrategy": {}}},
    "Deployment": {"spec": {**_WORKLOAD, "strategy": {}}},
    "EndpointSlice": {"endpoints": None, "ports": None},
    "Event": {
        "involvedObject": {},
        "source": {},
        "regarding": {},
        "deprecatedSource": {},
        "reportingComponent": "",
        "reportingInstance": "",
        **dict.fromkeys(("eventTime", "firstTimestamp", "lastTimestamp")),
        **dict.fromkeys(("deprecatedFirstTimestamp", "deprecatedLastTimestamp")),
    },
    "HorizontalPodAutoscaler": {"spec": {"scaleTargetRef": {}}},
    "Ingress": {"status": {"loadBalancer": {}}},
    "Job": {"spec": {"template": _TEMPLATE}},
    "NetworkPolicy": {"spec": {"podSelector": {}}},
    "PersistentVolumeClaim": {"spec": {"resources": {}}},
    "Pod": {"spec": _POD_SPEC},
    "PodTemplate": {"template": _TEMPLATE},
    "ReplicaSet": {"spec": _WORKLOAD},
    "Role": {"rules": None},
    "RoleBinding": {"roleRef": {}},
    "Service": {"status": {"loadBalancer": {}}},
    "StatefulSet": {"spec": {**_WORKLOAD, "updateStrategy": {}}},
    "VolumeAttachment": {"spec": {"source": {}}},
}
_CONTAINER: Final = "stdin stdinOnce tty workingDir terminationMessagePath"
_POD: Final = (
    "hostNetwork hostPID hostIPC nodeName serviceAccountName serviceAccount hostname subdomain "
    "priorityClassName"
)
_REFERENCE: Final = "kind namespace name uid apiVersion resourceVersion fieldPath"
_LEFT_OUT: Final = {
    "Container": _CONTAINER,
    "ContainerPort": "name hostPort hostIP",
    "DaemonSetSpec": "minReadySeconds",
    "DaemonSetStatus": "observedGeneration updatedNumberScheduled numberAvailable numberUnavailable",
    "DeploymentSpec": "minReadySeconds paused",
    "DeploymentStatus": (
        "observedGeneration replicas updatedReplicas readyReplicas availableReplicas "
        "unavailableReplicas"
    ),
    "EmptyDirVolumeSource": "medium",
    "EnvVar": "value",
    "EphemeralContainer": _CONTAINER,
    "HTTPGetAction": "path host",
    "HTTPIngressPath": "path",
    "IngressRule": "host",
    "IngressTLS": "secretName",
    "JobStatus": "active succeeded failed",
    "LocalObjectReference": "name",
    "NodeSpec": "podCIDR providerID unschedulable",
    "ObjectMeta": "generateName",
    "ObjectReference": _REFERENCE,
    "PersistentVolumeClaimSpec": "volumeName",
    "PersistentVolumeClaimVolumeSource": "readOnly",
    "PodSpec": _POD,
    "PodStatus": "phase message reason nominatedNodeName hostIP podIP qosClass",
    "PriorityClass": "globalDefault description",
    "Probe": "initialDelaySeconds",
    "ReplicaSetSpec": "minReadySeconds",
    "ReplicaSetStatus": "fullyLabeledReplicas readyReplicas availableReplicas observedGeneration",
    "ServiceBackendPort": "name number",
    "ServicePort": "name nodePort",
    "ServiceSpec": "publishNotReadyAddresses externalName loadBalancerIP healthCheckNodePort",
    "StatefulSetSpec": "minReadySeconds",
    "StatefulSetStatus": "observedGeneration readyReplicas currentReplicas updatedReplicas",
    "Subject": "apiGroup namespace",
    "VolumeMount": "readOnly subPath subPathExpr",
}
_SETS: Final = {name: frozenset(members.split()) for name, members in _LEFT_OUT.items()}


def zero_value(definition: str) -> dict[str, Any]:
    """Return the empty object of a definition, fresh; it may have members that the kind has not."""
    kind = definition.rpartition(".")[2]
    return {"metadata": {}, "spec": {}, "status": {}, **copy.deepcopy(_PARTS.get(kind, {}))}


def omitted(definition: str) -> frozenset[str]:
    """Return the members of a definition (by its OpenAPI name) that are left out when zero."""
    return _SETS.get(definition.rpartition(".")[2], frozenset())

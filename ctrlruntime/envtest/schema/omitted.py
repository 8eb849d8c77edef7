"""Members of built-in kinds that the server leaves out when they are zero.

Optional members that are values rather than pointers in the Go types are not written when they are
false, zero or empty: `paused: false` is taken and owned, but never comes back.
"""

from __future__ import annotations

from typing import Final

_CONTAINER: Final = "stdin stdinOnce tty workingDir terminationMessagePath"
_POD: Final = (
    "hostNetwork hostPID hostIPC nodeName serviceAccountName serviceAccount hostname subdomain "
    "priorityClassName"
)
_REFERENCE: Final = "kind namespace name uid apiVersion resourceVersion fieldPath"
_MEMBERS: Final = {
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
_SETS: Final = {name: frozenset(members.split()) for name, members in _MEMBERS.items()}


def omitted(definition: str) -> frozenset[str]:
    """Return the members of a definition (by its OpenAPI name) that are left out when zero."""
    return _SETS.get(definition.rpartition(".")[2], frozenset())

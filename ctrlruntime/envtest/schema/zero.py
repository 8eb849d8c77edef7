"""What an object of a built-in kind holds before anything is set.

The server compares a created object with the empty one of its Go type. Members that are structs
rather than pointers, and lists that are always written, are there from the start, so the creator
owns what it puts into them but not the members themselves (no ``.`` in its ``fieldsV1``).
"""

from __future__ import annotations

import copy
from typing import Any

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


def zero_value(definition: str) -> dict[str, Any]:
    """Return the empty object of a definition, fresh; it may have members that the kind has not."""
    kind = definition.rpartition(".")[2]
    return {"metadata": {}, "spec": {}, "status": {}, **copy.deepcopy(_PARTS.get(kind, {}))}

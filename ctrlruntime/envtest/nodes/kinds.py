"""The kinds that simulated nodes work on."""

from typing import Any, Final

from ctrlruntime.api.kinds import GroupVersionKind

Manifest = dict[str, Any]

NODE: Final = GroupVersionKind("", "v1", "Node")
POD: Final = GroupVersionKind("", "v1", "Pod")
SECRET: Final = GroupVersionKind("", "v1", "Secret")
CONFIG_MAP: Final = GroupVersionKind("", "v1", "ConfigMap")
SERVICE: Final = GroupVersionKind("", "v1", "Service")
MOST_PODS: Final = 500
"""Pods of one workload that are made, whatever it wants: they take memory of a process of this machine."""

CLAIM: Final = GroupVersionKind("", "v1", "PersistentVolumeClaim")
DEPLOYMENT: Final = GroupVersionKind("apps", "v1", "Deployment")
REPLICA_SET: Final = GroupVersionKind("apps", "v1", "ReplicaSet")
STATEFUL_SET: Final = GroupVersionKind("apps", "v1", "StatefulSet")
DAEMON_SET: Final = GroupVersionKind("apps", "v1", "DaemonSet")
JOB: Final = GroupVersionKind("batch", "v1", "Job")
INGRESS: Final = GroupVersionKind("networking.k8s.io", "v1", "Ingress")
AUTOSCALER: Final = GroupVersionKind("autoscaling", "v2", "HorizontalPodAutoscaler")
BUDGET: Final = GroupVersionKind("policy", "v1", "PodDisruptionBudget")

NODE_NAME: Final = "envtest-node"
HASH_LABEL: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
RUN_LOCAL: Final = "ctrlruntime.dev/run-local"
SIMULATE: Final = "ctrlruntime.dev/simulate"
"""Annotation on a Pod: ImagePullBackOff, CrashLoopBackOff, Unready, Failed or Hang."""
RUN_SECONDS: Final = "ctrlruntime.dev/run-seconds"
"""Annotation on a Pod that runs to completion: how long it runs."""

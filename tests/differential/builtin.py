"""Built-in kinds. No controller of these runs beside either server."""

from __future__ import annotations

from collections.abc import Sequence

from tests.differential.subject import Manifest, Part, Subject, items, pick

_TEMPLATE: Manifest = {
    "metadata": {"labels": {"app": "x"}},
    "spec": {"containers": [{"name": "a", "image": "i:1"}]},
}
_WORKLOAD: Manifest = {
    "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": _TEMPLATE},
}
_POD = "spec.template.spec"


_TIME = "2026-01-01T00:00:00Z"


def _condition(name: str, status: str) -> Manifest:
    return {
        "type": name,
        "status": status,
        "lastProbeTime": _TIME,
        "lastTransitionTime": _TIME,
        "lastUpdateTime": _TIME,
    }


def _container(name: str, **more: object) -> Manifest:
    return {"name": name, "image": "i:1", **more}


_CONTAINERS: Part = items(
    f"{_POD}.containers",
    _container("a"),
    _container("b", imagePullPolicy="Always"),
    _container("c", env=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]),
    _container("d", env=[{"name": "B", "value": "3"}], command=["x", "y"]),
    _container("e", ports=[{"containerPort": 80, "protocol": "TCP", "name": "http"}]),
    _container("f", resources={"limits": {"cpu": "1000m", "memory": "1Gi"}}),
    _container("g", livenessProbe={"httpGet": {"port": 80}}),
    _container("h", volumeMounts=[{"name": "v", "mountPath": "/v"}]),
)
_POD_PARTS: Sequence[Part] = (
    _CONTAINERS,
    pick(f"{_POD}.volumes", [{"name": "v", "configMap": {"name": "c"}}]),
    pick(f"{_POD}.nodeSelector", {"a": "1"}),
    pick(f"{_POD}.terminationGracePeriodSeconds", 10, 20),
    pick(f"{_POD}.serviceAccountName", "s", "t"),
    pick("spec.template.metadata.annotations", {"a": "1"}, {"b": "1"}),
)
_POD_BREAKS: Sequence[Manifest] = (
    {"spec": {"template": {"metadata": {"labels": {"app": "y"}}}}},
    {"spec": {"template": {"spec": {"containers": []}}}},
    {"spec": {"template": {"spec": {"containers": [{"name": "a"}]}}}},
    {"spec": {"template": {"spec": {"containers": [_container("A")]}}}},
    {"spec": {"template": {"spec": {"containers": [_container("a", imagePullPolicy="X")]}}}},
    {"spec": {"template": {"spec": {"restartPolicy": "Never"}}}},
    {"spec": {"template": {"spec": {"bogus": 1}}}},
    {"spec": {"selector": {"matchLabels": {"app": "y"}}}},
    {"spec": {"template": "x"}},
)
_FLAT = (pick("data", {"a": "1"}, {"a": "2", "b": "1"}, {"c": "1"}, {"b": "1", "d": "x\ny"}),)

CONFIG_MAP = Subject(
    "v1",
    "ConfigMap",
    "configmaps",
    {},
    [*_FLAT, *_FLAT, pick("binaryData", {"e": "eA=="}, {"f": "eA=="})],
    [
        {"data": {"a b": "1"}},
        {"data": {"a": 1}},
        {"data": {"e": "1"}, "binaryData": {"e": "eA=="}},
        {"binaryData": {"e": "*"}},
        {"data": ["a"]},
    ],
)
SECRET = Subject(
    "v1",
    "Secret",
    "secrets",
    {"type": "Opaque"},
    [pick("data", {"a": "eA=="}, {"a": "eQ==", "b": "eA=="}, {"c": "eA=="})],
    [{"data": {"a b": "eA=="}}, {"data": {"a": "***"}}, {"type": "example.com/other"}],
)
SERVICE_ACCOUNT = Subject(
    "v1",
    "ServiceAccount",
    "serviceaccounts",
    {},
    [
        items("secrets", {"name": "a"}, {"name": "b"}, {"name": "c"}),
        items("imagePullSecrets", {"name": "a"}, {"name": "b"}),
        pick("automountServiceAccountToken", True, False),
    ],
    [{"secrets": "x"}, {"automountServiceAccountToken": "yes"}],
)
SERVICE = Subject(
    "v1",
    "Service",
    "services",
    {"spec": {"ports": [{"name": "a", "port": 80, "protocol": "TCP"}]}},
    [
        items(
            "spec.ports",
            {"name": "a", "port": 80, "protocol": "TCP"},
            {"name": "b", "port": 81, "protocol": "TCP", "targetPort": "x"},
            {"name": "c", "port": 82, "protocol": "UDP", "targetPort": 8080},
        ),
        pick("spec.selector", {"a": "1"}),
        pick("spec.sessionAffinity", "None", "ClientIP"),
        pick("spec.publishNotReadyAddresses", True, False),
    ],
    [
        {"spec": {"ports": []}},
        {"spec": {"ports": [{"name": "a", "port": 0, "protocol": "TCP"}]}},
        {"spec": {"ports": [{"name": "A", "port": 1, "protocol": "TCP"}]}},
        {"spec": {"type": "Other"}},
        {"spec": {"sessionAffinity": "x"}},
    ],
    replaces=False,
    versions=False,
)
DEPLOYMENT = Subject(
    "apps/v1",
    "Deployment",
    "deployments",
    _WORKLOAD,
    [
        *_POD_PARTS,
        pick("spec.replicas", 1, 2, 3),
        pick("spec.strategy", {"type": "Recreate"}),
        pick(
            "spec.strategy",
            {"rollingUpdate": {"maxSurge": 1}},
            {"rollingUpdate": {"maxUnavailable": 1}},
        ),
        pick("spec.strategy", {"type": "RollingUpdate"}),
        pick("spec.paused", True, False),
    ],
    [
        *_POD_BREAKS,
        {"spec": {"replicas": -1}},
        {"spec": {"replicas": "1"}},
        {"spec": {"strategy": {"type": "Other"}}},
        {"spec": {"progressDeadlineSeconds": 0}},
    ],
    status=[
        pick("status.replicas", 1, 2),
        pick("status.conditions", [_condition("A", "True")], [_condition("A", "False")]),
        pick("status.observedGeneration", 1, 2),
    ],
    partial=False,
    scaled=True,
)
DAEMON_SET = Subject(
    "apps/v1",
    "DaemonSet",
    "daemonsets",
    _WORKLOAD,
    [*_POD_PARTS, pick("spec.minReadySeconds", 1, 2)],
    [*_POD_BREAKS, {"spec": {"minReadySeconds": -1}}],
    partial=False,
)
STATEFUL_SET = Subject(
    "apps/v1",
    "StatefulSet",
    "statefulsets",
    {"spec": {**_WORKLOAD["spec"], "serviceName": "s"}},
    [
        *_POD_PARTS,
        pick("spec.replicas", 1, 2, 3),
        pick("spec.podManagementPolicy", "OrderedReady", "Parallel"),
        pick("spec.updateStrategy", {"type": "OnDelete"}, {"type": "RollingUpdate"}),
    ],
    [
        {"spec": {"template": "x"}},
        {"spec": {"selector": {"matchLabels": {"app": "y"}}}},
        {"spec": {"replicas": -1}},
        {"spec": {"podManagementPolicy": "Other"}},
        {"spec": {"serviceName": "t"}},
        {"spec": {"updateStrategy": {"type": "Other"}}},
    ],
    scaled=True,
    partial=False,
)
JOB = Subject(
    "batch/v1",
    "Job",
    "jobs",
    {
        "spec": {
            "template": {
                "spec": {
                    "containers": [{"name": "a", "image": "i:1"}],
                    "restartPolicy": "Never",
                }
            }
        }
    },
    [
        pick("spec.parallelism", 1, 2),
        pick("spec.backoffLimit", 1, 2),
        pick("spec.activeDeadlineSeconds", 10, 20),
    ],
    [
        {"spec": {"parallelism": -1}},
        {"spec": {"completions": 7}},
        {"spec": {"backoffLimit": "x"}},
        {"spec": {"template": {"spec": {"restartPolicy": "Always"}}}},
        {"spec": {"template": {"spec": {"containers": []}}}},
        {"spec": {"template": {"spec": {"bogus": 1}}}},
    ],
    replaces=False,
    partial=False,
)
AUTOSCALER = Subject(
    "autoscaling/v1",
    "HorizontalPodAutoscaler",
    "horizontalpodautoscalers",
    {
        "spec": {
            "maxReplicas": 5,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
        }
    },
    [
        pick("spec.minReplicas", 1, 2, 3),
        pick("spec.maxReplicas", 4, 5, 6),
        pick("spec.targetCPUUtilizationPercentage", 50, 60),
    ],
    [
        {"spec": {"minReplicas": 0}},
        {"spec": {"maxReplicas": 0}},
        {"spec": {"minReplicas": 9}},
        {"spec": {"maxReplicas": "x"}},
        {"spec": {"scaleTargetRef": {"name": ""}}},
        {"spec": {"scaleTargetRef": {"kind": ""}}},
        {"spec": {"targetCPUUtilizationPercentage": 0}},
    ],
    partial=False,
    status=[
        pick("status", {"currentReplicas": 1, "desiredReplicas": 2}),
        pick("status", {"currentReplicas": 1, "desiredReplicas": 1, "observedGeneration": 1}),
    ],
)
POD = Subject(
    "v1",
    "Pod",
    "pods",
    {"spec": {"containers": [{"name": "a", "image": "i:1"}], "serviceAccountName": "default"}},
    [
        items(
            "spec.containers",
            _container("a"),
            {"name": "a", "image": "i:2"},
            {"name": "a", "image": "i:3"},
        ),
        pick("spec.activeDeadlineSeconds", 10, 20),
        pick("metadata.labels", {"x": "1"}, {"x": "2", "y": "1"}),
    ],
    [
        {"spec": {"containers": []}},
        {"spec": {"containers": [{"name": "a"}]}},
        {"spec": {"containers": [_container("A")]}},
        {"spec": {"containers": [_container("a", imagePullPolicy="X")]}},
        {"spec": {"restartPolicy": "Sometimes"}},
        {"spec": {"activeDeadlineSeconds": 0}},
        {"spec": {"hostNetwork": "x"}},
        {"spec": {"bogus": 1}},
        {"spec": {"terminationGracePeriodSeconds": 77}},
    ],
    replaces=False,
    finalizers=False,
    partial=False,
    status=[
        pick("status.phase", "Running", "Pending"),
        pick("status.podIP", "10.1.2.3", "10.1.2.4"),
        pick("status.conditions", [_condition("Ready", "True")]),
    ],
)
ROLE = Subject(
    "rbac.authorization.k8s.io/v1",
    "Role",
    "roles",
    {},
    [
        items(
            "rules",
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
            {"apiGroups": [""], "resources": ["pods", "services"], "verbs": ["*"]},
        )
    ],
    [{"rules": [{"verbs": []}]}, {"rules": [{"apiGroups": [""], "verbs": ["get"]}]}, {"rules": 1}],
    replaces=False,
)
ROLE_BINDING = Subject(
    "rbac.authorization.k8s.io/v1",
    "RoleBinding",
    "rolebindings",
    {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}},
    [
        items(
            "subjects",
            {"kind": "ServiceAccount", "name": "a"},
            {"kind": "ServiceAccount", "name": "b", "namespace": "n"},
            {"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"},
        )
    ],
    [
        {"roleRef": {"name": "edit"}},
        {"roleRef": {"kind": "Other"}},
        {"roleRef": {"name": ""}},
        {"subjects": [{"kind": "Other", "name": "x"}]},
        {"subjects": [{"kind": "ServiceAccount"}]},
    ],
    replaces=False,
    partial=False,
)
LEASE = Subject(
    "coordination.k8s.io/v1",
    "Lease",
    "leases",
    {},
    [
        pick("spec.holderIdentity", "a", "b"),
        pick("spec.leaseDurationSeconds", 10, 20),
        pick("spec.leaseTransitions", 0, 1),
        pick("spec.renewTime", "2026-01-01T00:00:00.000000Z", "2026-01-02T00:00:00.123456Z"),
    ],
    [
        {"spec": {"leaseDurationSeconds": 0}},
        {"spec": {"leaseTransitions": -1}},
        {"spec": {"renewTime": "yesterday"}},
        {"spec": {"leaseDurationSeconds": "1"}},
    ],
    replaces=False,
)
RESOURCE_QUOTA = Subject(
    "v1",
    "ResourceQuota",
    "resourcequotas",
    {},
    [
        pick(
            "spec.hard",
            {"count/a.example.com": "100"},
            {"count/a.example.com": "100000m", "count/b.example.com": "1Ti"},
        ),
        pick("spec.hard", {"count/widgets.example.com": "1k"}),
    ],
    [
        {"spec": {"hard": {"count/a.example.com": "x"}}},
        {"spec": {"hard": {"count/a.example.com": "-1"}}},
        {"spec": {"hard": {"a b": "1"}}},
    ],
    status=[
        pick("status.hard", {"count/a.example.com": "1"}),
        pick("status.used", {"count/a.example.com": "0"}),
    ],
)
NETWORK_POLICY = Subject(
    "networking.k8s.io/v1",
    "NetworkPolicy",
    "networkpolicies",
    {"spec": {"podSelector": {}}},
    [
        pick("spec.podSelector", {"matchLabels": {"a": "1"}}, {"matchLabels": {"b": "1"}}),
        items(
            "spec.ingress",
            {"from": [{"podSelector": {"matchLabels": {"a": "1"}}}]},
            {"ports": [{"port": 80}]},
            {"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]},
        ),
        pick("spec.policyTypes", ["Ingress"], ["Ingress", "Egress"]),
        pick("spec.egress", [{"ports": [{"port": 53, "protocol": "UDP"}]}]),
    ],
    [
        {"spec": {"policyTypes": ["Other"]}},
        {"spec": {"ingress": [{"from": [{"ipBlock": {"cidr": "x"}}]}]}},
        {"spec": {"ingress": [{"from": [{}]}]}},
        {"spec": {"ingress": [{"ports": [{"port": 0}]}]}},
    ],
    partial=False,
)
_BACKEND: Manifest = {"service": {"name": "s", "port": {"number": 80}}}
INGRESS = Subject(
    "networking.k8s.io/v1",
    "Ingress",
    "ingresses",
    {"spec": {"defaultBackend": _BACKEND}},
    [
        items(
            "spec.rules",
            {"host": "a.example.com"},
            {"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": _BACKEND}]}},
        ),
        items("spec.tls", {"hosts": ["a.example.com"], "secretName": "s"}, {"secretName": "t"}),
        pick("spec.ingressClassName", "c", "d"),
    ],
    [
        {"spec": {"rules": [{"host": "A"}]}},
        {"spec": {"defaultBackend": {"service": {"name": "s"}}}},
        {"spec": {"ingressClassName": "C"}},
        {"spec": {"rules": [{"http": {"paths": [{"path": "x", "backend": _BACKEND}]}}]}},
    ],
    status=[
        pick(
            "status.loadBalancer",
            {"ingress": [{"ip": "1.2.3.4"}]},
            {"ingress": [{"ip": "1.2.3.5"}]},
        )
    ],
    partial=False,
)
CLAIM = Subject(
    "v1",
    "PersistentVolumeClaim",
    "persistentvolumeclaims",
    {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "c",
        }
    },
    [pick("spec.volumeMode", "Filesystem"), pick("spec.accessModes", ["ReadWriteOnce"])],
    [
        {"spec": {"accessModes": []}},
        {"spec": {"accessModes": ["Other"]}},
        {"spec": {"resources": {"requests": {"storage": "-1"}}}},
        {"spec": {"resources": {"requests": {"storage": "1 Gi"}}}},
        {"spec": {"storageClassName": "other"}},
    ],
    status=[pick("status.phase", "Bound", "Pending"), pick("status.capacity", {"storage": "1Gi"})],
    finalizers=False,
    partial=False,
    deletes=False,
)
ALL: Sequence[Subject] = (
    CONFIG_MAP,
    SECRET,
    SERVICE_ACCOUNT,
    SERVICE,
    DEPLOYMENT,
    DAEMON_SET,
    STATEFUL_SET,
    JOB,
    AUTOSCALER,
    POD,
    ROLE,
    ROLE_BINDING,
    LEASE,
    RESOURCE_QUOTA,
    NETWORK_POLICY,
    INGRESS,
    CLAIM,
)

"""What the drift tests go through: one resource for each list, and what others do to them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from tests.tenancy.harness import mapping

Manifest = dict[str, Any]
Operations = list[dict[str, Any]]

WIDGET = RESTMapping(
    GroupVersionKind("example.com", "v1", "Widget"), plural="widgets", namespaced=True
)
WIDGET_CRD: Manifest = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "size": {"type": "integer"},
                                    "note": {"type": "string"},
                                    "finish": {"type": "string"},
                                    "parts": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["name"],
                                        "items": {
                                            "type": "object",
                                            "required": ["name"],
                                            "properties": {
                                                "name": {"type": "string"},
                                                "material": {"type": "string"},
                                            },
                                        },
                                    },
                                },
                            }
                        },
                    }
                },
            }
        ],
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One resource of the template, and the edits of others that touch it.

    `value` and `foreign` are merge patches, `removed` is a JSON pointer, `item` a pointer and its
    new value. Kinds that have no such field that may be changed leave it out.
    """

    id: str
    list: str
    kind: RESTMapping
    body: Manifest = field(default_factory=dict)
    value: Manifest | None = None
    removed: str = ""
    item: tuple[str, Any] | None = None
    foreign: Manifest | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    elsewhere: bool = False
    """Whether it is in a namespace that is not the tenant's."""
    matrix: bool = True
    """Whether it is like others; the rest is told on every server in every run."""

    @property
    def name(self) -> str:
        return f"a-{self.id}"

    def desired(self) -> Manifest:
        """The object as the template has it."""
        return {
            "apiVersion": self.kind.gvk.api_version,
            "kind": self.kind.gvk.kind,
            "metadata": {
                "labels": {"team": "core", "tier": "one"},
                "annotations": {"example.com/note": "kept"},
            },
            **copy.deepcopy(self.body),
        }

    def entry(self, elsewhere: str) -> Manifest:
        """The template's entry; `elsewhere` is the other namespace."""
        return {
            "id": self.id,
            "nameTemplate": "{{ .uid }}-" + self.id,
            "spec": self.desired(),
            **({"targetNamespace": elsewhere} if self.elsewhere else {}),
            **self.options,
        }


def _pod(**extra: object) -> Manifest:
    return {
        "metadata": {"labels": {"app": "a"}, "annotations": {"checksum": "1"}},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "nginx:1",
                    "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                    "resources": {"requests": {"cpu": "1000m"}},
                },
                {"name": "side", "image": "side:1"},
            ],
            **extra,
        },
    }


_SELECTOR = {"matchLabels": {"app": "a"}}
_IMAGE = "/spec/template/spec/containers/0/image"
_CHECKSUM = "/spec/template/metadata/annotations/checksum"
_FOREIGN_POD = {"spec": {"template": {"metadata": {"annotations": {"foreign": "x"}}}}}
_DEPLOYMENT = {
    "spec": {"replicas": 1, "revisionHistoryLimit": 3, "selector": _SELECTOR, "template": _pod()}
}
_SERVICE = {
    "spec": {
        "selector": {"app": "a"},
        "externalTrafficPolicy": "Local",
        "type": "NodePort",
        "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}],
    }
}

CASES = (
    Case(
        id="account",
        list="serviceAccounts",
        kind=mapping("v1", "ServiceAccount"),
        # Of a reference to a Secret the server keeps the name alone.
        body={"automountServiceAccountToken": False, "secrets": [{"name": "s"}]},
        value={"automountServiceAccountToken": True},
        removed="/automountServiceAccountToken",
        foreign={"imagePullSecrets": [{"name": "foreign"}]},
    ),
    Case(
        id="deployment",
        matrix=False,
        list="deployments",
        kind=mapping("apps/v1", "Deployment"),
        body=_DEPLOYMENT,
        value={"spec": {"replicas": 2}},
        removed="/spec/revisionHistoryLimit",
        item=(_IMAGE, "evil:1"),
        foreign={"spec": {"progressDeadlineSeconds": 700}},
    ),
    Case(
        id="stateful",
        list="statefulSets",
        kind=mapping("apps/v1", "StatefulSet"),
        body={
            "spec": {"replicas": 1, "serviceName": "a", "selector": _SELECTOR, "template": _pod()}
        },
        value={"spec": {"replicas": 2}},
        removed=_CHECKSUM,
        item=(_IMAGE, "evil:1"),
        foreign=_FOREIGN_POD,
    ),
    Case(
        id="daemon",
        list="daemonSets",
        kind=mapping("apps/v1", "DaemonSet"),
        body={"spec": {"selector": _SELECTOR, "template": _pod(terminationGracePeriodSeconds=5)}},
        value={"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 6}}}},
        removed=_CHECKSUM,
        item=(_IMAGE, "evil:1"),
        foreign=_FOREIGN_POD,
    ),
    Case(
        id="service",
        list="services",
        kind=mapping("v1", "Service"),
        body=_SERVICE,
        value={"spec": {"selector": {"app": "evil"}}},
        removed="/spec/externalTrafficPolicy",
        item=("/spec/ports/0/targetPort", 6666),
        foreign={"spec": {"sessionAffinity": "ClientIP"}},
    ),
    Case(
        id="ingress",
        list="ingresses",
        kind=mapping("networking.k8s.io/v1", "Ingress"),
        body={
            "spec": {
                "ingressClassName": "nginx",
                "tls": [{"hosts": ["a.example.com"], "secretName": "tls"}],
                "rules": [
                    {
                        "host": "a.example.com",
                        "http": {
                            "paths": [
                                {
                                    "path": "/",
                                    "pathType": "Prefix",
                                    "backend": {"service": {"name": "a", "port": {"number": 80}}},
                                }
                            ]
                        },
                    }
                ],
            }
        },
        value={"spec": {"ingressClassName": "evil"}},
        removed="/spec/tls",
        item=("/spec/rules/0/host", "evil.example.com"),
        foreign={
            "spec": {"defaultBackend": {"service": {"name": "foreign", "port": {"number": 81}}}}
        },
    ),
    Case(
        id="settings",
        matrix=False,
        list="configMaps",
        kind=mapping("v1", "ConfigMap"),
        body={"data": {"k": "v", "other": "o"}},
        value={"data": {"k": "evil"}},
        removed="/data/other",
        foreign={"data": {"foreign": "x"}},
    ),
    Case(
        id="secret",
        matrix=False,
        list="secrets",
        kind=mapping("v1", "Secret"),
        body={"type": "Opaque", "stringData": {"k": "v", "other": "o"}},
        value={"data": {"k": "ZXZpbA=="}},
        removed="/data/other",
        foreign={"data": {"foreign": "eA=="}},
    ),
    Case(
        id="claim",
        list="persistentVolumeClaims",
        kind=mapping("v1", "PersistentVolumeClaim"),
        body={
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            }
        },
    ),
    Case(
        id="job",
        list="jobs",
        kind=mapping("batch/v1", "Job"),
        body={
            "spec": {
                "parallelism": 1,
                "activeDeadlineSeconds": 500,
                "template": _pod(restartPolicy="Never"),
            }
        },
        value={"spec": {"parallelism": 2}},
        removed="/spec/activeDeadlineSeconds",
        foreign={"spec": {"backoffLimit": 3}},
    ),
    Case(
        id="cron",
        list="cronJobs",
        kind=mapping("batch/v1", "CronJob"),
        body={
            "spec": {
                "schedule": "0 0 1 1 *",
                "suspend": True,
                "successfulJobsHistoryLimit": 1,
                "jobTemplate": {"spec": {"template": _pod(restartPolicy="Never")}},
            }
        },
        value={"spec": {"schedule": "* * * * *"}},
        removed="/spec/successfulJobsHistoryLimit",
        item=("/spec/jobTemplate/spec/template/spec/containers/0/image", "evil:1"),
        foreign={"spec": {"startingDeadlineSeconds": 100}},
    ),
    Case(
        id="budget",
        list="podDisruptionBudgets",
        kind=mapping("policy/v1", "PodDisruptionBudget"),
        body={
            "spec": {
                "minAvailable": 1,
                "unhealthyPodEvictionPolicy": "AlwaysAllow",
                "selector": {
                    "matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]
                },
            }
        },
        value={"spec": {"minAvailable": 2}},
        removed="/spec/unhealthyPodEvictionPolicy",
        item=("/spec/selector/matchExpressions/0/values/0", "evil"),
    ),
    Case(
        id="network",
        list="networkPolicies",
        kind=mapping("networking.k8s.io/v1", "NetworkPolicy"),
        body={
            "spec": {
                "podSelector": {"matchLabels": {"app": "a"}},
                "policyTypes": ["Ingress"],
                "ingress": [{"ports": [{"port": 80, "protocol": "TCP"}]}],
            }
        },
        value={"spec": {"podSelector": {"matchLabels": {"app": "evil"}}}},
        removed="/spec/ingress",
        item=("/spec/ingress/0/ports/0/port", 6666),
        foreign={"spec": {"egress": [{}]}},
    ),
    Case(
        id="scaler",
        list="horizontalPodAutoscalers",
        kind=mapping("autoscaling/v2", "HorizontalPodAutoscaler"),
        body={
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"},
                "maxReplicas": 3,
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}},
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {
                            "name": "cpu",
                            "target": {"type": "Utilization", "averageUtilization": 70},
                        },
                    }
                ],
            }
        },
        value={"spec": {"maxReplicas": 9}},
        removed="/spec/behavior",
        item=("/spec/metrics/0/resource/target/averageUtilization", 5),
        foreign={"spec": {"minReplicas": 2}},
        options={"waitForReady": False},
    ),
    Case(
        id="space",
        list="namespaces",
        kind=mapping("v1", "Namespace"),
    ),
    Case(
        id="widget",
        matrix=False,
        list="manifests",
        kind=WIDGET,
        body={
            "spec": {
                "size": 1,
                "note": "n",
                "parts": [{"name": "lid", "material": "oak"}, {"name": "box", "material": "ash"}],
            }
        },
        value={"spec": {"size": 2}},
        removed="/spec/note",
        item=("/spec/parts/1/material", "evil"),
        foreign={"spec": {"finish": "matt"}},
    ),
    Case(
        id="role",
        list="manifests",
        kind=mapping("rbac.authorization.k8s.io/v1", "ClusterRole"),
        body={"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]},
        value={"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]},
        removed="/rules",
        item=("/rules/0/verbs/0", "delete"),
    ),
    Case(
        id="far-settings",
        matrix=False,
        list="configMaps",
        kind=mapping("v1", "ConfigMap"),
        body={"data": {"k": "v", "other": "o"}},
        value={"data": {"k": "evil"}},
        removed="/data/other",
        foreign={"data": {"foreign": "x"}},
        elsewhere=True,
    ),
    Case(
        id="far-deployment",
        list="deployments",
        kind=mapping("apps/v1", "Deployment"),
        body=_DEPLOYMENT,
        value={"spec": {"replicas": 2}},
        removed="/spec/revisionHistoryLimit",
        item=(_IMAGE, "evil:1"),
        foreign={"spec": {"progressDeadlineSeconds": 700}},
        options={"deletionPolicy": "Retain"},
        elsewhere=True,
    ),
)


def _with_strategy(strategy: str) -> Iterator[Case]:
    """ConfigMap, Deployment and Service, written by another patch strategy."""
    for case in CASES:
        if case.id in ("settings", "deployment", "service"):
            yield Case(
                id=f"{strategy}-{case.id}",
                list=case.list,
                kind=case.kind,
                body=case.body,
                value=case.value,
                removed=case.removed,
                item=case.item,
                foreign=case.foreign,
                options={"patchStrategy": strategy},
                matrix=case.id != "settings",
            )


WITH_STRATEGIES = (*_with_strategy("merge"), *_with_strategy("replace"))


def template_lists(cases: Iterable[Case], elsewhere: str) -> dict[str, Any]:
    """The lists of a template with these cases."""
    lists: dict[str, Any] = {}
    for case in cases:
        lists.setdefault(case.list, []).append(case.entry(elsewhere))
    return lists

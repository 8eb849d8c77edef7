"""What runs a program: Namespace, Deployment, Services."""

from __future__ import annotations

from typing import Any

from ctrlruntime.api.kinds import Manifest

from .program import Program

__all__ = ["metrics_service", "namespace", "webhook_service", "workload"]

USER = 65532
WEBHOOKS_PORT = 443
"""Where the API server expects a webhook Service to listen."""


def namespace(program: Program) -> Manifest:
    """Return the program's Namespace, in which Pods are restricted as those of the program are."""
    enforced = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": program.namespace, "labels": {**program.labels, **enforced}},
    }


def workload(program: Program) -> Manifest:
    """Return the Deployment: two replicas with leader election, else one that ends before the next begins."""
    elected = program.options.leader_election
    spec: dict[str, Any] = {
        "replicas": 2 if elected else 1,
        "selector": {"matchLabels": program.labels},
        "template": {
            "metadata": {
                "labels": program.labels,
                "annotations": {"kubectl.kubernetes.io/default-container": "manager"},
            },
            "spec": _pod(program),
        },
    }
    if not elected:
        spec["strategy"] = {"type": "Recreate"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(program, program.name),
        "spec": spec,
    }


def metrics_service(program: Program) -> Manifest | None:
    """Return the Service of the metrics, where the options serve them."""
    if program.metrics_port is None:
        return None
    port = {"name": "metrics", "port": program.metrics_port, "targetPort": "metrics"}
    return _service(program, f"{program.name}-metrics", port)


def webhook_service(program: Program) -> Manifest | None:
    """Return the Service of the webhooks, where there are some.

    It leads to replicas that are not ready yet: to list a converted kind, they need their own webhook.
    """
    if program.webhook_port is None:
        return None
    port = {"name": "webhooks", "port": WEBHOOKS_PORT, "targetPort": "webhooks"}
    service = _service(program, program.options.webhook.service_name, port)
    service["spec"]["publishNotReadyAddresses"] = True
    return service


def _pod(program: Program) -> dict[str, Any]:
    pod: dict[str, Any] = {
        "serviceAccountName": program.name,
        "terminationGracePeriodSeconds": program.seconds_to_end,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(program)],
    }
    if program.volumes:
        pod["volumes"] = [
            {"name": each.name, "secret": {"secretName": each.secret}} for each in program.volumes
        ]
    return pod


def _container(program: Program) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": "manager",
        "image": program.image,
        "securityContext": {
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}},
    }
    named = {
        "metrics": program.metrics_port,
        "probes": program.health_port,
        "webhooks": program.webhook_port,
    }
    ports = [
        {"name": name, "containerPort": port, "protocol": "TCP"}
        for name, port in named.items()
        if port is not None
    ]
    if ports:
        container["ports"] = ports
    if program.volumes:
        container["volumeMounts"] = [
            {"name": each.name, "mountPath": each.path, "readOnly": True}
            for each in program.volumes
        ]
    return container | _probes(program)


def _probes(program: Program) -> dict[str, Any]:
    if program.health_port is None:
        return {}
    live = {"httpGet": {"path": program.options.liveness_path, "port": "probes"}}
    ready = {"httpGet": {"path": program.options.readiness_path, "port": "probes"}}
    return {
        "startupProbe": {**live, "periodSeconds": 2, "failureThreshold": 30},
        "livenessProbe": {**live, "periodSeconds": 20, "timeoutSeconds": 5},
        "readinessProbe": {**ready, "periodSeconds": 10, "timeoutSeconds": 5},
    }


def _service(program: Program, name: str, port: dict[str, Any]) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(program, name),
        "spec": {"selector": program.labels, "ports": [{"protocol": "TCP", **port}]},
    }


def _metadata(program: Program, name: str) -> dict[str, Any]:
    return {"name": name, "namespace": program.namespace, "labels": program.labels}

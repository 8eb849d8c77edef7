"""What the data planes of the benchmark hold. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apis.tenancy import Tenant

WORKLOAD_EVERY = 100
"""One Tenant of so many has a Deployment."""


def tenant(number: int, namespace: str) -> dict[str, Any]:
    """Return a Tenant of one ConfigMap; each hundredth has a Deployment."""
    name = f"t{number:06}"
    spec: dict[str, Any] = {"uid": name, "templateRef": "web"}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"plan": "basic", "tenant": name}}
    spec["configMaps"] = [_resource(f"{name}-settings", config)]
    if has_workload(number):
        spec["deployments"] = [_resource(f"{name}-web", _deployment(name))]
    metadata = {"name": name, "namespace": namespace}
    kind = Tenant.gvk()
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}


def has_workload(number: int) -> bool:
    """Return whether the Tenant of this number has a Deployment."""
    return number % WORKLOAD_EVERY == 0


def numbers_of(plane: int, planes: int, first: int, end: int) -> Iterator[int]:
    """Return the numbers of a data plane's Tenants from `first` to before `end`, which blocks of a hundred spread evenly."""
    return (each for each in range(first, end) if each // WORKLOAD_EVERY % planes == plane)


def _resource(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"id": name, "nameTemplate": name, "waitForReady": False, "spec": spec}


def _deployment(name: str) -> dict[str, Any]:
    labels = {"app": name}
    container = {"name": "app", "image": "registry.example.com/web:1"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}

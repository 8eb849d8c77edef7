"""Entries of templates that tests use: workloads, and what the API server refuses."""

from __future__ import annotations

from typing import Any

from ctrlruntime.json import Json
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import DEPLOYMENT, mapping

POD = mapping("v1", "Pod")
JOB = mapping("batch/v1", "Job")


def pod(image: str = "{{ .image }}", **spec: object) -> dict[str, Any]:
    """A pod template."""
    containers = [{"name": "main", "image": image}]
    return {
        "metadata": {"labels": {"app": "{{ .uid }}"}},
        "spec": {"containers": containers, **spec},
    }


def manifest(resource: str, api_version: str, kind: str, **fields: Json) -> dict[str, Any]:
    """A template entry: `body` in `fields` is the object's, the others belong to the entry."""
    spec = {"apiVersion": api_version, "kind": kind, **fields.pop("body", {})}
    return {"id": resource, "nameTemplate": "{{ .uid }}-" + resource, "spec": spec, **fields}


def deployment(
    resource: str = "app", image: str = "{{ .image }}", **fields: Json
) -> dict[str, Any]:
    """A template entry: a Deployment."""
    selector = {"matchLabels": {"app": "{{ .uid }}"}}
    spec = {"selector": selector, "template": pod(image), **fields.pop("deployment", {})}
    return manifest(resource, "apps/v1", "Deployment", body={"spec": spec}, **fields)


def job(resource: str, seconds: str = "0", **fields: object) -> dict[str, Any]:
    """A template entry: a Job that runs for a while."""
    template = pod("worker:1", restartPolicy="Never")
    template["metadata"] = {"annotations": {"ctrlruntime.dev/run-seconds": seconds}}
    return manifest(resource, "batch/v1", "Job", body={"spec": {"template": template}}, **fields)


def refused(resource: str = "bad") -> dict[str, Any]:
    """A template entry that the API server refuses."""
    return manifest(
        resource, "v1", "Service", body={"spec": {"ports": [{"port": 99999, "protocol": "TCP"}]}}
    )


async def pods(fleet: Fleet, **labels: str) -> list[dict[str, Any]]:
    """Return the Pods of a namespace with these labels."""
    selector = ",".join(f"{name.replace('_', '-')}={value}" for name, value in labels.items())
    found: list[dict[str, Any]] = await fleet.harness.client.list(
        POD, fleet.namespace, labels=selector or None
    )
    return found


async def end_job(fleet: Fleet, name: str) -> None:
    """Let a Job that runs for a long time succeed now, once its Pod has begun."""
    now = {"metadata": {"annotations": {"ctrlruntime.dev/run-seconds": "0"}}}
    for found in await fleet.harness.eventually(lambda: pods(fleet, job_name=name)):
        await fleet.harness.client.patch(
            POD, found["metadata"]["name"], now, namespace=fleet.namespace
        )


async def report(
    fleet: Fleet, name: str, *, ready: int, updated: int | None = None, old: int = 0
) -> None:
    """Report a Deployment's replicas in the place of its controller.

    `updated` is `ready` unless given; `old` are replicas of the content before.
    """
    live = await fleet.there(DEPLOYMENT, name)
    new = ready if updated is None else updated
    status = {
        "observedGeneration": live["metadata"]["generation"],
        "replicas": new + old,
        "updatedReplicas": new,
        "readyReplicas": ready,
        "availableReplicas": ready,
    }
    await fleet.harness.client.patch_status(
        DEPLOYMENT, name, {"status": status}, namespace=fleet.namespace
    )

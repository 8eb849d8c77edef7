"""Manifests for the tests of simulated nodes."""

from __future__ import annotations

from typing import Any

from ctrlruntime.json import Json

Manifest = dict[str, Any]


def template(image: str = "web:1", **spec: object) -> Manifest:
    annotations = spec.pop("annotations", None)
    metadata: Manifest = {"labels": {"app": "a"}}
    if annotations:
        metadata["annotations"] = annotations
    return {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": image}], **spec}}


def obj(api_version: str, kind: str, name: str, spec: Manifest, **metadata: object) -> Manifest:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": spec,
    }


def deployment(
    name: str = "web", replicas: int = 3, image: str = "web:1", **spec: object
) -> Manifest:
    selector = {"matchLabels": {"app": "a"}}
    body = {"replicas": replicas, "selector": selector, "template": template(image), **spec}
    return obj("apps/v1", "Deployment", name, body)


def stateful_set(name: str = "db", replicas: int = 2, **spec: object) -> Manifest:
    selector = {"matchLabels": {"app": "a"}}
    body = {"replicas": replicas, "serviceName": name, "selector": selector, "template": template()}
    return obj("apps/v1", "StatefulSet", name, body | spec)


def job(name: str = "task", *, pod: Manifest | None = None, **spec: object) -> Manifest:
    body = {"template": pod or template(restartPolicy="Never"), **spec}
    return obj("batch/v1", "Job", name, body)


def pod(name: str = "p", **spec: Json) -> Manifest:
    shape = template(**spec)
    made = obj("v1", "Pod", name, shape["spec"])
    made["metadata"] |= shape["metadata"]
    return made

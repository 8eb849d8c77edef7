"""What is seen of a small set of nodes: fields of the objects that are built for it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable

from ctrlruntime.json import Json
from tests.cosmos.builders.golden import built
from tests.cosmos.builders.samples import node_set

from .row import Given, at

Seen = Callable[[Given], Json]


def names(kind: str) -> Seen:
    """Names of all objects of a kind."""

    def seen(given: Given) -> Json:
        return [item.name for item in built(node_set(**given)) if item.mapping.gvk.kind == kind]

    return seen


def manifest(kind: str, name: str, given: Given) -> Json:
    """One object, or None."""
    for item in built(node_set(**given)):
        if (item.mapping.gvk.kind, item.name) == (kind, name):
            return item.manifest
    return None


def of(kind: str, name: str, path: str = "") -> Seen:
    """A field of one object."""
    return lambda given: at(manifest(kind, name, given), path)


def pod(path: str, name: str = "test-0") -> Seen:
    """A field of a Pod."""
    return of("Pod", name, path)


def node(path: str) -> Seen:
    """A field of the container `node`."""
    return pod(f"spec.containers.node.{path}")


def init(name: str, path: str) -> Seen:
    """A field of an init container."""
    return pod(f"spec.initContainers.{name}.{path}")


def claim(path: str, name: str = "pvc-test-0") -> Seen:
    """A field of a PersistentVolumeClaim."""
    return of("PersistentVolumeClaim", name, path)


def service(name: str, path: str) -> Seen:
    """A field of a Service."""
    return of("Service", name, path)


def config(path: str, file: str = "config", name: str = "test-0") -> Seen:
    """A value of config.toml of one node."""

    def seen(given: Given) -> Json:
        made = manifest("ConfigMap", name, given)
        return at(tomllib.loads(made["data"][f"{file}-overlay.toml"]), path)

    return seen


def app(path: str, name: str = "test-0") -> Seen:
    """A value of app.toml of one node."""
    return config(path, "app", name)


def variable(name: str) -> Seen:
    """A variable of the container `node`."""
    return node(f"env.{name}.value")

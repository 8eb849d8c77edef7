"""What runs containers, and what its Pods name and are selected by.

Rendered manifests are read as they come: a field of another type than it should have names nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ctrlruntime.api.kinds import GroupKind, Manifest

_TEMPLATES: Final[Mapping[GroupKind, tuple[str, ...]]] = {
    GroupKind("", "Pod"): (),
    GroupKind("", "ReplicationController"): ("spec", "template"),
    GroupKind("apps", "ReplicaSet"): ("spec", "template"),
    GroupKind("apps", "Deployment"): ("spec", "template"),
    GroupKind("apps", "StatefulSet"): ("spec", "template"),
    GroupKind("apps", "DaemonSet"): ("spec", "template"),
    GroupKind("batch", "Job"): ("spec", "template"),
    GroupKind("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
}
"""Where each kind has its Pod."""
WORKLOADS: Final = frozenset(_TEMPLATES)
"""Kinds that run containers."""

_SECRET: Final = GroupKind("", "Secret")
_CONFIG_MAP: Final = GroupKind("", "ConfigMap")
_CLAIM: Final = GroupKind("", "PersistentVolumeClaim")
_STORAGE_CLASS: Final = GroupKind("storage.k8s.io", "StorageClass")
_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
_FIELDS: Final = {
    "secret": _SECRET,
    "secretRef": _SECRET,
    "secretKeyRef": _SECRET,
    "nodePublishSecretRef": _SECRET,
    "configMap": _CONFIG_MAP,
    "configMapRef": _CONFIG_MAP,
    "configMapKeyRef": _CONFIG_MAP,
    "persistentVolumeClaim": _CLAIM,
}
"""Fields that name an object of a kind."""
_NAMED: Final = {"configMap": _CONFIG_MAP, "secret": _SECRET}


def path(value: object, *fields: str) -> Mapping[str, Any]:
    """Return the mapping at a path of fields; an empty one if there is none."""
    for field in fields:
        value = value.get(field) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def mappings(value: object) -> list[Mapping[str, Any]]:
    """Return the mappings of a list; none of anything else."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def text(value: object, field: str) -> str:
    """Return a field that is a text; an empty one of anything else."""
    found = value.get(field) if isinstance(value, Mapping) else None
    return found if isinstance(found, str) else ""


def pod_template(kind: GroupKind, manifest: Manifest) -> Mapping[str, Any]:
    """Return the Pod of a workload, with metadata and spec; an empty mapping for other kinds."""
    return path(manifest, *_TEMPLATES[kind]) if kind in _TEMPLATES else {}


def mentions(value: object) -> Iterator[tuple[GroupKind, str]]:
    """Yield kind and name of what a custom object names in the fields by which Pods name it, wherever they are."""
    if isinstance(value, list):
        for each in value:
            yield from mentions(each)
    if not isinstance(value, Mapping):
        return
    yield from _named(
        (_SECRET, text(value, "secretName")),
        (GroupKind("", "ServiceAccount"), text(value, "serviceAccountName")),
        *((_SECRET, text(each, "name")) for each in mappings(value.get("imagePullSecrets"))),
    )
    for field, inner in value.items():
        if kind := _FIELDS.get(str(field)):
            yield from _named((kind, text(inner, "name") or text(inner, "claimName")))
        yield from mentions(inner)


def references(kind: GroupKind, manifest: Manifest) -> Iterator[tuple[GroupKind, str]]:
    """Yield kind and name of what an object names that its Pods need."""
    spec = path(manifest, "spec")
    if kind in WORKLOADS:
        yield from _of_pod(path(pod_template(kind, manifest), "spec"))
        yield from _named((GroupKind("", "Service"), text(spec, "serviceName")))
        for claim in mappings(spec.get("volumeClaimTemplates")):
            yield from _of_claim(path(claim, "spec"))
    elif kind == GroupKind("", "ServiceAccount"):
        for field in ("secrets", "imagePullSecrets"):
            for each in mappings(manifest.get(field)):
                yield from _named((_SECRET, text(each, "name")))
    elif kind == _CLAIM:
        yield from _of_claim(spec)
    elif kind == GroupKind("networking.k8s.io", "Ingress"):
        for each in mappings(spec.get("tls")):
            yield from _named((_SECRET, text(each, "secretName")))


def _of_pod(spec: Mapping[str, Any]) -> Iterator[tuple[GroupKind, str]]:
    account = text(spec, "serviceAccountName") or text(spec, "serviceAccount")
    yield from _named(
        (GroupKind("", "ServiceAccount"), account),
        (GroupKind("scheduling.k8s.io", "PriorityClass"), text(spec, "priorityClassName")),
        (GroupKind("node.k8s.io", "RuntimeClass"), text(spec, "runtimeClassName")),
    )
    for each in mappings(spec.get("imagePullSecrets")):
        yield from _named((_SECRET, text(each, "name")))
    for volume in mappings(spec.get("volumes")):
        yield from _of_volume(volume)
    for field in _CONTAINERS:
        for container in mappings(spec.get(field)):
            yield from _of_container(container)


def _of_volume(volume: Mapping[str, Any]) -> Iterator[tuple[GroupKind, str]]:
    sources = [volume, *mappings(path(volume, "projected").get("sources"))]
    for source in sources:
        for field, kind in _NAMED.items():
            named = path(source, field)
            yield from _named((kind, text(named, "name") or text(named, "secretName")))
    yield from _named(
        (_CLAIM, text(path(volume, "persistentVolumeClaim"), "claimName")),
        (_SECRET, text(path(volume, "azureFile"), "secretName")),
    )
    yield from _of_claim(path(volume, "ephemeral", "volumeClaimTemplate", "spec"))
    for driver in volume.values():  # cephfs, csi, flexVolume, iscsi, rbd, scaleIO, storageos
        for field in ("secretRef", "nodePublishSecretRef"):
            yield from _named((_SECRET, text(path(driver, field), "name")))


def _of_claim(spec: Mapping[str, Any]) -> Iterator[tuple[GroupKind, str]]:
    yield from _named(
        (_STORAGE_CLASS, text(spec, "storageClassName")),
        (GroupKind("", "PersistentVolume"), text(spec, "volumeName")),
    )
    for source in (path(spec, field) for field in ("dataSource", "dataSourceRef")):
        if text(source, "kind") == _CLAIM.kind and not text(source, "namespace"):
            yield from _named((_CLAIM, text(source, "name")))


def _of_container(container: Mapping[str, Any]) -> Iterator[tuple[GroupKind, str]]:
    for each in mappings(container.get("env")):
        for field, kind in _NAMED.items():
            yield from _named((kind, text(path(each, "valueFrom", f"{field}KeyRef"), "name")))
    for each in mappings(container.get("envFrom")):
        for field, kind in _NAMED.items():
            yield from _named((kind, text(path(each, f"{field}Ref"), "name")))


def _named(*found: tuple[GroupKind, str]) -> Iterator[tuple[GroupKind, str]]:
    return (each for each in found if each[1])

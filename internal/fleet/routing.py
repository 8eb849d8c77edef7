"""Which server an object goes to: workloads to the hub, everything else to the data plane.

Pure. A data plane runs no containers, so workloads, what they reference and what selects them go to
the hub; Namespaces go to both, the rest to the data plane. The annotation PLANE of an object decides otherwise. What
goes to the data plane although nothing acts on it there, as far as is known, has a doubt.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Any, Final

from apis.cloud import GROUP as CLOUD
from apis.cosmos import GROUP as COSMOS
from apis.fleet.labels import PLANE
from apis.tenancy import GROUP as TENANCY
from ctrlruntime.api import BUILTIN, GroupKind, Manifest
from ctrlruntime.client.selectors import selector_matches
from ctrlruntime.resources.desired import ObjectKey
from internal.fleet.pods import (
    WORKLOADS,
    mappings,
    mentions,
    path,
    pod_template,
    references,
    text,
)

NAMESPACE: Final = GroupKind("", "Namespace")
CONFIG_MAP: Final = GroupKind("", "ConfigMap")
SERVICE: Final = GroupKind("", "Service")
INGRESS: Final = GroupKind("networking.k8s.io", "Ingress")
NETWORK_POLICY: Final = GroupKind("networking.k8s.io", "NetworkPolicy")
DISRUPTION_BUDGET: Final = GroupKind("policy", "PodDisruptionBudget")
POD_AUTOSCALER: Final = GroupKind("autoscaling", "HorizontalPodAutoscaler")
VERTICAL_AUTOSCALER: Final = GroupKind("autoscaling.k8s.io", "VerticalPodAutoscaler")

SELECTORS: Final = frozenset({SERVICE, NETWORK_POLICY, DISRUPTION_BUDGET})
"""Kinds that select Pods by label."""
SCALERS: Final = frozenset({POD_AUTOSCALER, VERTICAL_AUTOSCALER})
"""Kinds that name a workload."""
OF_PODS: Final = SCALERS | {
    NETWORK_POLICY,
    DISRUPTION_BUDGET,
    GroupKind("", "LimitRange"),
    GroupKind("", "ResourceQuota"),
}
"""Kinds that mean nothing where no Pods run: policies, quotas and scalers. One that goes with no workload has a doubt."""
FOLLOWERS: Final = (
    SELECTORS
    | SCALERS
    | {
        INGRESS,
        CONFIG_MAP,
        GroupKind("", "Secret"),
        GroupKind("", "ServiceAccount"),
        GroupKind("", "PersistentVolumeClaim"),
        GroupKind("", "PersistentVolume"),
        GroupKind("storage.k8s.io", "StorageClass"),
        GroupKind("scheduling.k8s.io", "PriorityClass"),
        GroupKind("node.k8s.io", "RuntimeClass"),
    }
)
"""Kinds whose objects go with a workload that references them, or that they select."""


SERVICE_ACCOUNT: Final = GroupKind("", "ServiceAccount")
SECRET: Final = GroupKind("", "Secret")
BINDINGS: Final = frozenset(
    GroupKind("rbac.authorization.k8s.io", kind) for kind in ("RoleBinding", "ClusterRoleBinding")
)
OWN_GROUPS: Final = frozenset({TENANCY, COSMOS, CLOUD})
"""Groups whose kinds stacks act on, on the data plane."""
READERS: Final = frozenset({COSMOS, CLOUD})
"""Groups whose objects have Pods or runs on the hub that read what they name."""
_SERVED: Final = frozenset(gvk.group_kind for gvk in BUILTIN)
"""Kinds of Kubernetes itself, which API servers or the hub's controllers act on."""


class Plane(StrEnum):
    """Where an object goes."""

    DATA = "data"
    HUB = "hub"
    BOTH = "both"

    @property
    def on_hub(self) -> bool:
        """Whether the hub gets the object."""
        return self is not Plane.DATA

    @property
    def on_data_plane(self) -> bool:
        """Whether the data plane gets the object."""
        return self is not Plane.HUB


_CHOICES: Final = {Plane.HUB.value: Plane.HUB, Plane.DATA.value: Plane.DATA}
"""Values of the annotation PLANE."""
_PLACES: Final = {Plane.HUB: "the hub", Plane.DATA: "the data plane", Plane.BOTH: "both"}
_REMEDY: Final = f"annotate it in its template with {PLANE}: hub, or data if that is right"


class WorkloadOnDataPlane(ValueError):
    """A workload would be written to a data plane, which runs no containers."""


def check_plane(kind: GroupKind, plane: Plane) -> None:
    """Raise WorkloadOnDataPlane if objects of this kind must not go there."""
    if kind in WORKLOADS and plane.on_data_plane:
        raise WorkloadOnDataPlane(
            f"a {kind} is a workload: it goes to the hub, not to a data plane"
        )


def possible_planes(
    kinds: Collection[GroupKind], annotated: Collection[GroupKind] = ()
) -> dict[GroupKind, Plane]:
    """Return where objects of these kinds may go; BOTH where that depends on what is rendered.

    `kinds` are all that one owner has: what references nothing without a workload stays on its data plane. `annotated`:
    those of them that some object has with the annotation PLANE.
    """
    busy = bool(annotated) or any(kind in WORKLOADS or kind.group in READERS for kind in kinds)
    return {
        kind: Plane.BOTH
        if kind in annotated and kind not in WORKLOADS
        else _possible(kind, busy=busy)
        for kind in kinds
    }


def annotated_kinds(manifests: Iterable[Mapping[str, Any]]) -> frozenset[GroupKind]:
    """Return the kinds of objects with the annotation PLANE, rendered or not."""
    found = set()
    for each in manifests:
        if PLANE in path(each, "metadata", "annotations"):
            with suppress(ValueError):
                found.add(_kind(each))
    return frozenset(found)


def _possible(kind: GroupKind, *, busy: bool) -> Plane:
    if kind in WORKLOADS:
        return Plane.HUB
    return Plane.BOTH if kind == NAMESPACE or (busy and kind in FOLLOWERS) else Plane.DATA


def key_of(manifest: Manifest) -> ObjectKey:
    """Return the identity of a rendered object. Raises ValueError for one without a kind or name."""
    metadata = manifest.get("metadata")
    name = text(metadata, "name")
    if not name:
        raise ValueError("a rendered object needs metadata.name")
    return ObjectKey(_kind(manifest), name, namespace=text(metadata, "namespace"))


def route(rendered: Iterable[Manifest]) -> dict[ObjectKey, Plane]:
    """Return where each rendered object of one owner goes, whatever their order.

    Namespaced objects have their namespace. Raises ValueError for one without a kind or name.
    """
    objects = {key_of(each): each for each in rendered}
    on_hub = _closure(objects)
    found = {key: _plane(key, objects[key], on_hub) for key in objects}
    for key, plane in found.items():
        check_plane(key.kind, plane)
    return found


def doubts(rendered: Iterable[Manifest], planes: Mapping[ObjectKey, Plane]) -> dict[ObjectKey, str]:
    """Return in one sentence, by object, why its place may be the wrong one. `planes`: as `route` returns them."""
    objects = {key_of(each): each for each in rendered}
    bound = {
        _role(key, manifest)
        for key, manifest in objects.items()
        if key.kind in BINDINGS and planes[key] is Plane.HUB
    }
    found = {}
    for key, manifest in objects.items():
        if doubt := _doubt(key, manifest, planes, bound):
            found[key] = f"{key.kind.kind} {key.name} {doubt}"
    return found


def _doubt(
    key: ObjectKey,
    manifest: Manifest,
    planes: Mapping[ObjectKey, Plane],
    bound: Collection[ObjectKey],
) -> str:
    """Return what is in doubt of a place. `bound`: roles that bindings on the hub name."""
    annotated = _annotation(manifest)
    fixed = {**dict.fromkeys(WORKLOADS, Plane.HUB), NAMESPACE: Plane.BOTH}.get(key.kind)
    if annotated and (fixed or annotated not in _CHOICES):
        goes = _PLACES[fixed or planes[key]]
        return f"goes to {goes} whatever its annotation {PLANE}={annotated}: {_REMEDY if not fixed else 'remove that'}"
    if annotated or planes[key] is not Plane.DATA:
        return ""
    if key in bound:
        return f"stays on the data plane, and a binding on the hub gives its rights: {_REMEDY}"
    if key.kind in BINDINGS:
        accounts = _subjects(key, manifest)
        if any(planes.get(each) is Plane.HUB for each in accounts):
            return (
                f"gives rights on the data plane to an account whose Pods run on the hub: {_REMEDY}"
            )
    if key.kind in OF_PODS:
        return f"stays on the data plane, which runs no Pods for it to act on: {_REMEDY}"
    if key.kind in _SERVED or key.kind in FOLLOWERS or key.kind.group in OWN_GROUPS:
        return ""
    return f"goes to the data plane, and whether a controller acts on its kind there is unknown: {_REMEDY}"


def _subjects(key: ObjectKey, manifest: Manifest) -> list[ObjectKey]:
    """Return the service accounts that a binding names."""
    return [
        ObjectKey(
            SERVICE_ACCOUNT, text(each, "name"), namespace=text(each, "namespace") or key.namespace
        )
        for each in mappings(manifest.get("subjects"))
        if text(each, "kind") == SERVICE_ACCOUNT.kind
    ]


def _role(key: ObjectKey, manifest: Manifest) -> ObjectKey:
    """Return the role whose rights a binding gives."""
    role = path(manifest, "roleRef")
    kind = GroupKind(key.kind.group, text(role, "kind"))
    namespace = key.namespace if kind.kind == "Role" else ""
    return ObjectKey(kind, text(role, "name"), namespace=namespace)


def _annotation(manifest: Manifest) -> str:
    """Return the annotation PLANE; empty without one."""
    return text(path(manifest, "metadata", "annotations"), PLANE)


def _plane(key: ObjectKey, manifest: Manifest, on_hub: Collection[ObjectKey]) -> Plane:
    if key.kind == NAMESPACE:
        return Plane.BOTH
    if key.kind in WORKLOADS:
        return Plane.HUB
    return _CHOICES.get(_annotation(manifest)) or (Plane.HUB if key in on_hub else Plane.DATA)


def _is_root(key: ObjectKey, manifest: Manifest) -> bool:
    """Return whether an object is on the hub whatever others reference."""
    chosen = _CHOICES.get(_annotation(manifest))
    return key.kind in WORKLOADS or (chosen is Plane.HUB and key.kind != NAMESPACE)


def _closure(objects: Mapping[ObjectKey, Manifest]) -> set[ObjectKey]:
    """Return the workloads, what leads to them, what is annotated so, and what all of these reference."""
    found = {key for key in objects if _is_root(key, objects[key])}
    found |= {key for key in objects if _leads_to_pods(key, objects, found)}
    for key in objects:
        if key.kind.group in READERS:
            found |= {each for each in _read_on_hub(key, objects[key]) if each in objects}
    pending = list(found)
    while pending:
        key = pending.pop()
        new = {each for each in _references(key, objects[key]) if each in objects} - found
        found |= new
        pending += new
        if key.kind == SERVICE:  # a Service that a workload names brings its Ingresses
            new = {each for each in objects if key in _backends(each, objects[each])} - found
            found |= new
            pending += new
    return found


def _leads_to_pods(
    key: ObjectKey, objects: Mapping[ObjectKey, Manifest], workloads: Collection[ObjectKey]
) -> bool:
    manifest = objects[key]
    if key.kind in SCALERS:
        return any(each in workloads for each in _scaled(key, manifest))
    if key.kind not in SELECTORS:
        return False
    labels = (
        path(_template(each, objects[each]), "metadata", "labels")
        for each in workloads
        if each.namespace == key.namespace
    )
    selector = _selector(key.kind, manifest)
    return selector is not None and any(selector_matches(selector, each) for each in labels)


def _template(key: ObjectKey, manifest: Manifest) -> Mapping[str, Any]:
    """Return the Pod of a workload, or of a custom kind that has it where workloads have."""
    return pod_template(key.kind, manifest) or path(manifest, "spec", "template")


def _read_on_hub(key: ObjectKey, manifest: Manifest) -> Iterator[ObjectKey]:
    """Yield what Pods and runs on the hub read of what an object on the data plane names.

    Runs of Instances are given the texts of ConfigMaps, which stay on the data plane.
    """
    for kind, name in mentions(manifest.get("spec")):
        if key.kind.group == COSMOS or kind == SECRET:
            yield ObjectKey(kind, name, namespace=key.namespace)


def _selector(kind: GroupKind, manifest: Manifest) -> Mapping[str, Any] | None:
    """Return the label selector of Pods; None if nothing is selected."""
    if kind == SERVICE:
        chosen = path(manifest, "spec", "selector")
        return {"matchLabels": chosen} if chosen else None
    field = "podSelector" if kind == NETWORK_POLICY else "selector"
    spec = path(manifest, "spec")
    return path(spec, field) if isinstance(spec.get(field), Mapping) else None


def _scaled(key: ObjectKey, manifest: Manifest) -> Iterator[ObjectKey]:
    for field in ("scaleTargetRef", "targetRef"):
        target = path(manifest, "spec", field)
        name, kind = text(target, "name"), text(target, "kind")
        group = text(target, "apiVersion").rpartition("/")[0]
        if name and kind:
            yield ObjectKey(GroupKind(group, kind), name, namespace=key.namespace)


def _references(key: ObjectKey, manifest: Manifest) -> Iterator[ObjectKey]:
    """Yield what an object of the hub names."""
    if key.kind == INGRESS:
        yield from _backends(key, manifest)
    named = (
        references(key.kind, manifest) if key.kind in _SERVED else mentions(manifest.get("spec"))
    )
    for kind, name in named:
        namespaced = not kind.group.startswith(("storage", "scheduling", "node"))
        namespaced = namespaced and kind.kind != "PersistentVolume"
        yield ObjectKey(kind, name, namespace=key.namespace if namespaced else "")


def _backends(key: ObjectKey, manifest: Manifest) -> set[ObjectKey]:
    """Return the Services of an Ingress."""
    if key.kind != INGRESS:
        return set()
    spec = path(manifest, "spec")
    backends = [path(spec, "defaultBackend")]
    for rule in mappings(spec.get("rules")):
        backends += [path(each, "backend") for each in mappings(path(rule, "http").get("paths"))]
    names = {text(path(each, "service"), "name") for each in backends} - {""}
    return {ObjectKey(SERVICE, name, namespace=key.namespace) for name in names}


def _kind(manifest: Mapping[str, Any]) -> GroupKind:
    group, _, version = text(manifest, "apiVersion").rpartition("/")
    kind = text(manifest, "kind")
    if not kind or not version:
        raise ValueError("a rendered object needs apiVersion and kind")
    return GroupKind(group, kind)

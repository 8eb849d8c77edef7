"""What writes of particular built-in kinds bring about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.definitions import DEFINITIONS, Definitions
from ctrlruntime.envtest.server.kinds import Kind
from ctrlruntime.envtest.server.pods import admit_pod, quality_of_service
from ctrlruntime.envtest.server.services import Allocator
from ctrlruntime.envtest.server.state import State
from ctrlruntime.envtest.server.storage import Record

_TEMPLATE_COUNT: Final = "deprecated.daemonset.template.generation"
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"


# -- before field managers are recorded ------------------------------------------------------


def before_tracking(kind: Kind, obj: Manifest) -> None:
    """Defaults that the sender of a new object owns."""
    match kind.resource:
        case "namespaces":
            labels = obj["metadata"].setdefault("labels", {})
            if name := obj["metadata"].get("name"):
                labels["kubernetes.io/metadata.name"] = name
        case "daemonsets.apps":
            _show_template_count(obj)


# -- admission plugins -----------------------------------------------------------------------


def admit(state: State, kind: Kind, obj: Manifest) -> None:
    """Add what upstream's default admission plugins add to new objects."""
    match kind.resource:
        case "pods":
            admit_pod(obj)
        case "persistentvolumeclaims":
            _finalizer(obj, "kubernetes.io/pvc-protection")
            _default_class(state, obj)
        case "persistentvolumes":
            _finalizer(obj, "kubernetes.io/pv-protection")
        case "nodes":
            _not_ready(obj)


def _finalizer(obj: Manifest, name: str) -> None:
    finalizers = obj["metadata"].setdefault("finalizers", [])
    if name not in finalizers:
        finalizers.append(name)


def _default_class(state: State, obj: Manifest) -> None:
    spec = obj["spec"]
    if spec.get("storageClassName") is not None:
        return
    for record in state.storage.bucket("storageclasses.storage.k8s.io").scan():
        if (record.obj["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true":
            spec["storageClassName"] = record.name


# -- creates ---------------------------------------------------------------------------------


def before_create(state: State, kind: Kind, obj: Manifest, *, dry_run: bool = False) -> None:
    """After field managers were recorded, before validation: allocations and the like."""
    if kind.resource == "services":
        allocator(state).assign(obj, dry_run=dry_run)
    action = _CREATES.get(kind.resource)
    if action is not None:
        action(state, obj)


def _pod(state: State, obj: Manifest) -> None:
    del state
    obj["status"] = {"phase": "Pending", "qosClass": quality_of_service(obj["spec"])}


def _job(state: State, obj: Manifest) -> None:
    """Selector and labels made of the uid, unless the owner does that by hand."""
    del state
    metadata, spec = obj["metadata"], obj.get("spec")
    if not isinstance(spec, dict) or spec.get("manualSelector"):
        return
    template = spec.setdefault("template", {})
    if template.get("metadata") is None:
        template["metadata"] = {}
    if template["metadata"].get("labels") is None:
        template["metadata"]["labels"] = {}
    labels = template["metadata"]["labels"]
    uid, name = metadata["uid"], metadata.get("name", "")
    for prefix in ("batch.kubernetes.io/", ""):
        labels[f"{prefix}controller-uid"] = uid
        labels[f"{prefix}job-name"] = name
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    if not metadata.get("labels"):
        metadata["labels"] = dict(labels)


def _daemon_set(state: State, obj: Manifest) -> None:
    del state
    annotations = obj["metadata"].setdefault("annotations", {})
    annotations[_TEMPLATE_COUNT] = "1"


def _namespace(state: State, obj: Manifest) -> None:
    del state
    finalizers = obj.setdefault("spec", {}).setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")


_NODE_INFO: Final = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)


def _node(state: State, obj: Manifest) -> None:
    del state
    status = obj.setdefault("status", {})
    status.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})
    info = status.setdefault("nodeInfo", {})
    for name in _NODE_INFO:
        info.setdefault(name, "")


def _not_ready(obj: Manifest) -> None:
    """Taint a new node: it takes no pods until it is marked ready."""
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    taints = obj["spec"].setdefault("taints", [])
    if taint not in taints:
        taints.append(taint)


_CREATES: Final[dict[str, Callable[[State, Manifest], None]]] = {
    "pods": _pod,
    "jobs.batch": _job,
    "daemonsets.apps": _daemon_set,
    "namespaces": _namespace,
    "nodes": _node,
}


def allocator(state: State) -> Allocator:
    """Return the addresses and node ports of Services."""
    found = state.allocations.get("services")
    if found is None:
        found = state.allocations["services"] = Allocator(state.options.service_cidr)
    assert isinstance(found, Allocator)  # noqa: S101 - set above only
    return found


def undo_create(state: State, kind: Kind, obj: Manifest) -> None:
    """Give back what `before_create` took, after a create that failed."""
    if kind.resource == "services":
        allocator(state).release(obj)


def after_create(state: State, kind: Kind, record: Record) -> None:
    if kind.resource == DEFINITIONS:
        Definitions(state).establish(record)


# -- updates and deletions -------------------------------------------------------------------


def before_update(state: State, kind: Kind, new: Manifest, old: Manifest, subresource: str) -> None:
    if subresource == "status":
        return
    match kind.resource:
        case "services":
            allocator(state).reassign(new, old)
        case "namespaces":
            _keep_finalizers(new, old, subresource)
        case "daemonsets.apps":
            _show_template_count(new)


def after_tracking(kind: Kind, new: Manifest, old: Manifest, subresource: str) -> None:
    """Make the changes that an update makes without the writer owning it."""
    if kind.resource == "daemonsets.apps" and subresource != "status":
        _count_templates(new, old)


def _show_template_count(obj: Manifest) -> None:
    """Who sends the annotation not at all sends, as the server sees it, a zero."""
    annotations = obj["metadata"].setdefault("annotations", {})
    annotations.setdefault(_TEMPLATE_COUNT, "0")


def _count_templates(new: Manifest, old: Manifest) -> None:
    """Keep the annotation of a field of the old API, whatever the sender makes of it."""
    count = int((old["metadata"].get("annotations") or {}).get(_TEMPLATE_COUNT) or 0)
    count += new["spec"].get("template") != old["spec"].get("template")
    new["metadata"].setdefault("annotations", {})[_TEMPLATE_COUNT] = str(count)


def _keep_finalizers(new: Manifest, old: Manifest, subresource: str) -> None:
    """Only the finalize subresource changes the finalizers in the spec of a namespace."""
    if subresource == "finalize":
        return
    finalizers = (old.get("spec") or {}).get("finalizers")
    new["spec"] = {"finalizers": finalizers} if finalizers else {}


def after_update(state: State, kind: Kind, record: Record, previous: Record) -> None:
    del previous
    if kind.resource == DEFINITIONS:
        Definitions(state).establish(record)


def after_delete(state: State, kind: Kind, record: Record) -> None:
    if kind.resource == DEFINITIONS:
        Definitions(state).withdraw(record.obj)
    elif kind.resource == "services":
        allocator(state).release(record.obj)

"""What updates of built-in kinds may not change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from ctrlruntime.envtest.schema.quantity import value_of
from ctrlruntime.envtest.server.definition_rules import check_definition_update
from ctrlruntime.envtest.server.errors import FieldError, bad_value, forbidden_field

_Object = dict[str, Any]
_Errors = Iterable[FieldError]
_IMMUTABLE: Final = "field is immutable"


def _get(obj: _Object, path: str) -> Any:
    node: Any = obj
    for part in path.split("."):
        node = node.get(part) if isinstance(node, dict) else None
    return node


def _fixed(*paths: str) -> Callable[[_Object, _Object], _Errors]:
    """Fields that keep the value they were created with."""

    def check(new: _Object, old: _Object) -> Iterator[FieldError]:
        for path in paths:
            if _get(new, path) != _get(old, path):
                yield bad_value(path, _get(new, path), _IMMUTABLE)

    return check


def _immutable_data(new: _Object, old: _Object) -> Iterator[FieldError]:
    if not old.get("immutable"):
        return
    text = "field is immutable when `immutable` is set"
    if not new.get("immutable"):
        yield forbidden_field("immutable", text)
    for field in ("data", "binaryData"):
        if (new.get(field) or {}) != (old.get(field) or {}):
            yield forbidden_field(field, text)


def _stateful_set(new: _Object, old: _Object) -> Iterator[FieldError]:
    free = {
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    }
    if _without(new["spec"], free) != _without(old["spec"], free):
        yield forbidden_field(
            "spec",
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
            "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
            "'minReadySeconds' are forbidden",
        )


def _without(spec: _Object, names: Iterable[str]) -> _Object:
    dropped = set(names)
    return {key: value for key, value in spec.items() if key not in dropped}


def _pod(new: _Object, old: _Object) -> Iterator[FieldError]:
    if _pod_frozen(new["spec"]) != _pod_frozen(old["spec"]):
        yield forbidden_field(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,"
            "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
            "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` "
            "(allow it to be set to 1 if it was previously negative)",
        )


def _pod_containers(new: _Object, old: _Object) -> Iterator[FieldError]:
    for field in ("containers", "initContainers"):
        if len(new["spec"].get(field) or ()) != len(old["spec"].get(field) or ()):
            yield forbidden_field(f"spec.{field}", "pod updates may not add or remove containers")
            return


def _pod_update(new: _Object, old: _Object) -> Iterator[FieldError]:
    """Yield what of the containers or of a later deadline is wrong hides the rest."""
    if containers := list(_pod_containers(new, old)):
        yield from containers
        return
    deadline = list(_pod_deadline(new, old))
    yield from deadline
    if not deadline or new["spec"].get("activeDeadlineSeconds") is None:
        yield from _pod(new, old)


def _pod_deadline(new: _Object, old: _Object) -> Iterator[FieldError]:
    """Check a deadline: it may be set, and be made shorter."""
    path = "spec.activeDeadlineSeconds"
    before, after = _get(old, path), _get(new, path)
    if before is None:
        return
    if after is None:
        yield bad_value(path, None, "must not update from a positive integer to nil value")
    elif after > before:
        yield bad_value(path, after, "must be less than or equal to previous value")


def _pod_frozen(spec: _Object) -> _Object:
    frozen = _without(spec, {"activeDeadlineSeconds", "tolerations", "schedulingGates"})
    for field in ("containers", "initContainers"):
        if spec.get(field):
            frozen[field] = [_without(item, {"image"}) for item in spec[field]]
    frozen.pop("ephemeralContainers", None)
    if spec.get("schedulingGates"):
        frozen.pop("nodeSelector", None)
        frozen.pop("affinity", None)
    return frozen


def _claim(new: _Object, old: _Object) -> Iterator[FieldError]:
    free = {"volumeAttributesClassName"}
    if (new.get("status") or {}).get("phase") == "Bound":
        free.add("resources")
    if not old["spec"].get("volumeName"):
        free.add("volumeName")
    if not old["spec"].get("storageClassName"):
        free.add("storageClassName")
    if _without(new["spec"], free) != _without(old["spec"], free):
        yield forbidden_field(
            "spec",
            "spec is immutable after creation except resources.requests and "
            "volumeAttributesClassName for bound claims",
        )


def _claim_size(new: _Object, old: _Object) -> Iterator[FieldError]:
    path = "spec.resources.requests.storage"
    before, after = _get(old, path), _get(new, path)
    if before is not None and (after is None or value_of(after) < value_of(before)):
        yield forbidden_field(path, "field can not be less than status.capacity")


def _service_update(new: _Object, old: _Object) -> Iterator[FieldError]:
    before, after = old["spec"].get("clusterIP"), new["spec"].get("clusterIP")
    kept = {old["spec"].get("type"), new["spec"].get("type")}
    if before and "ExternalName" not in kept and after != before:
        value = new["spec"].get("clusterIPs")
        yield bad_value("spec.clusterIPs[0]", value, "may not change once set")


def _role_ref(new: _Object, old: _Object) -> Iterator[FieldError]:
    if new.get("roleRef") != old.get("roleRef"):
        yield bad_value("roleRef", new.get("roleRef"), "cannot change roleRef")


UPDATES: Final[dict[tuple[str, str], tuple[Callable[[_Object, _Object], _Errors], ...]]] = {
    ("apps", "Deployment"): (_fixed("spec.selector"),),
    ("apps", "ReplicaSet"): (_fixed("spec.selector"),),
    ("apps", "DaemonSet"): (_fixed("spec.selector"),),
    ("apps", "StatefulSet"): (_stateful_set,),
    ("apps", "ControllerRevision"): (_fixed("data"),),
    ("batch", "Job"): (_fixed("spec.completions", "spec.selector", "spec.template"),),
    ("", "Pod"): (_pod_update,),
    ("", "ConfigMap"): (_immutable_data,),
    ("", "Secret"): (_fixed("type"), _immutable_data),
    ("", "PersistentVolumeClaim"): (_claim, _claim_size),
    ("", "Service"): (_service_update,),
    ("storage.k8s.io", "StorageClass"): (
        _fixed("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"),
    ),
    ("scheduling.k8s.io", "PriorityClass"): (_fixed("value"),),
    ("rbac.authorization.k8s.io", "RoleBinding"): (_role_ref,),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): (_role_ref,),
    ("discovery.k8s.io", "EndpointSlice"): (_fixed("addressType"),),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): (check_definition_update,),
}

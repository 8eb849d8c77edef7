"""Objects as their scale subresource shows them."""

from __future__ import annotations

from typing import Any

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.errors import StatusError
from ctrlruntime.envtest.server.kinds import Kind, ScalePaths
from ctrlruntime.json import Json


def scale_view(kind: Kind, version: str, obj: Manifest) -> Manifest:
    """Return the object as its scale subresource shows it."""
    return scale_of(kind, obj, scale_paths(kind, version))


def scale_paths(kind: Kind, version: str) -> ScalePaths:
    """Return where the kind keeps what its scale shows."""
    if kind.custom:
        scale = kind.version_entry(version)["subresources"]["scale"]
        return ScalePaths(
            scale["specReplicasPath"].lstrip("."),
            scale["statusReplicasPath"].lstrip("."),
            (scale.get("labelSelectorPath") or "").lstrip("."),
        )
    return kind.scale or ScalePaths()


def scale_of(kind: Kind, obj: Manifest, paths: ScalePaths) -> Manifest:
    """Return the scale of an object."""
    metadata = obj["metadata"]
    names = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: dict[str, Any] = {"replicas": _get(obj, paths.status) or 0}
    selector = _get(obj, paths.selector) if paths.selector else None
    if isinstance(selector, dict):
        selector = selector_text(kind, selector)
    if selector:
        status["selector"] = selector
    replicas = _get(obj, paths.spec)
    if replicas is None and kind.custom:
        raise StatusError(
            500,
            "InternalError",
            f'Internal error occurred: the spec replicas field ".{paths.spec}" does not exist',
        )
    spec: dict[str, Any] = {"replicas": replicas} if replicas else {}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in names if name in metadata},
        "spec": spec,
        "status": status,
    }


def selector_text(kind: Kind, selector: Manifest) -> str:
    """Return a label selector as the text that a list request takes."""
    if kind.kind == "ReplicationController":
        selector = {"matchLabels": selector}
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for item in selector.get("matchExpressions") or ():
        key, values = item["key"], ",".join(sorted(item.get("values") or ()))
        shown = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        parts.append(shown[item["operator"]])
    return ",".join(sorted(parts))


def _get(obj: Manifest, path: str) -> Json:
    node: Any = obj
    for part in path.split("."):
        node = node.get(part) if isinstance(node, dict) else None
    return node


def put(obj: Manifest, path: str, value: object) -> None:
    """Set the field at a dotted path."""
    *parents, last = path.split(".")
    node = obj
    for part in parents:
        node = node.setdefault(part, {})
    node[last] = value

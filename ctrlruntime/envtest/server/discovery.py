"""Plain discovery: which groups, versions and resources are served."""

from __future__ import annotations

import re
from typing import Any, Final

from ctrlruntime.envtest.server.kinds import Catalog, Kind

_PREFERRED_ORDER: Final = ("v1", "v2")
_SUBRESOURCE_KINDS: Final = {
    "scale": ("autoscaling", "v1", "Scale", ("get", "patch", "update")),
    "eviction": ("policy", "v1", "Eviction", ("create",)),
    "binding": ("", "v1", "Binding", ("create",)),
    "token": ("authentication.k8s.io", "v1", "TokenRequest", ("create",)),
    "finalize": ("", "", "", ("update",)),
}


def group_versions(catalog: Catalog) -> dict[str, list[str]]:
    """Versions by group, the preferred one first; the core group is left out."""
    found: dict[str, list[str]] = {}
    for kind in catalog:
        versions = found.setdefault(kind.group, [])
        versions += [version for version in kind.versions if version not in versions]
    found.pop("", None)
    return {group: sorted(found[group], key=version_rank) for group in found}


def version_rank(version: str) -> tuple[int, int, int, str]:
    """Kubernetes' order of versions: v2, v1, v1beta1, v1alpha1, then anything else."""
    match = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version)
    if match is None:
        return (3, 0, 0, version)
    stage = {None: 0, "beta": 1, "alpha": 2}[match.group(2)]
    return (stage, -int(match.group(1)), -int(match.group(3) or 0), "")


def api_versions(address: str) -> dict[str, Any]:
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def api_group(group: str, versions: list[str]) -> dict[str, Any]:
    listed = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": listed, "preferredVersion": listed[0]}


def api_group_list(catalog: Catalog) -> dict[str, Any]:
    groups = [api_group(group, versions) for group, versions in group_versions(catalog).items()]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def api_resource_list(catalog: Catalog, group: str, version: str) -> dict[str, Any] | None:
    """None where the group version is not served."""
    kinds = [kind for kind in catalog if kind.group == group and version in kind.versions]
    if not kinds:
        return None
    resources: list[dict[str, Any]] = []
    for kind in sorted(kinds, key=lambda item: item.plural):
        resources.append(_resource(kind))
        resources += [_subresource(kind, name, version) for name in subresources(kind, version)]
    body: dict[str, Any] = {"kind": "APIResourceList"}
    if group:
        body["apiVersion"] = "v1"
    body["groupVersion"] = f"{group}/{version}" if group else version
    body["resources"] = resources
    return body


def subresources(kind: Kind, version: str) -> tuple[str, ...]:
    """Of a custom kind they may differ by version."""
    if not kind.custom:
        return kind.subresources
    declared = kind.version_entry(version).get("subresources") or {}
    return tuple(name for name in ("scale", "status") if name in declared)


def _resource(kind: Kind) -> dict[str, Any]:
    body: dict[str, Any] = {
        "name": kind.plural,
        "singularName": kind.singular_name,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        body["shortNames"] = list(kind.short_names)
    if kind.categories:
        body["categories"] = list(kind.categories)
    return body


def _subresource(kind: Kind, name: str, version: str) -> dict[str, Any]:
    body: dict[str, Any] = {
        "name": f"{kind.plural}/{name}",
        "singularName": "",
        "namespaced": kind.namespaced,
    }
    group, sub_version, sub_kind, verbs = _SUBRESOURCE_KINDS.get(
        name, ("", "", "", ("get", "patch", "update"))
    )
    if sub_kind:
        body["group"], body["version"] = group, sub_version
    body["kind"] = sub_kind or kind.kind
    body["verbs"] = list(verbs)
    return body

"""Discovery: which groups, versions and resources are served, plain and aggregated."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any, Final

from ctrlruntime.envtest.server.kinds import Catalog, Kind

_GROUP_ORDER: Final = (
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
)
"""Clients look a resource name up in this order; other groups follow by name."""
_STATUS_VERBS: Final = ("get", "patch", "update")
_SUBRESOURCE_KINDS: Final[dict[str, tuple[str, str, str, tuple[str, ...]]]] = {
    "scale": ("autoscaling", "v1", "Scale", _STATUS_VERBS),
    "eviction": ("policy", "v1", "Eviction", ("create",)),
    "binding": ("", "v1", "Binding", ("create",)),
    "token": ("authentication.k8s.io", "v1", "TokenRequest", ("create",)),
}
_SUBRESOURCE_VERBS: Final = {"finalize": ("update",)}


def group_versions(catalog: Catalog) -> dict[str, list[str]]:
    """Versions by group, the preferred one first; the core group is left out."""
    found: dict[str, list[str]] = {}
    for kind in catalog:
        versions = found.setdefault(kind.group, [])
        versions += [version for version in kind.versions if version not in versions]
    found.pop("", None)
    return {group: sorted(found[group], key=version_rank) for group in sorted(found, key=_rank)}


def _rank(group: str) -> tuple[int, str]:
    try:
        return _GROUP_ORDER.index(group), group
    except ValueError:
        return len(_GROUP_ORDER), group


def version_rank(version: str) -> tuple[int, int, int, str]:
    """Kubernetes' order of versions: v2, v1, v1beta1, v1alpha1, then anything else."""
    match = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version)
    if match is None:
        return (3, 0, 0, version)
    stage = {None: 0, "beta": 1, "alpha": 2}[match.group(2)]
    return (stage, -int(match.group(1)), -int(match.group(3) or 0), "")


# -- plain -----------------------------------------------------------------------------------


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
    kinds = kinds_of(catalog, group, version)
    if not kinds:
        return None
    resources: list[dict[str, Any]] = []
    for kind in kinds:
        resources.append(_resource(kind, version))
        resources += [_subresource(kind, name, version) for name in subresources(kind, version)]
    body: dict[str, Any] = {"kind": "APIResourceList"}
    if group:
        body["apiVersion"] = "v1"
    body["groupVersion"] = f"{group}/{version}" if group else version
    body["resources"] = resources
    return body


def kinds_of(catalog: Catalog, group: str, version: str) -> list[Kind]:
    """Return the kinds of a group version, by the name of their resource."""
    kinds = [kind for kind in catalog if kind.group == group and version in kind.versions]
    return sorted(kinds, key=lambda kind: kind.plural)


def subresources(kind: Kind, version: str) -> tuple[str, ...]:
    """Of a custom kind they may differ by version."""
    if not kind.custom:
        return kind.subresources
    declared = kind.version_entry(version).get("subresources") or {}
    return tuple(name for name in ("status", "scale") if name in declared)


def _resource(kind: Kind, version: str) -> dict[str, Any]:
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
    if not kind.create_only:
        body["storageVersionHash"] = _storage_hash(kind)
    return body


def _storage_hash(kind: Kind) -> str:
    stored = f"{kind.group}/{kind.storage_version}/{kind.kind}"
    return base64.b64encode(hashlib.sha256(stored.encode()).digest()[:8]).decode()


def subresource_kind(kind: Kind, name: str, version: str) -> tuple[str, str, str, tuple[str, ...]]:
    """Group, version and kind that a subresource takes and returns, and its verbs."""
    own = (kind.group, version, kind.kind, _SUBRESOURCE_VERBS.get(name, _STATUS_VERBS))
    return _SUBRESOURCE_KINDS.get(name, own)


def _subresource(kind: Kind, name: str, version: str) -> dict[str, Any]:
    body: dict[str, Any] = {
        "name": f"{kind.plural}/{name}",
        "singularName": "",
        "namespaced": kind.namespaced,
    }
    group, sub_version, sub_kind, verbs = subresource_kind(kind, name, version)
    if (group, sub_version) != (kind.group, version):
        body["group"], body["version"] = group, sub_version
    body["kind"] = sub_kind
    body["verbs"] = list(verbs)
    return body


# -- aggregated ------------------------------------------------------------------------------


def aggregated(catalog: Catalog, version: str, *, core: bool) -> dict[str, Any]:
    """Return an `APIGroupDiscoveryList` of `apidiscovery.k8s.io/<version>`: of /api or of /apis."""
    groups = {"": ["v1"]} if core else group_versions(catalog)
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": [_group_item(catalog, group, versions) for group, versions in groups.items()],
    }


def _group_item(catalog: Catalog, group: str, versions: list[str]) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": group} if group else {}
    metadata["creationTimestamp"] = None
    return {
        "metadata": metadata,
        "versions": [
            {
                "version": version,
                "resources": [_item(kind, version) for kind in kinds_of(catalog, group, version)],
                "freshness": "Current",
            }
            for version in versions
        ],
    }


def _item(kind: Kind, version: str) -> dict[str, Any]:
    body: dict[str, Any] = {
        "resource": kind.plural,
        "responseKind": _gvk(kind.group, version, kind.kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular_name,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        body["shortNames"] = list(kind.short_names)
    if kind.categories:
        body["categories"] = list(kind.categories)
    names = subresources(kind, version)
    if names:
        body["subresources"] = [_subitem(kind, name, version) for name in names]
    return body


def _subitem(kind: Kind, name: str, version: str) -> dict[str, Any]:
    *gvk, verbs = subresource_kind(kind, name, version)
    return {"subresource": name, "responseKind": _gvk(*gvk), "verbs": list(verbs)}


def _gvk(group: str, version: str, kind: str) -> dict[str, str]:
    return {"group": group, "version": version, "kind": kind}

"""Roles, ClusterRoles and their bindings."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.checking import Rules
from ctrlruntime.envtest.server.defaulting import Defaults
from ctrlruntime.envtest.server.errors import FieldError, bad_value, not_supported, required
from ctrlruntime.envtest.server.kinds.declare import builtin_kind
from ctrlruntime.envtest.server.printers.column import CREATED_AT, Cells, age, items, part

_Object = dict[str, Any]
_GROUP: Final = "rbac.authorization.k8s.io"


def _rules(obj: _Object, prefix: str) -> Iterator[FieldError]:
    namespaced = "namespace" in obj["metadata"]
    for index, rule in enumerate(obj.get("rules") or ()):
        path = f"{prefix}rules[{index}]"
        if not rule.get("verbs"):
            yield required(f"{path}.verbs", "verbs must contain at least one value")
        if urls := rule.get("nonResourceURLs"):
            yield from _urls(rule, urls, f"{path}.nonResourceURLs", namespaced=namespaced)
            continue
        if not rule.get("apiGroups"):
            text = "resource rules must supply at least one api group"
            yield required(f"{path}.apiGroups", text)
        if not rule.get("resources"):
            yield required(f"{path}.resources", "resource rules must supply at least one resource")


def _urls(rule: _Object, urls: list[str], path: str, *, namespaced: bool) -> Iterator[FieldError]:
    if namespaced:
        yield bad_value(path, urls, "namespaced rules cannot apply to non-resource URLs")
    if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
        text = "rules cannot apply to both regular resources and non-resource URLs"
        yield bad_value(path, urls, text)


def _binding(obj: _Object, prefix: str) -> Iterator[FieldError]:
    namespaced = "namespace" in obj["metadata"]
    ref = obj.get("roleRef") or {}
    if ref.get("apiGroup") != _GROUP:
        yield not_supported(f"{prefix}roleRef.apiGroup", ref.get("apiGroup") or "", (_GROUP,))
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    if ref.get("kind") not in kinds:
        yield not_supported(f"{prefix}roleRef.kind", ref.get("kind") or "", kinds)
    if not ref.get("name"):
        yield required(f"{prefix}roleRef.name")
    for index, subject in enumerate(obj.get("subjects") or ()):
        yield from _subject(subject, f"{prefix}subjects[{index}]", namespaced=namespaced)


def _subject(subject: _Object, path: str, *, namespaced: bool) -> Iterator[FieldError]:
    if not subject.get("name"):
        yield required(f"{path}.name")
    kind, group = subject.get("kind") or "", subject.get("apiGroup") or ""
    if kind not in {"ServiceAccount", "User", "Group"}:
        yield not_supported(f"{path}.kind", kind, ("ServiceAccount", "User", "Group"))
    elif kind == "ServiceAccount":
        if group:
            yield not_supported(f"{path}.apiGroup", group, ("",))
        if not namespaced and not subject.get("namespace"):
            yield required(f"{path}.namespace")
    elif group != _GROUP:
        yield not_supported(f"{path}.apiGroup", group, (_GROUP,))


_SUBJECTS: Final = Defaults(
    rules=(
        lambda s: (
            s.setdefault("apiGroup", "rbac.authorization.k8s.io")
            if s.get("kind") in {"User", "Group"}
            else None
        ),
    )
)


def _role_ref(new: _Object, old: _Object) -> Iterator[FieldError]:
    if new.get("roleRef") != old.get("roleRef"):
        yield bad_value("roleRef", new.get("roleRef"), "cannot change roleRef")


def _cells(obj: Manifest, now: datetime) -> Cells:
    role = part(obj, "roleRef")
    subjects = items(obj, "subjects")

    def named(kind: str) -> list[dict[str, Any]]:
        return [each for each in subjects if each.get("kind") == kind]

    accounts = [f"{s.get('namespace', '')}/{s.get('name', '')}" for s in named("ServiceAccount")]
    return [
        obj["metadata"]["name"],
        f"{role.get('kind', '')}/{role.get('name', '')}",
        age(obj, now),
        ", ".join(each.get("name", "") for each in named("User")),
        ", ".join(each.get("name", "") for each in named("Group")),
        ", ".join(accounts),
    ]


_ACCESS: Final[dict[str, Any]] = {"name_rule": "path", "create_on_update": True}
_ROLE: Final[dict[str, Any]] = {
    **_ACCESS,
    "defaults": Defaults(rules=(lambda role: role.setdefault("rules", None),)),
    "rules": Rules(checks=(_rules,)),
    "printer": CREATED_AT,
}
_BINDING: Final[dict[str, Any]] = {
    **_ACCESS,
    "defaults": Defaults(
        {"roleRef": {}}, {"roleRef": Defaults({"apiGroup": _GROUP}), "subjects": _SUBJECTS}
    ),
    "rules": Rules(checks=(_binding,)),
    "updates": (_role_ref,),
    "columns": "Name | Role | Age | Users+ | Groups+ | ServiceAccounts+",
    "cells": _cells,
}
ROLE: Final = builtin_kind(_GROUP, "Role", "roles", **_ROLE)
ROLE_BINDING: Final = builtin_kind(_GROUP, "RoleBinding", "rolebindings", **_BINDING)
CLUSTER_ROLE: Final = builtin_kind(_GROUP, "ClusterRole", "clusterroles", namespaced=False, **_ROLE)
CLUSTER_ROLE_BINDING: Final = builtin_kind(
    _GROUP, "ClusterRoleBinding", "clusterrolebindings", namespaced=False, **_BINDING
)

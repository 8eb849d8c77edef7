"""Validation of roles and their bindings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ctrlruntime.envtest.server.checking import Rules
from ctrlruntime.envtest.server.errors import FieldError, bad_value, not_supported, required

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


ROLE: Final = Rules(checks=(_rules,))
ROLE_BINDING: Final = Rules(checks=(_binding,))

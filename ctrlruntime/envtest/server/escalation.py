"""No user grants more than it holds: roles and bindings, checked as RBAC's registries do."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.auth import MASTERS, Attributes, Authorizer, lists_value
from ctrlruntime.envtest.server.errors import forbidden, not_found
from ctrlruntime.envtest.server.kinds import Kind
from ctrlruntime.envtest.server.options import User
from ctrlruntime.envtest.server.request import Request

GROUP: Final = "rbac.authorization.k8s.io"
_ROLES: Final = frozenset({"roles", "clusterroles"})
_BINDINGS: Final = frozenset({"rolebindings", "clusterrolebindings"})


class _Right(NamedTuple):
    """One verb on one resource (and name), or on one path."""

    group: str
    resource: str
    name: str
    path: str
    verb: str


class EscalationCheck:
    """Looks at what is about to be stored."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def check(self, kind: Kind, request: Request, new: Manifest, old: Manifest | None) -> None:
        """Raise Forbidden with the rights that the sender has not."""
        if kind.group != GROUP or self._authorizer.allows_all or MASTERS in request.user.groups:
            return
        if kind.plural in _ROLES:
            if old is None or (old.get("rules") or []) != (new.get("rules") or []):
                self._role(kind, request, new)
        elif kind.plural in _BINDINGS and (
            old is None
            or (old["roleRef"], old.get("subjects")) != (new["roleRef"], new.get("subjects"))
        ):
            self._binding(kind, request, new)

    def _role(self, kind: Kind, request: Request, role: Manifest) -> None:
        name = role["metadata"].get("name", "")
        namespace = request.namespace if kind.namespaced else ""
        asked = Attributes(request.user, "escalate", GROUP, "*", kind.plural, "", namespace, name)
        if not self._authorizer.allows(asked):
            self._confirm(kind, request, name, namespace, role.get("rules") or ())

    def _binding(self, kind: Kind, request: Request, binding: Manifest) -> None:
        ref, namespace = binding["roleRef"], request.namespace if kind.namespaced else ""
        plural = "roles" if ref.get("kind") == "Role" else "clusterroles"
        asked = Attributes(
            request.user, "bind", GROUP, "*", plural, "", namespace, ref.get("name", "")
        )
        if self._authorizer.allows(asked):
            return
        rules = self._authorizer.referenced(ref, namespace)
        if rules is None:
            raise not_found(GROUP, kind.plural, ref.get("name", ""))
        name = binding["metadata"].get("name", "")
        self._confirm(kind, request, name, namespace, rules)

    def _confirm(
        self,
        kind: Kind,
        request: Request,
        name: str,
        namespace: str,
        rules: Iterable[Mapping[str, Any]],
    ) -> None:
        held = list(self._authorizer.rules(request.user, namespace))
        missing = [
            right
            for rule in rules
            for right in _rights(rule)
            if not any(_covers(own, right) for own in held)
        ]
        if missing:
            raise forbidden(kind.group, kind.plural, name, _refusal(request.user, missing))


def _refusal(user: User, missing: list[_Right]) -> str:
    groups = _quoted(user.groups)
    listed = "\n".join(sorted(set(_compact(missing))))
    return (
        f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not '
        f"currently held:\n{listed}"
    )


def _rights(rule: Mapping[str, Any]) -> Iterator[_Right]:
    verbs = rule.get("verbs") or ()
    for path in rule.get("nonResourceURLs") or ():
        yield from (_Right("", "", "", path, verb) for verb in verbs)
    for group in rule.get("apiGroups") or ():
        for resource in rule.get("resources") or ():
            for name in rule.get("resourceNames") or ("",):
                yield from (_Right(group, resource, name, "", verb) for verb in verbs)


def _covers(rule: Mapping[str, Any], right: _Right) -> bool:
    if not lists_value(rule.get("verbs"), right.verb):
        return False
    if right.path:
        paths = rule.get("nonResourceURLs") or ()
        return any(
            path in ("*", right.path) or (path.endswith("*") and right.path.startswith(path[:-1]))
            for path in paths
        )
    names = rule.get("resourceNames")
    return (
        lists_value(rule.get("apiGroups"), right.group)
        and _has_resource(rule.get("resources") or (), right.resource)
        and (not names or (bool(right.name) and right.name in names))
    )


def _has_resource(resources: Collection[str], wanted: str) -> bool:
    _, slash, subresource = wanted.partition("/")
    return lists_value(resources, wanted) or bool(slash and f"*/{subresource}" in resources)


def _compact(missing: list[_Right]) -> Iterator[str]:
    """One text for all verbs on the same thing."""
    merged: dict[_Right, list[str]] = {}
    for right in missing:
        verbs = merged.setdefault(right._replace(verb=""), [])
        if right.verb not in verbs:
            verbs.append(right.verb)
    for right, verbs in merged.items():
        parts = [("NonResourceURLs", [right.path])] if right.path else []
        if not right.path:
            parts = [("APIGroups", [right.group]), ("Resources", [right.resource])]
        if right.name:
            parts.append(("ResourceNames", [right.name]))
        parts.append(("Verbs", verbs))
        texts = [f"{title}:[{_quoted(values)}]" for title, values in parts]
        yield "{" + ", ".join(texts) + "}"


def _quoted(values: Iterable[str]) -> str:
    return " ".join(f'"{value}"' for value in values)

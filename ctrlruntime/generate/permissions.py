"""Roles from what controllers declare.

    @rbac(Rule(groups=("batch",), resources=("jobs",), verbs=("get", "list", "watch", "create")))
    class Backups: ...

A controller's watches imply most of its rules (``declared``); ``@rbac`` and the functions below
add the rest.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ctrlruntime.api.kinds import Manifest

__all__ = [
    "Rule",
    "declared",
    "leads",
    "limit_to_namespaces",
    "normalised",
    "policy_rules",
    "rbac",
    "reads_crds",
    "roles",
    "rules_of",
    "writes_events",
]

T = TypeVar("T")

_ATTRIBUTE = "__rbac_rules__"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Rule:
    """A permission: these verbs on these resources, or on these non-resource URLs.

    ``groups``: API groups, ``core`` or the empty string for the core one. ``resources``: plurals,
    with a subresource after a slash. ``names``: only objects of these names. ``namespace``: only
    there (a Role instead of a ClusterRole). Raises ValueError for a rule that allows nothing or
    mixes URLs with resources.
    """

    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    namespace: str | None = None

    def __post_init__(self) -> None:
        for name in ("groups", "resources", "verbs", "names", "urls"):
            if isinstance(getattr(self, name), str):
                raise TypeError(f"{name} is a tuple of words, not a string")
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not self.verbs:
            raise ValueError("a rule needs verbs, for example get, list, watch")
        if bool(self.urls) == bool(self.resources):
            raise ValueError("a rule is about resources or about URLs, one of the two")
        if self.resources and not self.groups:
            raise ValueError('a rule about resources needs their groups; the core group is ""')
        if self.urls and self.namespace:
            raise ValueError("a rule about URLs cannot be in a namespace")


def declared(
    permissions: Iterable[tuple[str, str, Sequence[str]]], namespace: str | None = None
) -> tuple[Rule, ...]:
    """Return the rules that a controller's declarations imply: ``declared(controller.permissions)``.

    Each permission is ``(group, plural, verbs)``; a subresource is ``plural/name``.
    """
    return tuple(
        Rule(groups=(group,), resources=(plural,), verbs=tuple(verbs), namespace=namespace)
        for group, plural, verbs in permissions
    )


def writes_events(namespace: str | None = None) -> tuple[Rule, ...]:
    """Return what recording events needs."""
    return (
        Rule(
            groups=("events.k8s.io",),
            resources=("events",),
            verbs=("create", "patch"),
            namespace=namespace,
        ),
    )


def leads(*names: str, namespace: str | None = None) -> tuple[Rule, ...]:
    """Return what leader election by Leases needs, on those of the ``names`` alone where some are given.

    A create cannot be restricted to a name; a watch can, as it selects ``metadata.name``.
    """
    groups, resources = ("coordination.k8s.io",), ("leases",)
    return (
        Rule(groups=groups, resources=resources, verbs=("create",), namespace=namespace),
        Rule(
            groups=groups,
            resources=resources,
            verbs=("get", "update", "watch"),
            names=tuple(filter(None, names)),
            namespace=namespace,
        ),
    )


def reads_crds() -> tuple[Rule, ...]:
    """Return what noticing new kinds needs: their definitions are watched, never read one by one."""
    return (
        Rule(
            groups=("apiextensions.k8s.io",),
            resources=("customresourcedefinitions",),
            verbs=("list", "watch"),
        ),
    )


def rbac(*rules: Rule) -> Callable[[T], T]:
    """Attach rules to a function or class, where the generator finds them."""

    def attach(target: T) -> T:
        setattr(target, _ATTRIBUTE, (*vars(target).get(_ATTRIBUTE, ()), *rules))
        return target

    return attach


def rules_of(target: object) -> tuple[Rule, ...]:
    """Return the rules attached to a function or, with those of its methods and parents, to a class."""
    if not isinstance(target, type):
        return tuple(getattr(target, _ATTRIBUTE, ()))
    attached: tuple[Rule, ...] = ()
    for cls in reversed(target.__mro__):
        attached += vars(cls).get(_ATTRIBUTE, ())
        # A copy: to look at what pydantic has put there may build the model.
        for member in list(vars(cls).values()):
            attached += tuple(getattr(member, _ATTRIBUTE, ()))
    return attached


def normalised(rules: Iterable[Rule]) -> list[Rule]:
    """Return the same permissions in as few rules as controller-gen would write, sorted.

    Rules that agree on everything else are merged over verbs, then resources, then groups, then
    URLs, and again as long as that makes new ones agree; ``*`` swallows the other verbs; ``core`` is
    the empty group.
    """
    current = [_sorted(rule) for rule in rules]
    before = len(current) + 1
    while len(current) < before:
        before = len(current)
        for key in ("verbs", "resources", "groups", "urls"):
            current = _merged(current, key)
    return sorted(current, key=_order)


def roles(rules: Iterable[Rule], name: str = "manager-role") -> list[Manifest]:
    """Return a ClusterRole and one Role for each namespace that the rules speak of, in this order."""
    merged = normalised(rules)
    namespaces = sorted({rule.namespace for rule in merged if rule.namespace})
    manifests: list[Manifest] = []
    for namespace in (None, *namespaces):
        own = [rule for rule in merged if rule.namespace == namespace]
        if not own:
            continue
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        manifests.append(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "Role" if namespace else "ClusterRole",
                "metadata": metadata,
                "rules": [_policy_rule(rule) for rule in own],
            }
        )
    return manifests


def limit_to_namespaces(
    rules: Iterable[Rule], namespaces: Collection[str], cluster_scoped: Collection[tuple[str, str]]
) -> list[Rule]:
    """Return the rules with every namespaced resource limited to the namespaces.

    ``cluster_scoped``: group and plural of the resources that belong to no namespace. Their rules,
    those about URLs, and those that already name a namespace stay as they are; every other resource is
    taken as namespaced, so that an unknown one gets fewer rights, not more. ``roles`` turns the result
    into a small ClusterRole and a Role for each namespace. Raises ValueError without namespaces, and for
    a wildcard group or resource, which has no scope.
    """
    if not namespaces:
        raise ValueError("no namespaces to limit the rules to")
    limited: list[Rule] = []
    for rule in normalised(rules):
        if rule.urls or rule.namespace:
            limited.append(rule)
            continue
        if "*" in rule.groups or any("*" in name for name in rule.resources):
            raise ValueError(f"{rule} has no scope: name its groups and resources")
        for group, resource in itertools.product(rule.groups, rule.resources):
            one = replace(rule, groups=(group,), resources=(resource,))
            if (group, resource.partition("/")[0]) in cluster_scoped:
                limited.append(one)
            else:
                limited += [replace(one, namespace=namespace) for namespace in namespaces]
    return normalised(limited)


def policy_rules(rules: Iterable[Rule]) -> list[dict[str, Any]]:
    """Return the rules as they stand in a role, as few as there can be."""
    return [_policy_rule(rule) for rule in normalised(rules)]


def _sorted(rule: Rule) -> Rule:
    groups = {"" if group == "core" else group for group in rule.groups}
    verbs = {"*"} if "*" in rule.verbs else set(rule.verbs)
    return replace(
        rule,
        groups=tuple(sorted(groups)),
        resources=tuple(sorted(set(rule.resources))),
        verbs=tuple(sorted(verbs)),
        names=tuple(sorted(set(rule.names))),
        urls=tuple(sorted(set(rule.urls))),
        namespace=rule.namespace or None,
    )


_FIELDS = ("groups", "resources", "verbs", "names", "urls", "namespace")


def _merged(rules: list[Rule], over: str) -> list[Rule]:
    by_rest: dict[tuple[Any, ...], Rule] = {}
    for rule in rules:
        if not getattr(rule, over):  # resources and URLs never mix
            by_rest[(object(),)] = rule
            continue
        rest = tuple(getattr(rule, name) for name in _FIELDS if name != over)
        known = by_rest.get(rest)
        if known is not None:
            changes: dict[str, Any] = {over: (*getattr(known, over), *getattr(rule, over))}
            rule = _sorted(replace(known, **changes))
        by_rest[rest] = rule
    return list(by_rest.values())


def _order(rule: Rule) -> tuple[Any, ...]:
    return (
        rule.namespace or "",
        rule.groups,
        rule.resources,
        rule.names,
        rule.urls,
        rule.verbs,
    )


def _policy_rule(rule: Rule) -> dict[str, Any]:
    result: dict[str, Any] = {}
    if rule.resources:
        result["apiGroups"] = list(rule.groups)
        result["resources"] = list(rule.resources)
    if rule.names:
        result["resourceNames"] = list(rule.names)
    if rule.urls:
        result["nonResourceURLs"] = list(rule.urls)
    result["verbs"] = list(rule.verbs)
    return result

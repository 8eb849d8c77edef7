"""The rights a controller needs at the API server, as far as its declarations tell."""

from __future__ import annotations

from ctrlruntime.api.kinds import RESTMapping

Permission = tuple[str, str, tuple[str, ...]]
"""``(group, plural, verbs)``; a subresource is ``plural/name``, as in an RBAC rule."""

FOLLOW = ("list", "watch")
READ = ("get", *FOLLOW)
OWN = ("create", "delete", "get", "list", "patch", "update", "watch")


def of_primary(mapping: RESTMapping) -> list[Permission]:
    """To read and patch the kind (finalizers, annotations) and to write its status."""
    group, plural = mapping.gvk.group, mapping.plural
    return [
        (group, plural, (*READ, "patch", "update")),
        (group, f"{plural}/status", ("get", "patch", "update")),
        (group, f"{plural}/finalizers", ("update",)),
    ]


def of_owned(mapping: RESTMapping) -> list[Permission]:
    """To do everything with objects of the kind, one by one."""
    return [(mapping.gvk.group, mapping.plural, OWN)]


def of_read(mapping: RESTMapping, *, metadata_only: bool = False) -> list[Permission]:
    """To read and watch the kind. Whose metadata alone is kept is never read one by one."""
    return [(mapping.gvk.group, mapping.plural, FOLLOW if metadata_only else READ)]


def of_declared(mapping: RESTMapping) -> list[Permission]:
    """To list and watch the kind, as the informer of a declaration does."""
    return [(mapping.gvk.group, mapping.plural, FOLLOW)]


def followed(permissions: list[Permission]) -> list[Permission]:
    """Return what informers need of the permissions: they list and watch, and no subresource."""
    kept = [
        (group, plural, tuple(verb for verb in verbs if verb in FOLLOW))
        for group, plural, verbs in permissions
        if "/" not in plural
    ]
    return [permission for permission in kept if permission[2]]


def combine(permissions: list[Permission]) -> tuple[Permission, ...]:
    """Sorted, one entry per resource, verbs joined."""
    verbs: dict[tuple[str, str], set[str]] = {}
    for group, plural, some in permissions:
        verbs.setdefault((group, plural), set()).update(some)
    return tuple(
        (group, plural, tuple(sorted(joined))) for (group, plural), joined in sorted(verbs.items())
    )

"""The kinds of a tenant: how each is served, and what is wrong with those that cannot be read."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace

from apis.tenancy import Tenant
from ctrlruntime.api.kinds import GroupKind, GroupVersionKind, RESTMapping
from internal.tenancy.builder import Build
from internal.tenancy.children import ChildKinds
from internal.tenancy.labels import KINDS, kinds_of, parse_kinds
from internal.tenancy.privileges import Privileges
from internal.tenancy.removal_view import applied_kinds


async def mappings_of(
    tenant: Tenant,
    annotations: Mapping[str, str],
    user: Hashable,
    children: ChildKinds,
    privileges: Privileges,
) -> dict[GroupVersionKind, RESTMapping | None]:
    """Return how the kinds of a tenant are served, each watched for `user` and its first list here."""
    applied = applied_kinds(tenant.status)
    kinds = frozenset(
        gvk
        for gvk in kinds_of(tenant) | parse_kinds(annotations.get(KINDS, ""))
        if privileges.allows(gvk.group_kind) or gvk.group_kind in applied
    )
    children.use(user, kinds)
    await children.release_unused()
    return {gvk: await _mapping(gvk, user, applied, children, privileges) for gvk in sorted(kinds)}


async def _mapping(
    gvk: GroupVersionKind,
    user: Hashable,
    applied: frozenset[GroupKind],
    children: ChildKinds,
    privileges: Privileges,
) -> RESTMapping | None:
    """A kind that is refused for its scope is not watched: nothing of it will be written."""
    served = await children.served(gvk, user)
    if served is None:
        return None
    allowed = privileges.allows(gvk.group_kind, namespaced=served.namespaced)
    if not allowed and gvk.group_kind not in applied:
        return served
    return await children.mapping(gvk, user)


def explained(made: Build, children: ChildKinds) -> Build:
    """Return the build with the cause for each kind that is served and cannot be read."""
    items = [
        replace(item, problem=trouble.message, grant=trouble.grant)
        if item.missing_kind is not None
        and (trouble := children.trouble(item.missing_kind)) is not None
        else item
        for item in made.resources
    ]
    return Build(tuple(items), made.graph)

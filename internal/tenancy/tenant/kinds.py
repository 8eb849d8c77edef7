"""The kinds of a tenant: how each is served, and what is wrong with those that cannot be read."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace

from apis.tenancy import Tenant
from ctrlruntime.api.kinds import GroupKind, GroupVersionKind, RESTMapping
from ctrlruntime.client.errors import TransportError
from ctrlruntime.resources import ObjectKey
from internal.tenancy.objects.builder import Build, BuiltResource
from internal.tenancy.objects.children import ChildKinds, Trouble
from internal.tenancy.objects.target_clusters import KindMappings, TargetCluster, TargetClusters
from internal.tenancy.shared.labels import KINDS, kinds_of, manifests_of, parse_kinds
from internal.tenancy.shared.naming import LOCAL
from internal.tenancy.shared.privileges import Privileges
from internal.tenancy.tenant.removal_view import applied_keys, applied_kinds


@dataclass(frozen=True, slots=True)
class TenantKinds:
    """The kinds that tenants may have objects of: where they are served, and whether they can be read."""

    targets: TargetClusters
    privileges: Privileges

    async def mappings(
        self, tenant: Tenant, annotations: Mapping[str, str], user: Hashable
    ) -> KindMappings:
        """Return how the kinds of a tenant are served in each cluster that may have its objects, each watched for `user` and its first list here."""
        privileges = self.privileges
        named = kinds_of(tenant) | parse_kinds(annotations.get(KINDS, ""))
        possible = self.targets.possible({gvk.group_kind for gvk in named}, manifests_of(tenant))
        found: dict[str, dict[GroupVersionKind, RESTMapping | None]] = {}
        for target in self.targets:
            applied = applied_kinds(tenant.status, target.name)
            kinds = frozenset(
                gvk
                for gvk in named
                if gvk.group_kind in applied
                or (target.name in possible[gvk.group_kind] and privileges.allows(gvk.group_kind))
            )
            target.kinds.use(user, kinds)
            await target.kinds.release_unused()
            found[target.name] = {
                gvk: await _mapping_in(target, gvk, user, applied, privileges)
                for gvk in sorted(kinds)
            }
        return found

    def lag(self, mappings: KindMappings) -> bool:
        """Whether a kind is missing that discovery may not show yet."""
        local = self.targets.local
        return None in mappings[local.name].values() and local.kinds.discovery_lags()

    def troubles(self, tenant: Tenant) -> list[Trouble]:
        """Return why kinds that something was applied of cannot be read: what is left of it is not known."""
        applied = applied_kinds(tenant.status)
        kinds = self.targets.local.kinds.unreadable()
        return [trouble for gvk, trouble in kinds.items() if gvk.group_kind in applied]

    def forget(self, user: Hashable) -> None:
        """Forget a tenant that is gone: it needs no kind any more."""
        for target in self.targets:
            target.kinds.leave(user)


async def _mapping_in(
    target: TargetCluster,
    gvk: GroupVersionKind,
    user: Hashable,
    applied: frozenset[GroupKind],
    privileges: Privileges,
) -> RESTMapping | None:
    """Return a kind in one cluster.

    In another than the tenant's, one that cannot be read is rendered all the same: only what needs it waits.
    """
    if target.is_local:
        return await _mapping(gvk, user, applied, target.kinds, privileges)
    try:
        found = await _mapping(gvk, user, applied, target.kinds, privileges)
        return found or await target.kinds.served(gvk, user)
    except TransportError:
        return None


async def _mapping(
    gvk: GroupVersionKind,
    user: Hashable,
    applied: frozenset[GroupKind],
    children: ChildKinds,
    privileges: Privileges,
) -> RESTMapping | None:
    """Return whether a kind is watched: one that is refused for its scope is not, since nothing of it will be written."""
    usable = children.usable(gvk)
    if usable is not None and (
        gvk.group_kind in applied or privileges.allows(gvk.group_kind, namespaced=usable.namespaced)
    ):
        return usable
    served = await children.served(gvk, user)
    if served is None:
        return None
    allowed = privileges.allows(gvk.group_kind, namespaced=served.namespaced)
    if not allowed and gvk.group_kind not in applied:
        return served
    return await children.mapping(gvk, user)


def explained(made: Build, targets: TargetClusters) -> Build:
    """Return the build with the cause for each kind that is served and cannot be read."""
    items = [
        replace(item, problem=trouble.message, grant=trouble.grant)
        if item.missing_kind is not None
        and (trouble := targets.local.kinds.trouble(item.missing_kind)) is not None
        else item
        for item in made.resources
    ]
    return Build(tuple(items), made.graph)


def unreadable(targets: TargetClusters) -> dict[tuple[str, GroupKind], str]:
    """Return the kinds that cannot be read, by cluster, with the cause."""
    return {
        (target.name, gvk.group_kind): trouble.message
        for target in targets
        for gvk, trouble in target.kinds.unreadable().items()
    }


def placed(made: Build, tenant: Tenant, targets: TargetClusters) -> Build:
    """Return the build with the clusters that get each object.

    While a resource cannot be rendered, what it needs is unknown: objects stay where they were applied.
    """
    if targets.placement is None:
        return made
    rendered = [item.desired for item in made.resources if item.desired is not None]
    found = targets.placement.clusters_of(rendered)
    doubts = targets.placement.doubts(rendered)
    applied: dict[tuple[object, ...], list[str]] = {}
    if len(rendered) < len(made.resources):
        for key in applied_keys(tenant.status):
            if key.cluster != LOCAL or LOCAL in targets.possible([key.kind])[key.kind]:
                applied.setdefault((key.kind, key.namespace, key.name), []).append(key.cluster)
    return Build(
        tuple(_placed(item, found, doubts, applied) for item in made.resources), made.graph
    )


def _placed(
    item: BuiltResource,
    found: Mapping[ObjectKey, tuple[str, ...]],
    doubts: Mapping[ObjectKey, str],
    applied: Mapping[tuple[object, ...], list[str]],
) -> BuiltResource:
    if item.desired is None or item.key is None:
        return item
    before = applied.get((item.key.kind, item.key.namespace, item.key.name))
    clusters = tuple(sorted(before)) if before else found[item.desired.key]
    doubt = doubts.get(item.desired.key, "")
    return replace(item, clusters=clusters, doubt=doubt, key=replace(item.key, cluster=clusters[0]))

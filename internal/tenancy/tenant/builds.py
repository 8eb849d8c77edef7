"""The desired objects of tenants, rendered once per content of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from apis.tenancy import Tenant
from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.cache.entry import Entry, Key
from ctrlruntime.memo import VersionMemo
from ctrlruntime.queue import Request
from internal.tenancy.objects.builder import Build, build
from internal.tenancy.objects.target_clusters import KindMappings, TargetClusters, any_mapping
from internal.tenancy.objects.values import SensitiveValues
from internal.tenancy.objects.variables import Variables, variables_of
from internal.tenancy.rendering import Renderer
from internal.tenancy.shared.privileges import Privileges
from internal.tenancy.tenant.kinds import explained, placed

_Version = tuple[str, int, str, frozenset[tuple[str, RESTMapping]]]
"""UID, generation, version of the sensitive values, and how the kinds are served in each cluster."""


@dataclass(slots=True)
class TenantBuilds:
    """Builds tenants' objects once, so that an event of a child renders nothing again."""

    renderer: Renderer
    values: SensitiveValues
    targets: TargetClusters
    privileges: Privileges
    _builds: VersionMemo[Key, tuple[Build, Variables]] = field(
        default_factory=lambda: VersionMemo(2000)
    )

    async def of(
        self, tenant: Tenant, entry: Entry, mappings: KindMappings
    ) -> tuple[Build, Variables]:
        """Return the desired objects and variables. Raises VariablesError and GraphError."""
        sensitive = await self.values.of(tenant)
        served = frozenset(
            (cluster, mapping)
            for cluster, kinds in mappings.items()
            for mapping in kinds.values()
            if mapping is not None
        )
        version: _Version = (entry.uid, entry.generation, self.values.version(tenant), served)
        known = self._builds.get(entry.key, version)
        if known is not None:
            return placed(known[0], tenant, self.targets), known[1]
        variables = variables_of(tenant, sensitive)
        lookup = partial(any_mapping, mappings)
        made = await build(tenant, variables, self.renderer, lookup, self.privileges)
        made = explained(made, self.targets)
        unexplained = [item for item in made.resources if item.missing_kind is not None]
        if not unexplained and not any(item.transient for item in made.resources):
            self._builds.put(entry.key, version, (made, variables))
        return placed(made, tenant, self.targets), variables

    def forget(self, request: Request) -> None:
        """Forget a tenant that is gone."""
        self._builds.forget((request.namespace, request.name))

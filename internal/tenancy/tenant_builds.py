"""The desired objects of tenants, rendered once per content of each."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from apis.tenancy import Tenant
from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.cache.entry import Entry, Key
from ctrlruntime.memo import VersionMemo
from ctrlruntime.queue import Request
from internal.tenancy.builder import Build, Variables, build, variables_of
from internal.tenancy.children import ChildKinds
from internal.tenancy.privileges import Privileges
from internal.tenancy.rendering import Renderer
from internal.tenancy.tenant_kinds import explained
from internal.tenancy.values import SensitiveValues

_Version = tuple[str, int, str, frozenset[RESTMapping]]
"""UID, generation, version of the sensitive values, and how the kinds are served."""


@dataclass(slots=True)
class TenantBuilds:
    """Builds tenants' objects once, so that an event of a child renders nothing again."""

    renderer: Renderer
    values: SensitiveValues
    children: ChildKinds
    privileges: Privileges
    _builds: VersionMemo[Key, tuple[str, Build, Variables]] = field(
        default_factory=lambda: VersionMemo(2000)
    )

    async def of(
        self, tenant: Tenant, entry: Entry, mappings: Mapping[GroupVersionKind, RESTMapping | None]
    ) -> tuple[Build, Variables]:
        """Return the desired objects and variables. Raises VariablesError and GraphError."""
        sensitive = await self.values.of(tenant)
        served = frozenset(mapping for mapping in mappings.values() if mapping is not None)
        version: _Version = (entry.uid, entry.generation, self.values.version(tenant), served)
        known = self._builds.get(entry.key, version)
        if known is not None:
            return known[1:]
        variables = variables_of(tenant, sensitive)
        made = explained(
            await build(tenant, variables, self.renderer, mappings.get, self.privileges),
            self.children,
        )
        unexplained = [item for item in made.resources if item.missing_kind is not None]
        if not unexplained and not any(item.transient for item in made.resources):
            self._builds.put(entry.key, version, (entry.uid, made, variables))
        return made, variables

    def forget(self, request: Request) -> list[Hashable]:
        """Forget a tenant that is gone. Return the UID with each resource's id."""
        known = self._builds.forget((request.namespace, request.name))
        if known is None:
            return []
        uid, made, _ = known
        return [(uid, item.resource.id) for item in made.resources]

"""What the other registries of a namespace have to do with a registry whose templates are gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from pydantic import ValidationError

from apis.tenancy import TenantRegistry
from ctrlruntime.cache.entry import Entry
from ctrlruntime.lifecycle.status import describe
from ctrlruntime.resources import OWNER, OWNER_UID, Owner
from internal.tenancy.objects.children import OWNER_INDEX
from internal.tenancy.sync.departures import Elsewhere
from internal.tenancy.sync.plan_inputs import DesiredTenant, ExistingTenant, Template

REGISTRY_INDEX = "registry"
"""Index of the template informer: `namespace/registryId`."""


class Objects(Protocol):
    """Objects of one kind as the cache has them."""

    def get(self, name: str, *, namespace: str) -> Entry | None: ...

    def list(self) -> Iterable[Entry]: ...

    def by_index(self, index: str, value: str) -> Iterable[Entry]: ...


def registry_of(entry: Entry) -> Sequence[str]:
    """Index function of templates. Raises pydantic.ValidationError for one that cannot be read.

    The index then finds it for every registry of its namespace: none may take it for gone.
    """
    spec = entry.field("spec") or {}
    return (f"{entry.namespace}/{spec.get('registryId', '')}",)


def owner_of(entry: Entry) -> Owner:
    """Return the registry as an owner of tenants."""
    return Owner.of(entry)


def taking_over(tenant: DesiredTenant, owner: Owner, existing: Entry | None) -> Owner:
    """Return the registry as an owner that may take this tenant over from the former registry of its template.

    A template names one registry, so that the tenants of its rows are that registry's.
    """
    if existing is None:
        return owner
    spec = existing.field("spec") or {}
    recorded = existing.annotations.get(OWNER, "")
    if recorded == owner.key or not recorded.startswith(f"{TenantRegistry.gvk().group_kind}/"):
        return owner
    if (spec.get("uid"), spec.get("templateRef")) != (tenant.row.uid, tenant.template.name):
        return owner
    former = frozenset(filter(None, [existing.annotations.get(OWNER_UID)]))
    return replace(owner, predecessors=former)


def read_tenants(
    entries: Iterable[Entry], read: Callable[[Entry], ExistingTenant]
) -> tuple[list[ExistingTenant], dict[str, str]]:
    """Return the tenants that can be read, and by name what is wrong with each other one, which stays as it is."""
    existing: list[ExistingTenant] = []
    unread: dict[str, str] = {}
    for entry in entries:
        try:
            existing.append(read(entry))
        except ValidationError as error:
            unread[entry.name] = describe(error)
    return existing, unread


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Looks at the other registries of a namespace."""

    registries: Objects
    templates: Objects
    tenants: Objects
    versions: Callable[[Sequence[Entry]], Mapping[str, str]]
    """Returns the revision of each readable template, by name."""
    read: Callable[[Entry, Owner], ExistingTenant]
    location: Callable[[Mapping[str, Any]], tuple[Any, ...]]
    """Returns which table a `spec.source` reads."""

    def of(
        self, entry: Entry, own: Iterable[str], existing: Iterable[ExistingTenant]
    ) -> tuple[Elsewhere, dict[str, str]]:
        """Return what matters to a registry with the templates `own`, and the registry of each moved template."""
        lost = {item.template for item in existing} - set(own)
        if not lost:
            return Elsewhere(), {}
        found = {name: self.templates.get(name, namespace=entry.namespace) for name in lost}
        moved = {
            name: str((template.field("spec") or {}).get("registryId", ""))
            for name, template in found.items()
            if template is not None and template.deletion_timestamp is None
        }
        moved = {name: registry for name, registry in moved.items() if registry != entry.name}
        templates: list[Template] = []
        tenants: list[ExistingTenant] = []
        if lost - moved.keys():
            for other in self._of_the_same_table(entry):
                templates += self._templates(other)
                tenants += self._tenants(other)
        return Elsewhere(templates=templates, tenants=tenants, moved=frozenset(moved)), moved

    def _of_the_same_table(self, entry: Entry) -> Iterable[Entry]:
        table = self._table(entry)
        for other in self.registries.list():
            same = other.namespace == entry.namespace and other.name != entry.name
            if same and other.deletion_timestamp is None and self._table(other) == table:
                yield other

    def _templates(self, registry: Entry) -> list[Template]:
        key = f"{registry.namespace}/{registry.name}"
        entries = [
            item
            for item in self.templates.by_index(REGISTRY_INDEX, key)
            if item.deletion_timestamp is None
        ]
        versions = self.versions(entries)
        return [
            Template(item.name, versions.get(item.name, ""), item.creation_timestamp)
            for item in entries
        ]

    def _tenants(self, registry: Entry) -> list[ExistingTenant]:
        owner = owner_of(registry)
        found = self.tenants.by_index(OWNER_INDEX, owner.key)
        living = [item for item in found if item.deletion_timestamp is None]
        return read_tenants(living, lambda item: self.read(item, owner))[0]

    def _table(self, registry: Entry) -> tuple[Any, ...]:
        """Which table a registry reads."""
        return self.location((registry.field("spec") or {}).get("source") or {})

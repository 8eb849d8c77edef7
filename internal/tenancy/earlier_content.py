"""Earlier content of templates, read from the tenants that still have it. Its revision proves it whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pydantic import ValidationError

from apis.tenancy import Tenant
from ctrlruntime.cache.entry import Entry
from ctrlruntime.resources import revision
from internal.tenancy.labels import kinds_of
from internal.tenancy.plan_inputs import DesiredTenant, ExistingTenant
from internal.tenancy.tenants import Blueprint

_OF_THE_ROW = frozenset(
    {"uid", "templateRef", "registryId", "templateRevision", "variables", "sensitiveVariables"}
)


def earlier_content(
    wanted: Iterable[DesiredTenant],
    existing: Iterable[ExistingTenant],
    entry_of: Callable[[str], Entry | None],
) -> dict[tuple[str, str], Blueprint]:
    """Return the content of the versions that tenants keep, by template and version.

    A version that no tenant has unchanged is left out.
    """
    missing = {(item.template.name, item.version) for item in wanted if item.version}
    found: dict[tuple[str, str], Blueprint] = {}
    for tenant in existing:
        key = (tenant.template, tenant.version)
        if key in missing and (entry := entry_of(tenant.name)) is not None:
            blueprint = _blueprint(entry, *key)
            if blueprint is not None:
                found[key] = blueprint
                missing.discard(key)
        if not missing:
            break
    return found


def _blueprint(entry: Entry, template: str, version: str) -> Blueprint | None:
    spec = entry.field("spec") or {}
    lists = {name: value for name, value in spec.items() if name not in _OF_THE_ROW}
    if revision(lists) != version:
        return None  # it was edited by hand
    try:
        kinds = kinds_of(entry.typed(Tenant))
    except ValidationError:
        return None
    return Blueprint(template, 0, lists, kinds, version)

"""Earlier content of templates, read from the tenants that still have it. Its revision proves it whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set

from pydantic import ValidationError

from apis.tenancy import Tenant
from ctrlruntime.cache.entry import Entry
from ctrlruntime.resources import revision
from internal.tenancy.shared.labels import kinds_of
from internal.tenancy.sync.plan_inputs import ExistingTenant
from internal.tenancy.sync.tenants import Blueprint

_OF_THE_ROW = frozenset(
    {"uid", "templateRef", "registryId", "templateRevision", "variables", "sensitiveVariables"}
)


def earlier_content(
    template: str,
    versions: Set[str],
    existing: Iterable[ExistingTenant],
    entry_of: Callable[[str], Entry | None],
) -> dict[str, Blueprint]:
    """Return the content of versions of a template. One that no tenant has unchanged is left out."""
    missing = set(versions)
    found: dict[str, Blueprint] = {}
    for tenant in existing:
        if not missing:
            break
        if tenant.template != template or tenant.version not in missing:
            continue
        entry = entry_of(tenant.name)
        blueprint = None if entry is None else _blueprint(entry, template, tenant.version)
        if blueprint is not None:
            found[tenant.version] = blueprint
            missing.discard(tenant.version)
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

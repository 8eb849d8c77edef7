"""Mappings and templates beside the columns that a registry's table has, as its status lists them. Pure.

Names are compared without case: not every database distinguishes them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from apis.tenancy import TenantRegistry
from internal.tenancy.shared.similar_names import similar_name

__all__ = ["columns_hint", "unknown_columns"]

MOST_NAMED: Final = 8
"""Columns that a message names."""


def columns_hint(variables: Iterable[str], registry: TenantRegistry) -> str:
    """Return what completes a warning of variables that nothing is mapped to; empty if the columns are unknown."""
    columns = registry.status.columns
    if not columns or registry.status.observed_generation != registry.metadata.generation:
        return ""
    there = {each.casefold(): each for each in columns}
    same = sorted(there[each.casefold()] for each in variables if each.casefold() in there)
    if same:
        return f"; the table has the column {', '.join(same)}"
    return f"; {_listed(columns)}"


def unknown_columns(registry: TenantRegistry, columns: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each mapped column that the table does not have; none if its columns are unknown."""
    if not columns:
        return
    there = {each.casefold() for each in columns}
    for place, column in _mapped(registry):
        if column.casefold() not in there:
            near = similar_name(column, columns)
            meant = f" (did you mean {near}?)" if near else ""
            yield f"spec.{place}: the table has no column {column}{meant}; {_listed(columns)}"


def _mapped(registry: TenantRegistry) -> Iterator[tuple[str, str]]:
    """Yield each mapping's field and column."""
    mappings = registry.spec.value_mappings
    yield "valueMappings.uid", mappings.uid
    yield "valueMappings.activate", mappings.activate
    if mappings.host_or_url:
        yield "valueMappings.hostOrUrl", mappings.host_or_url
    for name, mapping in sorted(registry.spec.extra_columns().items()):
        yield f"extraValueMappings.{name}", mapping.column


def _listed(columns: Collection[str]) -> str:
    names = sorted(columns)
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"it has {', '.join(names[:MOST_NAMED])}{more}"

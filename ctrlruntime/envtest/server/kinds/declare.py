"""How a built-in kind is declared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypedDict, Unpack

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.checking import Rules
from ctrlruntime.envtest.server.defaulting import Defaults
from ctrlruntime.envtest.server.kinds.builtin import Builtin, Hook, UpdateCheck, Warnings
from ctrlruntime.envtest.server.kinds.kind import DEFAULT_FIELDS, Kind, NameRule, ScalePaths
from ctrlruntime.envtest.server.printers import column

_OF_BUILTIN = frozenset(Builtin.__dataclass_fields__)


class MoreOfKind(TypedDict, total=False):
    """Fields of `Builtin` and of `Kind`."""

    defaults: Defaults
    status: Mapping[str, Any] | None
    rules: Rules
    updates: tuple[UpdateCheck, ...]
    deprecated: str
    warnings: Warnings
    printer: column.Printer
    before_tracking: Hook
    admit: Hook
    before_create: Hook
    before_update: Callable[[Manifest, Manifest, str], None]
    after_tracking: Callable[[Manifest, Manifest], None] | None
    versions: tuple[str, ...]
    storage_version: str
    namespaced: bool
    categories: tuple[str, ...]
    verbs: tuple[str, ...]
    subresources: tuple[str, ...]
    scale: ScalePaths | None
    generation: bool
    create_on_update: bool
    unconditional_update: bool
    name_rule: NameRule
    create_only: bool


def builtin_kind(
    group: str,
    kind: str,
    plural: str,
    short: str = "",
    *,
    more_fields: tuple[str, ...] = (),
    spec_defaults: Defaults | None = None,
    spec_rules: Rules | None = None,
    columns: str = "",
    cells: Callable[[Manifest, datetime], column.Cells] | None = None,
    **more: Unpack[MoreOfKind],
) -> Kind:
    """Return a kind of upstream's.

    `short` are its short names, `more_fields` those of field selectors, `columns` and `cells` its
    table. Further arguments are those of `Builtin` and of `Kind`.
    """
    given: dict[str, Any] = {**more}
    own = {name: given.pop(name) for name in _OF_BUILTIN & given.keys()}
    if spec_defaults is not None:
        own["defaults"] = Defaults(within={"spec": spec_defaults})
    if spec_rules is not None:
        own["rules"] = Rules(within={"spec": spec_rules})
    if cells is not None:
        own["printer"] = column.Printer(column.columns(columns), cells)
    common = DEFAULT_FIELDS if given.get("namespaced", True) else ("metadata.name",)
    return Kind(
        group=group,
        kind=kind,
        plural=plural,
        short_names=tuple(short.split()),
        fields=(*common, *more_fields),
        builtin=Builtin(**own),
        **given,
    )

"""Objects that would go because the values of rows changed: found before the rows are written to the tenants.

`when`, `forEach`, names and namespaces decide which objects a tenant has. Changed rows are rendered with the
content that their tenants have, so that a change of the template does not count here; that has a rollout.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import ValidationError

from apis.fleet.labels import PLANE
from apis.tenancy import DeletionPolicy, Tenant, TResource, resource_lists
from ctrlruntime.cache.entry import Entry
from ctrlruntime.gate import Cause
from internal.tenancy.objects.expansion import expand, render_exactly, render_shown
from internal.tenancy.objects.variables import Variables
from internal.tenancy.rendering import Renderer, RenderError
from internal.tenancy.shared.naming import ResourceKey, entry_id
from internal.tenancy.sync.deletion_guard import Guard, GuardReason, Held, removal
from internal.tenancy.sync.plan import Plan, Update, UpdateReason, ValueRemoval
from internal.tenancy.sync.removal_window import RecentRemovals
from internal.tenancy.tenant.removal_view import applied_keys

YIELD_EVERY: Final = 20
"""Tenants rendered before other tasks get a turn."""
_ALL: Final = re.compile(r"""(?<![\w)\]"'`$])\.(?!\w)|\$(?![\w.])""")
"""A dot or `$` that stands for all variables, as in `toJson .`: then no name shows what is read."""


@dataclass(frozen=True, slots=True)
class ValueRemovals:
    """Finds the objects that changed rows would remove, and holds those changes beyond the guard."""

    renderer: Renderer

    async def guarded(self, made: Plan, guard: Guard, tenants: Mapping[str, Entry]) -> Plan:
        """Return the plan without the changes of rows that would remove more than the guard allows.

        `tenants` are those of the registry, by name.
        """
        found: list[ValueRemoval] = []
        for count, update in enumerate(made.updates, 1):
            if UpdateReason.DATA in update.reasons:
                found += await self._of(update, tenants.get(update.tenant.name))
            if count % YIELD_EVERY == 0:
                await asyncio.sleep(0)
        if not found:
            return made
        going = {item.uid for item in made.deletes} | {item.uid for item in made.replaced}
        uids, having = await _having(tenants.values())
        before = guard.recent | guard.recent_values | RecentRemovals(frozenset(going - {""}))
        budget = _Budget(guard, having, before, uids)
        held, kept, approved = _held(found, budget, tenants)
        return replace(
            made,
            updates=tuple(item for item in made.updates if item.tenant.name not in kept),
            value_removals=tuple(
                replace(item, counted=item.name not in guard.released | approved)
                for item in found
                if item.name not in kept
            ),
            held=made.held or held,
            override_used=made.override_used or bool(approved),
        )

    async def _of(self, update: Update, entry: Entry | None) -> list[ValueRemoval]:
        """Return what a changed row removes of its tenant, if anything."""
        if entry is None:
            return []
        try:
            tenant = entry.typed(Tenant)
        except ValidationError:
            return []
        before, after = tenant.spec.variables, update.tenant.row.variables
        changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
        there = _by_entry(applied_keys(tenant.status))
        renderer = self.renderer.for_namespace(entry.namespace)
        lost = {
            item.id
            for _, item in resource_lists(tenant.spec)
            if item.deletion_policy is not DeletionPolicy.RETAIN
            and _reads(item, changed)
            and await _loses(
                item,
                there.get(item.id, ()),
                _variables(tenant, before),
                _variables(tenant, after),
                renderer,
            )
        }
        if not lost:
            return []
        return [
            ValueRemoval(entry.name, tenant.spec.uid, tenant.spec.template_ref, frozenset(lost))
        ]


async def _loses(
    item: TResource,
    there: Sequence[ResourceKey],
    before: Variables,
    after: Variables,
    renderer: Renderer,
) -> bool:
    """Whether an object of an entry has no resource any more. What cannot be rendered keeps its objects.

    `there`: what the status lists. What it had by the values of before counts as well: the status may be wiped, or an
    older one, and objects go by what they record themselves.
    """
    wanted = await _places(item, after, renderer)
    if wanted is None:
        return False
    names = {place[:2] for place in wanted}
    listed = any(
        (key.namespace, key.name) not in names and ("", key.name) not in names for key in there
    )
    return listed or bool((await _places(item, before, renderer) or set()) - wanted)


async def _places(
    item: TResource, variables: Variables, renderer: Renderer
) -> set[tuple[str, str, str]] | None:
    """Return namespaces, names and servers of an entry's objects; None if they cannot be rendered."""
    places: set[tuple[str, str, str]] = set()
    try:
        for each in await expand(item, variables, renderer):
            place = _place(each.resource)
            plane = await _plane(place["metadata"].pop(PLANE, ""), each.variables, renderer)
            metadata = (await render_exactly(place, each.variables, renderer))["metadata"]
            places.add((str(metadata.get("namespace") or ""), str(metadata.get("name")), plane))
    except RenderError:
        return None
    return places


async def _plane(template: object, variables: Variables, renderer: Renderer) -> str:
    """Return the server that an annotation names. It is content: what cannot be shown of it decides on no object."""
    try:
        shown = await render_shown({"metadata": {PLANE: template}}, variables, renderer, [])
    except RenderError:
        return ""
    return str(shown["metadata"][PLANE] or "")


@dataclass(frozen=True, slots=True)
class _Budget:
    """How many rows may lose objects: of those that have objects of an entry, and of all.

    `before`: the rows that lost objects within the window by any cause, and those whose tenants go by the same plan;
    `uids`: those that have tenants now.
    """

    guard: Guard
    having: Mapping[tuple[str, str], int]
    before: RecentRemovals
    uids: Set[str]

    def of_entry(self, entry: tuple[str, str], rows: int) -> Held | None:
        """Return what is held if so many rows lose objects of an entry of a template; None if they may."""
        recent, (template, name) = self.guard.recent_values, entry
        of_tenants = max(self.having[entry], rows)
        of_rows, resource = of_tenants + recent.rows, f"{name!r} of template {template!r}"
        return self._held(rows, of_rows, of_tenants, recent, resource)

    def of_all(self, uids: Set[str], resource: str) -> Held | None:
        """Return what is held if the rows lose objects; None if they may."""
        rows, of_rows = len(uids - self.before.uids), self.guard.members(self.uids)
        return self._held(rows, of_rows, len(self.uids), self.before, resource)

    def _held(
        self, rows: int, of_rows: int, of_tenants: int, before: RecentRemovals, resource: str
    ) -> Held | None:
        allowed = self.guard.allowed(of_rows)
        if not rows or before.leaves_room(rows, allowed=allowed, of_rows=of_rows):
            return None
        return Held(
            reason=GuardReason.TOO_MANY_DELETIONS,
            tenants=0,
            of_tenants=of_tenants,
            rows=rows,
            of_rows=of_rows,
            allowed_rows=allowed,
            recent_rows=before.rows,
            unknown=before.unknown,
            again=None if before.since is None else before.since + self.guard.window,
            resource=resource,
        )


def _held(
    found: Sequence[ValueRemoval], budget: _Budget, tenants: Mapping[str, Entry]
) -> tuple[Held | None, frozenset[str], frozenset[str]]:
    """Return what the guard holds, the names of those tenants, and the names that an approval lets go.

    Each entry of a template is judged by itself: the rows that would lose objects of it against the rows that have some.
    Then all are judged with the rows that went: a bad UPDATE may take rows, and objects of several entries.
    """
    guard = budget.guard
    asked = [item for item in found if item.name not in guard.released]
    fresh = [item for item in asked if item.uid not in guard.recent_values.uids]
    worst: Held | None = None
    over: set[tuple[str, str]] = set()
    losing = Counter((item.template, each) for item in fresh for each in item.entries)
    for entry, rows in sorted(losing.items()):
        held = budget.of_entry(entry, rows)
        if held is not None:
            over.add(entry)
            worst = held if worst is None or rows > worst.rows else worst
    kept = frozenset(
        item.name for item in fresh if over & {(item.template, each) for each in item.entries}
    )
    passing = {item.uid for item in fresh if item.name not in kept}
    if (held := budget.of_all(passing, f"objects of {len(losing)} resources")) is not None:
        kept = frozenset(item.name for item in fresh)
        worst = worst or held
    if worst is None:
        return None, frozenset(), frozenset()
    losers = [item for item in fresh if item.name in kept]
    removals = [
        removal(f"{item.name}/{entry}", tenants[item.name].uid, Cause.ROW_VALUES)
        for item in losers
        for entry in item.entries
    ]
    shown = (f"{item.name} ({', '.join(sorted(item.entries))})" for item in losers)
    held = replace(worst, tenants=len(kept)).of(removals, shown, guard)
    if held.is_approved(guard):
        return None, frozenset(), kept
    return held, kept, frozenset()


async def _having(tenants: Iterable[Entry]) -> tuple[set[str], Counter[tuple[str, str]]]:
    """Return the uids of the tenants, and how many have objects of each entry of each template."""
    uids: set[str] = set()
    found: Counter[tuple[str, str]] = Counter()
    for count, entry in enumerate(tenants, 1):
        if count % YIELD_EVERY == 0:
            await asyncio.sleep(0)
        spec, status = entry.field("spec") or {}, entry.field("status") or {}
        uids.add(str(spec.get("uid", "")))
        template = str(spec.get("templateRef", ""))
        ids = {text.partition("@")[2] for text in status.get("appliedResources") or ()}
        found.update({(template, entry_id(each)) for each in ids})
    return uids, found


def _by_entry(keys: Iterable[ResourceKey]) -> dict[str, list[ResourceKey]]:
    found: dict[str, list[ResourceKey]] = {}
    for key in keys:
        found.setdefault(entry_id(key.id), []).append(key)
    return found


def _variables(tenant: Tenant, values: Mapping[str, str]) -> Variables:
    """Return the variables of a tenant with the values of a row; sensitive ones decide on no object."""
    spec, registry = tenant.spec, tenant.spec.registry_id or ""
    named = spec.sensitive_variables.names if spec.sensitive_variables else []
    own = {
        "uid": spec.uid,
        "registryId": registry,
        "hubId": registry,
        "templateRef": spec.template_ref,
    }
    return Variables({**values, **own}, frozenset((*named, *spec.generate)))


def _place(item: TResource) -> dict[str, Any]:
    """Return the key of the object that a resource stands for, and the server that it goes to."""
    metadata = _mapping(item.spec.get("metadata"))
    annotations = {**_mapping(metadata.get("annotations")), **item.annotations_template}
    place = {
        "name": item.name_template or metadata.get("name"),
        "namespace": item.target_namespace or metadata.get("namespace"),
        PLANE: annotations.get(PLANE),
    }
    return {"metadata": {key: text for key, text in place.items() if text}}


def _mapping(part: object) -> Mapping[str, Any]:
    """Return a part of a manifest that people may have edited to anything."""
    return part if isinstance(part, Mapping) else {}


def _reads(item: TResource, changed: Iterable[str]) -> bool:
    """Whether what decides on the objects of an entry may read a changed variable."""
    parts = [item.when, *_place(item)["metadata"].values()]
    parts += [] if item.for_each is None else [item.for_each.items]
    text = " ".join(str(part) for part in parts if part)
    return bool(_ALL.search(text)) or any(name in text for name in changed)

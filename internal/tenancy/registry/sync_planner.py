"""What a registry's sync would do, decided from the cache alone.

The reconciler carries the decision out, and `manager plan` prints it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from apis.tenancy import TenantRegistry, TenantTemplate
from ctrlruntime.cache.entry import Entry, Key
from ctrlruntime.controller.annotations import is_paused
from ctrlruntime.resources import Control, Definitions, Owner
from internal.removal_holds import approval_error
from internal.tenancy.objects.children import OWNER_INDEX
from internal.tenancy.objects.values import decoded
from internal.tenancy.registry.teardown import (
    is_lost,
    lost_message,
    moved_message,
    waiting_message,
)
from internal.tenancy.registry.value_removals import ValueRemovals
from internal.tenancy.rows.row import ActiveRow, Reading
from internal.tenancy.shared.policies import ALLOW_DELETE, APPROVE_DELETION
from internal.tenancy.sync.deletion_guard import Guard, GuardReason
from internal.tenancy.sync.departures import DeleteReason
from internal.tenancy.sync.neighbours import (
    REGISTRY_INDEX,
    Neighbours,
    owner_of,
    read_tenants,
)
from internal.tenancy.sync.plan import Plan, plan
from internal.tenancy.sync.plan_inputs import DesiredTenant, ExistingTenant, Template
from internal.tenancy.sync.removal_window import RecentRemovals, recent_of, recent_values_of
from internal.tenancy.sync.tenants import ExistingTenants, TenantBuilder
from internal.tenancy.template.compiled import Blueprints

BREATH = 50
"""Tenants looked at before other tasks get a turn: about 5 ms."""


class Objects(Protocol):
    """Objects of one kind as the cache has them."""

    def get(self, name: str, *, namespace: str) -> Entry | None: ...

    def list(self) -> Iterable[Entry]: ...

    def by_index(self, index: str, value: str) -> Iterable[Entry]: ...


@dataclass(slots=True)
class Sync:
    """What a sync of a registry brings about.

    `moved` are templates of its tenants that name another registry now, with that registry.
    """

    owner: Owner
    builder: TenantBuilder
    templates: Sequence[Entry]
    existing: Sequence[ExistingTenant]
    plan: Plan
    moved: Mapping[str, str] = field(default_factory=dict)

    @property
    def paused(self) -> frozenset[str]:
        """The names of the paused templates, of whose tenants nothing is changed."""
        return frozenset(item.name for item in self.templates if is_paused(item.annotations))

    @property
    def moved_troubles(self) -> list[str]:
        """Tenants of templates that name another registry now, one sentence for each template."""
        counts = Counter(item.template for item in self.existing if item.template in self.moved)
        return [moved_message(name, self.moved[name], n) for name, n in sorted(counts.items())]


@dataclass(slots=True)
class SyncPlanner:
    """Decides what the next sync of a registry does. Makes no request but for lost templates."""

    registries: Objects
    templates: Objects
    tenants: Objects
    control: Control
    blueprints: Blueprints
    definitions: Definitions
    location: Callable[[Mapping[str, Any]], tuple[Any, ...]]
    """Returns which table a `spec.source` reads."""
    clock: Callable[[], datetime]
    existing: ExistingTenants = field(default_factory=ExistingTenants)
    template_grace: timedelta = timedelta(minutes=5)
    """How long tenants stay after a template without protection, for one of its name to take them over."""
    _gone: dict[Key, dict[str, datetime]] = field(default_factory=dict)
    """Since when templates are gone, by registry."""

    async def decide(
        self,
        registry: TenantRegistry,
        entry: Entry,
        reading: Reading,
        guard: Guard,
    ) -> Sync:
        """Return what brings the registry's tenants to its rows and templates, before any staging."""
        owner = owner_of(entry)
        templates = self.templates_of(registry)
        builder = TenantBuilder(registry, self.blueprints.of(templates))
        builder.staging_rows = frozenset(
            item.name for item in templates if self.blueprints.stages_rows(item)
        )
        existing, unread = await self._existing(builder, owner, reading)
        guard = replace(guard, long_gone=self._long_gone(entry, templates, existing))
        elsewhere, moved = self._neighbours().of(entry, [item.name for item in templates], existing)
        made = await asyncio.to_thread(  # pure, and long for many thousands of rows
            plan,
            reading,
            [
                Template(item.name, builder.version(item.name), item.creation_timestamp)
                for item in templates
            ],
            existing,
            guard,
            elsewhere,
        )
        made = _without_unread(made, unread)
        found = self.tenants.by_index(OWNER_INDEX, owner.key)
        tenants = {item.name: item for item in found if item.name not in unread}
        made = await ValueRemovals(self.blueprints.renderer).guarded(made, guard, tenants)
        return Sync(owner, builder, templates, existing, made, moved)

    def templates_of(self, registry: TenantRegistry) -> list[Entry]:
        """Return the templates of a registry but for those that are being deleted."""
        key = f"{registry.metadata.namespace}/{registry.metadata.name}"
        entries = self.templates.by_index(REGISTRY_INDEX, key)
        return [entry for entry in entries if entry.deletion_timestamp is None]

    def guard(
        self,
        registry: TenantRegistry,
        entry: Entry,
        released: frozenset[str] = frozenset(),
        on_invalid: Callable[[str], None] = lambda _message: None,
    ) -> Guard:
        """Return the guard of a registry. `on_invalid` gets what is wrong with its annotation."""
        settings = registry.spec.deletion_guard
        approval = entry.annotations.get(ALLOW_DELETE)
        if wrong := approval_error(approval):
            on_invalid(wrong)
        return Guard(
            percent=settings.max_delete_percent,
            rows=settings.always_allowed_rows,
            window=settings.period,
            recent=self.recent(registry),
            recent_values=recent_values_of(registry, self.clock()),
            allow_empty=settings.allow_empty,
            allow_delete=approval,
            registry=f"{entry.name} -n {entry.namespace}",
            released=released,
            templates_approved=entry.annotations.get(APPROVE_DELETION) == "true",
            used=registry.status.used_approvals,
        )

    def grace_ends(self, registry: Key) -> datetime | None:
        """Return when the grace of the first template that is gone ends; None if none is in its grace."""
        now = self.clock()
        ends = [since + self.template_grace for since in self._gone.get(registry, {}).values()]
        return min((each for each in ends if each > now), default=None)

    def _long_gone(
        self, entry: Entry, templates: Sequence[Entry], existing: Sequence[ExistingTenant]
    ) -> frozenset[str]:
        """Return the templates that are gone for longer than the grace, by the memory of this process."""
        now, before = self.clock(), self._gone.pop(entry.key, {})
        missing = {item.template for item in existing} - {item.name for item in templates}
        if not missing:
            return frozenset()
        found = self._gone[entry.key] = {name: before.get(name, now) for name in missing}
        return frozenset(name for name in missing if now - found[name] >= self.template_grace)

    def recent(self, registry: TenantRegistry) -> RecentRemovals:
        """Return the rows that the registry removed within the window of its guard."""
        return recent_of(registry, self.clock())

    def without_paused(
        self, made: Plan, paused: frozenset[str], namespace: str
    ) -> tuple[Plan, list[str]]:
        """Return the plan without what concerns tenants of paused templates, and what waits for them."""

        def template_of(name: str) -> str:
            entry = self.tenants.get(name, namespace=namespace)
            return "" if entry is None else str((entry.field("spec") or {}).get("templateRef", ""))

        allowed = replace(
            made,
            creates=tuple(item for item in made.creates if item.template.name not in paused),
            updates=tuple(item for item in made.updates if item.tenant.template.name not in paused),
            deletes=tuple(item for item in made.deletes if template_of(item.name) not in paused),
            replacements=tuple(
                item for item in made.replacements if template_of(item.tenant) not in paused
            ),
            moves=tuple(item for item in made.moves if template_of(item.tenant) not in paused),
        )
        waiting = Counter(item.template.name for item in made.creates)
        waiting.update(item.tenant.template.name for item in made.updates)
        waiting.update(template_of(item.name) for item in made.deletes)
        return allowed, [
            f"template {name!r} is paused: {waiting[name]} changes wait"
            for name in sorted(paused)
            if waiting[name]
        ]

    async def without_lost_templates(self, made: Plan, entry: Entry) -> tuple[Plan, list[str]]:
        """Return the plan without tenants whose template may have gone with its CRD, and why they stay."""
        by_template = [
            name
            for name, reason in (
                *((item.name, item.reason) for item in made.deletes),
                *((item.tenant, item.reason) for item in made.replacements),
            )
            if reason is DeleteReason.TEMPLATE_GONE
        ]
        by_template += made.without_template
        if not by_template or entry.annotations.get(APPROVE_DELETION) == "true":
            return made, []
        definition = await self.definitions.of(TenantTemplate.mapping())
        found = {name: self.tenants.get(name, namespace=entry.namespace) for name in by_template}
        lost = {
            name: tenant
            for name, tenant in found.items()
            if tenant is not None and is_lost(definition, tenant.creation_timestamp)
        }
        if not lost:
            return made, []
        names = Counter(
            str((item.field("spec") or {}).get("templateRef", "")) for item in lost.values()
        )
        deletes = tuple(item for item in made.deletes if item.name not in lost)
        replacements = tuple(item for item in made.replacements if item.tenant not in lost)
        held = made.held
        if held is not None and held.reason is GuardReason.TEMPLATE_GONE:
            held = held if set(made.without_template) - lost.keys() else None
        return replace(made, deletes=deletes, replacements=replacements, held=held), [
            lost_message(name, count) for name, count in sorted(names.items())
        ]

    def waiting(self, made: Plan, namespace: str) -> list[str]:
        """Tenants that cannot be created while a former one of the name is still there."""
        found = {
            item.name: self.tenants.get(item.name, namespace=namespace) for item in made.waiting
        }
        held = {name: waiting_message(item) for name, item in found.items() if item is not None}
        return [
            f"tenant {name!r} waits for the former one, which is being deleted: {why}"
            for name, why in sorted(held.items())
            if why
        ]

    async def _existing(
        self, builder: TenantBuilder, owner: Owner, reading: Reading
    ) -> tuple[list[ExistingTenant], dict[str, str]]:
        rows = {row.uid: row for row in reading.active}
        existing: list[ExistingTenant] = []
        unread: dict[str, str] = {}
        entries = list(self.tenants.by_index(OWNER_INDEX, owner.key))
        for start in range(0, len(entries), BREATH):
            some = entries[start : start + BREATH]
            found, wrong = read_tenants(some, lambda item: self.existing.of(item, owner))
            existing += (self._with_secret(each, builder, rows, owner) for each in found)
            unread |= wrong
            await asyncio.sleep(0)
        return existing, unread

    def _with_secret(
        self,
        tenant: ExistingTenant,
        builder: TenantBuilder,
        rows: Mapping[str, ActiveRow],
        owner: Owner,
    ) -> ExistingTenant:
        """Return the tenant with its row's sensitive values, if its Secret holds just these."""
        row = rows.get(tenant.uid)
        if row is None or tenant.template not in builder.blueprints:
            return tenant
        if not row.sensitive and not (tenant.admitted and tenant.admitted.sensitive):
            return tenant
        if not self._is_pending(tenant, builder, row, owner):
            return self._holding(tenant, builder, row.sensitive)
        if tenant.template not in builder.staging_rows:
            return tenant
        return self._before_turn(tenant, builder, row, owner)

    def _before_turn(
        self, tenant: ExistingTenant, builder: TenantBuilder, row: ActiveRow, owner: Owner
    ) -> ExistingTenant:
        """Return a tenant whose row may have to wait, with what its Secret was written with: it is lost, edited, or of before."""
        key = (builder.namespace, tenant.name)
        labels = builder.labels(DesiredTenant(tenant.name, Template(tenant.template, ""), row))
        entry = self.control.look(builder.secret(tenant.name, labels, row))
        if entry is None and tenant.admitted is not None and not tenant.admitted.sensitive:
            return replace(tenant, sensitive={})  # it had none
        known = self.existing.held_values.get(key)
        if entry is not None:
            # The cache may hold no data: what it was written with is recognised by its revision.
            for values in (known, decoded(entry.field("data"))):
                there = None if values is None else replace(row, sensitive=values)
                if there is not None and not self._is_pending(tenant, builder, there, owner):
                    return self._holding(tenant, builder, there.sensitive)
        return tenant if known is None else replace(tenant, sensitive=known, intact=False)

    def _is_pending(
        self, tenant: ExistingTenant, builder: TenantBuilder, row: ActiveRow, owner: Owner
    ) -> bool:
        """Whether the Secret is not as it is written with the sensitive values of a row."""
        desired = DesiredTenant(tenant.name, Template(tenant.template, ""), row)
        secret = builder.secret(tenant.name, builder.labels(desired), row)
        return self.control.pending(secret, owner)

    def _holding(
        self, tenant: ExistingTenant, builder: TenantBuilder, values: Mapping[str, str]
    ) -> ExistingTenant:
        """Return a tenant with the values that its Secret holds, which are remembered where it may have to wait."""
        if tenant.template in builder.staging_rows:
            self.existing.held_values[builder.namespace, tenant.name] = values
        return replace(tenant, sensitive=values)

    def _neighbours(self) -> Neighbours:
        return Neighbours(
            registries=self.registries,
            templates=self.templates,
            tenants=self.tenants,
            versions=lambda templates: {
                name: item.revision for name, item in self.blueprints.of(templates).items()
            },
            read=self.existing.of,
            location=self.location,
        )


def _without_unread(made: Plan, unread: Mapping[str, str]) -> Plan:
    """Return a plan that leaves tenants that cannot be read as they are: none is missing, and none is surplus."""
    if not unread:
        return made
    return replace(
        made,
        creates=tuple(item for item in made.creates if item.name not in unread),
        problems=(
            *made.problems,
            *(f"tenant {name!r} stays as it is: {why}" for name, why in sorted(unread.items())),
        ),
    )

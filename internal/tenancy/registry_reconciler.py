"""Reconciles one TenantRegistry: query, plan, tenants, status."""

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from pydantic import ValidationError

from apis.tenancy import Tenant, TenantRegistry
from ctrlruntime.cache.entry import Entry
from ctrlruntime.cache.store import Store
from ctrlruntime.client.errors import APIError
from ctrlruntime.controller.directives import is_paused, requested
from ctrlruntime.controller.reconcile import Result, current
from ctrlruntime.events import EventRecorder
from ctrlruntime.queue import Request
from ctrlruntime.resources import Action, Control, Desired, Owner, Standing
from internal.tenancy.blueprints import Blueprints
from internal.tenancy.children import OWNER_INDEX, ChildKinds
from internal.tenancy.live import LiveObjects
from internal.tenancy.marks import FINALIZER, VALUES
from internal.tenancy.metrics import TenancyMetrics
from internal.tenancy.outcome import refusal
from internal.tenancy.plan import (
    Delete,
    DesiredTenant,
    ExistingTenant,
    Guard,
    Plan,
    Template,
    parse_allow_delete,
    plan,
)
from internal.tenancy.policies import ALLOW_DELETE
from internal.tenancy.pools import Job, WorkerPools
from internal.tenancy.queries import Queries, seconds_between
from internal.tenancy.registry_status import Synced, registry_status
from internal.tenancy.rows import ActiveRow, mapping_problems
from internal.tenancy.sources import SourceError
from internal.tenancy.statuses import StatusWriter
from internal.tenancy.tally import Tally
from internal.tenancy.tenants import ExistingTenants, TenantBuilder
from internal.tenancy.values import SECRET, secret_name

FIRST_RETRY = 1.0
LAST_RETRY = 300.0
BREATH = 50
"""Tenants looked at before other tasks get a turn: about 5 ms."""


@dataclass(slots=True)
class _Registry:
    """What is remembered of one registry between passes."""

    synced: Synced = field(default_factory=Synced)
    query_due: float = 0.0
    replan: bool = True
    failures: int = 0
    retry_due: float = float("inf")
    """When to try again what could not be written."""
    refusals: int = 0
    generation: int = -1
    planned_for: tuple[int, str | None] = (-1, None)
    """Generation and word for deletions that the last plan was made with."""
    released: frozenset[str] = frozenset()
    """Tenants that a word has let go and that could not be deleted yet."""
    handled: str | None = None
    status_at: float = float("-inf")


@dataclass(slots=True)
class RegistryReconciler:
    """Keeps the tenants of a registry equal to its active rows times its templates.

    A failing query changes nothing but the Ready condition; what a plan may remove is guarded.
    """

    registries: Store
    templates: Store
    tenants: Store
    children: ChildKinds
    queries: Queries
    control: Control
    pools: WorkerPools
    blueprints: Blueprints
    statuses: StatusWriter
    live: LiveObjects
    tally: Tally
    metrics: TenancyMetrics
    recorder: EventRecorder
    clock: Callable[[], datetime]
    monotonic: Callable[[], float]
    status_period: float
    """Seconds between two writes of one status, at least."""
    existing: ExistingTenants = field(default_factory=ExistingTenants)
    _known: dict[Request, _Registry] = field(default_factory=dict)

    def replan(self, request: Request) -> None:
        """Templates or tenants changed: compare again with the last rows at the next pass."""
        self._state(request).replan = True

    def query_now(self, users: frozenset[Hashable]) -> list[Request]:
        """Credentials changed: query at the next pass. Returns the registries concerned."""
        requests = [user for user in users if isinstance(user, Request)]
        for request in requests:
            self._state(request).query_due = 0.0
        return requests

    async def reconcile(self, request: Request) -> Result | None:
        """One pass. Raises the client's errors when the server gives no usable answer."""
        entry = self.registries.get(request.namespace, request.name)
        if entry is None:
            await self._forget(request)
            return None
        if is_paused(entry.annotations):
            await self.statuses.pause(TenantRegistry.mapping(), entry)
            return None
        if entry.deletion_timestamp is not None:
            await self._tear_down(entry)
            return None
        try:
            registry = entry.typed(TenantRegistry)
        except ValidationError as error:
            await self.statuses.refuse(TenantRegistry.mapping(), entry, "Ready", error)
            return None
        if FINALIZER not in entry.finalizers:
            await self.live.add_finalizer(TenantRegistry.mapping(), entry, FINALIZER)
        state = self._state(request)
        if self._is_query_due(state, entry):
            await self._query(request, registry, entry, state)
        told = (entry.generation, entry.annotations.get(ALLOW_DELETE))
        state.replan |= state.planned_for != told or self.monotonic() >= state.retry_due
        state.planned_for = told
        if state.replan and state.synced.reading is not None:
            state.replan = False
            try:
                await self._sync(registry, entry, state)
            except BaseException:
                state.replan = True  # not carried out in full: the retry has to plan again
                raise
        return await self._report(request, registry, state)

    # -- rows ------------------------------------------------------------------------------

    def _state(self, request: Request) -> _Registry:
        return self._known.setdefault(request, _Registry())

    def _is_query_due(self, state: _Registry, entry: Entry) -> bool:
        asked = requested(entry.annotations)
        changed = state.generation != entry.generation or state.handled != asked
        return changed or self.monotonic() >= state.query_due

    async def _query(
        self, request: Request, registry: TenantRegistry, entry: Entry, state: _Registry
    ) -> None:
        state.generation, state.handled = entry.generation, requested(entry.annotations)
        period = seconds_between(registry.spec.source)
        try:
            problems = mapping_problems(registry.spec)
            if problems:
                raise MappingError("; ".join(problems))
            reading = await self.queries.run(request, registry)
        except SourceError as error:
            self._note_failure(registry, state, error)
            state.query_due = self.monotonic() + min(period, FIRST_RETRY * 2**state.failures)
            state.failures = min(state.failures + 1, 16)
            return
        state.failures = 0
        state.query_due = self.monotonic() + period
        state.replan |= state.synced.reading != reading or bool(state.synced.troubles)
        state.synced.reading, state.synced.error = reading, None

    def _note_failure(self, registry: TenantRegistry, state: _Registry, error: SourceError) -> None:
        before = next((c for c in registry.status.conditions if c.type == "Ready"), None)
        if before is None or before.reason != error.reason:
            self.recorder.event(
                registry, "Warning", "DatabaseQueryFailed", "Query", f"{error.reason}: {error}"
            )
        current().logger.warning("Query failed", reason=error.reason, message=str(error))
        state.synced.error = error

    # -- tenants -----------------------------------------------------------------------------

    async def _sync(self, registry: TenantRegistry, entry: Entry, state: _Registry) -> None:
        reading = state.synced.reading
        if reading is None:
            return
        owner = owner_of(entry)
        self.children.use(owner.key, frozenset({SECRET.gvk}))
        await self.children.mapping(SECRET.gvk, owner.key)
        templates = self._templates(registry)
        builder = TenantBuilder(registry, self.blueprints.of(templates))
        rows = {row.uid: row for row in reading.active}
        existing: list[ExistingTenant] = []
        for count, item in enumerate(self.tenants.by_index(OWNER_INDEX, owner.key), 1):
            found = self.existing.of(item, owner)
            existing.append(self._with_secret(found, builder, rows, owner))
            if count % BREATH == 0:
                await asyncio.sleep(0)
        made = await asyncio.to_thread(  # pure, and long for many thousands of rows
            plan,
            reading,
            [Template(item.name, builder.version(item.name)) for item in templates],
            existing,
            self._guard(registry, entry, state.released),
        )
        state.synced.plan, state.synced.templates = made, len(templates)
        await self._announce(registry, entry, made)
        state.released = made.released(state.released)
        invalid = await self.blueprints.invalid(templates)
        paused = frozenset(item.name for item in templates if is_paused(item.annotations))
        allowed, troubles = self._without_paused(made, paused, owner.namespace)
        troubles += [f"template {name!r} is not rolled out: {why}" for name, why in invalid.items()]
        refused = await self._carry_out(allowed, builder, owner, frozenset(invalid))
        self._note_refusals(state, refused)
        state.synced.troubles = troubles + refused
        await self._clean_secrets(owner, made)

    def _templates(self, registry: TenantRegistry) -> list[Entry]:
        key = f"{registry.metadata.namespace}/{registry.metadata.name}"
        entries = self.templates.by_index(REGISTRY_INDEX, key)
        return [entry for entry in entries if entry.deletion_timestamp is None]

    def _guard(self, registry: TenantRegistry, entry: Entry, released: frozenset[str]) -> Guard:
        settings = registry.spec.deletion_guard
        try:
            allowed = parse_allow_delete(entry.annotations.get(ALLOW_DELETE))
        except ValueError as error:
            self.recorder.event(registry, "Warning", "InvalidAnnotation", "Plan", str(error))
            allowed = None
        return Guard(
            percent=settings.max_delete_percent,
            rows=settings.always_allowed_rows,
            allow_empty=settings.allow_empty,
            allow_delete=allowed,
            released=released,
        )

    def _with_secret(
        self,
        tenant: ExistingTenant,
        builder: TenantBuilder,
        rows: Mapping[str, ActiveRow],
        owner: Owner,
    ) -> ExistingTenant:
        """The tenant with its row's sensitive values, if its Secret holds just these."""
        row = rows.get(tenant.uid)
        if row is None or not row.sensitive or tenant.template not in builder.blueprints:
            return tenant
        desired = DesiredTenant(tenant.name, Template(tenant.template, ""), row)
        secret = builder.secret(tenant.name, builder.labels(desired), row)
        if self.control.pending(secret, owner):
            return tenant
        return ExistingTenant(
            name=tenant.name,
            uid=tenant.uid,
            template=tenant.template,
            version=tenant.version,
            variables=tenant.variables,
            sensitive=row.sensitive,
            intact=tenant.intact,
            deleting=tenant.deleting,
        )

    def _note_refusals(self, state: _Registry, refused: Sequence[str]) -> None:
        """Writes that failed are tried again, less and less often, whenever the next query is."""
        state.refusals = min(state.refusals + 1, 16) if refused else 0
        delay = (
            min(LAST_RETRY, FIRST_RETRY * 2 ** (state.refusals - 1)) if refused else float("inf")
        )
        state.retry_due = self.monotonic() + delay

    def _without_paused(
        self, made: Plan, paused: frozenset[str], namespace: str
    ) -> tuple[Plan, list[str]]:
        """The plan without what concerns tenants of paused templates, and what waits for them."""

        def template_of(name: str) -> str:
            entry = self.tenants.get(namespace, name)
            return "" if entry is None else str((entry.field("spec") or {}).get("templateRef", ""))

        allowed = replace(
            made,
            creates=tuple(item for item in made.creates if item.template.name not in paused),
            updates=tuple(item for item in made.updates if item.tenant.template.name not in paused),
            deletes=tuple(item for item in made.deletes if template_of(item.name) not in paused),
        )
        waiting = Counter(item.template.name for item in made.creates)
        waiting.update(item.tenant.template.name for item in made.updates)
        waiting.update(template_of(item.name) for item in made.deletes)
        return allowed, [
            f"template {name!r} is paused: {waiting[name]} changes wait"
            for name in sorted(paused)
            if waiting[name]
        ]

    async def _carry_out(
        self, made: Plan, builder: TenantBuilder, owner: Owner, held_back: frozenset[str]
    ) -> list[str]:
        """Delete, create and update. Returns what could not be done, one sentence each."""
        kind = Tenant.gvk().group_kind
        writes = [*made.creates, *(update.tenant for update in made.updates)]
        allowed = [tenant for tenant in writes if tenant.template.name not in held_back]
        jobs = [Job(kind, partial(self._delete, item, owner)) for item in made.deletes]
        jobs += [Job(kind, partial(self._write, item, builder, owner)) for item in allowed]
        troubles: list[str] = []
        for outcome in await self.pools.run(jobs):
            if isinstance(outcome, APIError):
                troubles.append(outcome.message)
            elif isinstance(outcome, Exception):
                raise outcome
            elif outcome:
                troubles.append(outcome)
        return troubles

    async def _delete(self, delete: Delete, owner: Owner) -> str:
        entry = self.tenants.get(owner.namespace, delete.name)
        if entry is None or entry.deletion_timestamp is not None:
            return ""
        if not await self.control.delete(Tenant.mapping(), entry, owner):
            return f"tenant {delete.name!r} was not deleted: it is not the registry's"
        current().logger.info("Tenant deleted", tenant=delete.name, reason=delete.reason.value)
        return ""

    async def _write(self, tenant: DesiredTenant, builder: TenantBuilder, owner: Owner) -> str:
        if tenant.row.sensitive:
            secret = builder.secret(tenant.name, builder.labels(tenant), tenant.row)
            try:
                conflict = await self._ensure(secret, owner)
            except APIError as error:
                return f"the Secret {secret.name!r}: {refusal(error, tenant.row.sensitive)}"
            if conflict:
                return f"a Secret {secret.name!r} is in the way: {conflict}"
        before = self.tenants.get(owner.namespace, tenant.name)
        conflict = await self._ensure(builder.tenant(tenant, before), owner)
        return f"a Tenant {tenant.name!r} is in the way: {conflict}" if conflict else ""

    async def _ensure(self, desired: Desired, owner: Owner) -> str:
        """Write one object; who is in the way, if somebody is.

        Fields that others took are taken back by force. Whole objects of others are not.
        """
        entry = self.control.look(desired)
        if entry is not None:
            verdict = self.control.judge(entry, owner)
            if verdict.standing is Standing.FOREIGN:
                return f"it belongs to {verdict.holder}"
        outcome = await self.control.ensure(desired, owner)
        return outcome.conflict if outcome.action is Action.CONFLICT else ""

    async def _clean_secrets(self, owner: Owner, made: Plan) -> None:
        """Delete the Secrets of tenants that are gone, or have no sensitive variables any more."""
        wanted = {tenant.name for tenant in made.creates if tenant.row.sensitive}
        alive = {secret_name(name) for name in wanted | set(made.waiting)}
        for entry in self.tenants.by_index(OWNER_INDEX, owner.key):
            named = (entry.field("spec") or {}).get("sensitiveVariables") or {}
            alive.add(str(named.get("secretName", "")))
        for mapping, entry in self.children.owned_by(owner.key):
            if VALUES in entry.labels and entry.name not in alive:
                await self.control.delete(mapping, entry, owner)

    async def _announce(self, registry: TenantRegistry, entry: Entry, made: Plan) -> None:
        """Say what the guard holds; the word that lets deletions through counts once, so it goes first."""
        before = next((c for c in registry.status.conditions if c.type == "DeletionsHeld"), None)
        if made.held is not None and (before is None or before.status != "True"):
            self.recorder.event(
                registry, "Warning", made.held.reason.value, "Plan", made.held.message
            )
        if made.override_used:
            await self.live.remove_annotation(TenantRegistry.mapping(), entry, ALLOW_DELETE)

    # -- telling -------------------------------------------------------------------------------

    async def _report(self, request: Request, registry: TenantRegistry, state: _Registry) -> Result:
        now = self.monotonic()
        entry = self.registries.get(request.namespace, request.name)
        if entry is None:
            return Result()
        if now < state.status_at + self.status_period:
            return Result(requeue_after=state.status_at + self.status_period - now)
        counts = self.tally.counts(("registry", request.namespace, request.name))
        before = entry.typed(TenantRegistry).status
        status = registry_status(
            before,
            state.synced,
            counts,
            generation=entry.generation,
            handled=state.handled or "",
            now=self.clock(),
        )
        if await self.statuses.write(TenantRegistry.mapping(), entry, before, status):
            state.status_at = now
        self.metrics.registry(request.namespace, request.name, status)
        due = min(state.query_due, state.retry_due)
        return Result(requeue_after=max(0.05, due - self.monotonic()))

    # -- the end -------------------------------------------------------------------------------

    async def _tear_down(self, entry: Entry) -> None:
        """Delete the tenants, wait until they are gone, then let the registry go."""
        if FINALIZER not in entry.finalizers:
            return
        owner = owner_of(entry)
        tenants = self.tenants.by_index(OWNER_INDEX, owner.key)
        jobs = [
            Job(
                Tenant.gvk().group_kind, partial(self.control.delete, Tenant.mapping(), item, owner)
            )
            for item in tenants
            if item.deletion_timestamp is None
        ]
        for outcome in await self.pools.run(jobs):
            if isinstance(outcome, Exception):
                raise outcome
        if any(self.control.holds(item, owner) for item in tenants):
            return  # the last of them to go brings us back
        await self.live.remove_finalizer(TenantRegistry.mapping(), entry, FINALIZER)

    async def _forget(self, request: Request) -> None:
        if self._known.pop(request, None) is not None:
            await self.queries.forget(request)
        self.metrics.forget_registry(request.namespace, request.name)


class MappingError(SourceError):
    """The registry's mappings cannot be used."""

    reason = "InvalidMappings"


REGISTRY_INDEX = "registry"
"""Index of the template informer: `namespace/registryId`."""


def registry_of(entry: Entry) -> Sequence[str]:
    """Index function of templates."""
    spec = entry.field("spec") or {}
    return (f"{entry.namespace}/{spec.get('registryId', '')}",)


def owner_of(entry: Entry) -> Owner:
    """The registry as an owner of tenants."""
    return Owner(
        gvk=TenantRegistry.gvk(), namespace=entry.namespace, name=entry.name, uid=entry.uid
    )

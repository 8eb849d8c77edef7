"""Reconciles one Tenant: render, apply, wait, remove what is no longer wanted, report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from pydantic import ValidationError

from apis.tenancy import HookMoment, Tenant
from ctrlruntime.cache.entry import Entry, Key
from ctrlruntime.controller.annotations import is_paused
from ctrlruntime.controller.debounce import Debounce
from ctrlruntime.controller.reconcile import Result, reconcile_context
from ctrlruntime.memo import VersionMemo
from ctrlruntime.queue import Request
from ctrlruntime.queue.limiters import ItemExponential
from ctrlruntime.resources import Owner
from internal.tenancy.objects.builder import Build
from internal.tenancy.objects.generated_values import GeneratedValues
from internal.tenancy.objects.graph import GraphError
from internal.tenancy.objects.target_clusters import KindMappings
from internal.tenancy.objects.variables import Variables, VariablesError
from internal.tenancy.shared.deps import TenancyStores, Writers
from internal.tenancy.shared.labels import FINALIZER, HANDS_OVER, hands_over
from internal.tenancy.shared.missing_permissions import (
    Grant,
    Grants,
    account_of,
    impersonated,
    missing,
)
from internal.tenancy.shared.outcome import DEPENDENCY_ERROR, VARIABLES_ERROR, Failure, is_under_way
from internal.tenancy.shared.policies import OrphanReason
from internal.tenancy.shared.pools import TypeIsSlow
from internal.tenancy.shared.privileges import Privileges
from internal.tenancy.tenant.applier import Applier, ApplyResult
from internal.tenancy.tenant.awaited_namespaces import AwaitedNamespaces
from internal.tenancy.tenant.builds import TenantBuilds
from internal.tenancy.tenant.conflict_waiters import Claims
from internal.tenancy.tenant.deletion_intents import DeletionIntents
from internal.tenancy.tenant.hooks import HookResult, Hooks, Stopped, has_hooks, unreadable_hooks
from internal.tenancy.tenant.kinds import TenantKinds
from internal.tenancy.tenant.pruning_holds import PruningHolds
from internal.tenancy.tenant.removal import Removed, Remover, Scope
from internal.tenancy.tenant.removal_decisions import Intent, Wanted
from internal.tenancy.tenant.removal_view import (
    applied_keys,
    places_of,
    retained_of_before,
    wanted_by_deleted,
    wanted_by_living,
)
from internal.tenancy.tenant.replacement_marks import predecessors_of
from internal.tenancy.tenant.reports import TenantReports

FIRST_RETRY = 2.0
LAST_RETRY = 300.0
LAST_LOOKUP = 4.0
"""Seconds between two lookups of a kind whose CRD has just come back; discovery follows within seconds."""
MOST_READ = 200
"""Tenants that are kept as they were read: about as many as are under way at once."""


@dataclass(frozen=True, slots=True)
class TenantContent:
    """What a tenant is made of: its drawn values, its desired objects, its hooks."""

    generated: GeneratedValues
    builds: TenantBuilds
    hooks: Hooks
    _read: VersionMemo[Key, Tenant] = field(default_factory=lambda: VersionMemo(MOST_READ))

    def read(self, entry: Entry) -> Tenant:
        """Return a tenant; treat it as read-only. Raises pydantic.ValidationError where it cannot be read.

        A pass that an event of its objects starts finds it read already.
        """
        version = (entry.uid, entry.resource_version)
        return self._read.compute(entry.key, version, lambda: entry.typed(Tenant))

    def forget(self, request: Request) -> None:
        """Forget a tenant that is gone."""
        self._read.forget((request.namespace, request.name))
        self.builds.forget(request)


@dataclass(frozen=True, slots=True)
class ObjectChanges:
    """How the objects of a tenant are applied and removed."""

    applier: Applier
    remover: Remover
    intents: DeletionIntents
    pruning: PruningHolds


@dataclass(frozen=True, slots=True)
class TenantWaits:
    """What tenants wait for, and how long until they look again. Kept in memory."""

    claims: Claims
    grants: Grants
    debounce: Debounce
    namespaces: AwaitedNamespaces
    retries: ItemExponential = field(
        default_factory=lambda: ItemExponential(FIRST_RETRY, LAST_RETRY)
    )
    lookups: ItemExponential = field(
        default_factory=lambda: ItemExponential(FIRST_RETRY, LAST_LOOKUP)
    )
    """Delays until a kind that discovery may not show yet is looked for again."""

    def forget(self, request: Request) -> None:
        """Forget a tenant that is gone."""
        self.claims.set(request, [])
        self.retries.forget(request)
        self.lookups.forget(request)
        self.debounce.forget(request)
        self.grants.forget(request)


@dataclass(slots=True)
class TenantReconciler:
    """Reconciles a tenant's resources with its template.

    Everything is read from the cache; a tenant that is as desired costs no request.
    """

    stores: TenancyStores
    writers: Writers
    kinds: TenantKinds
    content: TenantContent
    changes: ObjectChanges
    waits: TenantWaits
    reports: TenantReports

    async def reconcile(self, request: Request) -> Result | None:
        """One pass. Raises the client's errors when the server gives no usable answer."""
        entry = self.stores.tenants.get(request.name, namespace=request.namespace)
        if entry is None:
            self.forget(request)
            return None
        if is_paused(entry.annotations):
            self.changes.pruning.record(request)
            self.waits.grants.forget(request)
            await self.writers.statuses.pause(Tenant.mapping(), entry)
            return None
        deleting = entry.deletion_timestamp is not None
        try:
            tenant = self.content.read(entry)
        except ValidationError as error:
            if not deleting:
                self.waits.grants.forget(request)
                await self.writers.statuses.refuse(Tenant.mapping(), entry, "Ready", error)
                return None
            tenant = bare(entry)
        owner = Owner.of(entry)
        if not deleting:
            owner = replace(owner, predecessors=predecessors_of(entry, self.stores.tenants))
        if deleting:
            return await self._tear_down(tenant, owner, entry, request)
        if FINALIZER not in entry.finalizers:
            await self.writers.patcher.add_finalizer(Tenant.mapping(), entry, FINALIZER)
            return None  # the answer is in the cache and brings us back
        mappings = await self.kinds.mappings(tenant, entry.annotations, request)
        if self._has_changed(entry, request):
            return await self.reconcile(request)
        return await self._reconcile_object(tenant, owner, entry, request, mappings)

    def _has_changed(self, entry: Entry, request: Request) -> bool:
        """Whether a newer state is known by now: after a wait, which may be long, nothing old is acted on."""
        return self.stores.tenants.get(request.name, namespace=request.namespace) is not entry

    async def _reconcile_object(
        self,
        tenant: Tenant,
        owner: Owner,
        entry: Entry,
        request: Request,
        mappings: KindMappings,
    ) -> Result | None:
        try:
            await self.content.generated.ensure(tenant, entry, owner.predecessors)
            made, variables = await self.content.builds.of(tenant, entry, mappings)
        except VariablesError as error:
            self.waits.grants.forget(request)
            await self.reports.refused(tenant, entry, Failure(VARIABLES_ERROR, str(error)))
            return Result(requeue_after=self.waits.retries.when(request))
        except GraphError as error:
            self.waits.grants.forget(request)
            degraded = "DependencyCycle" if error.cyclic else DEPENDENCY_ERROR
            await self.reports.refused(
                tenant, entry, Failure(DEPENDENCY_ERROR, str(error), degraded)
            )
            return None
        hooks = await self._before_create(tenant, owner, entry, mappings)
        if hooks.stopped is not None:
            return await self._stop(tenant, entry, request, hooks.stopped, hooks.completed)
        logger = reconcile_context().logger
        try:
            walked = await self.changes.applier.walk(
                tenant, owner, made, hidden=variables.hidden, logger=logger
            )
        except TypeIsSlow as slow:
            logger.debug("Tenant put back", reason=str(slow))
            return Result(requeue_after=slow.after)
        removed = await self._remove_unwanted(tenant, owner, made, walked, variables)
        self.changes.pruning.record(request, removed.decisions)
        walked.missing |= denied(tenant, removed, self.kinds.privileges)
        walked.retry |= bool(removed.refused or removed.troubles)
        walked.troubles += removed.troubles
        wait = self.waits.debounce.remaining(request, pending=is_under_way(walked.outcomes))
        if wait <= 0:
            await self.reports.applied(tenant, entry, made, walked, removed, hooks.completed)
        return self._next(tenant, request, walked, wait, lags=self.kinds.lag(mappings))

    # -- hooks -------------------------------------------------------------------------------

    async def _before_create(
        self, tenant: Tenant, owner: Owner, entry: Entry, mappings: KindMappings
    ) -> HookResult:
        """Run what comes before the first resource; a tenant that has some is beyond that."""
        if tenant.status.applied_resources:
            return HookResult()
        draw = partial(self.content.generated.ensure, tenant, entry, owner.predecessors)
        return await self.content.hooks.run(
            tenant, owner, entry.annotations, HookMoment.BEFORE_CREATE, mappings, draw
        )

    async def _hooks(
        self,
        tenant: Tenant,
        owner: Owner,
        entry: Entry,
        moment: HookMoment,
        mappings: KindMappings,
    ) -> HookResult:
        """Run the hooks of a tenant that goes."""
        if not tenant.spec.hooks:  # a spec that cannot be read may have some
            return HookResult(stopped=unreadable_hooks(entry.field("spec"), entry.annotations))
        draw = partial(self.content.generated.ensure, tenant, entry)
        return await self.content.hooks.run(
            tenant, owner, entry.annotations, moment, mappings, draw
        )

    async def _stop(
        self,
        tenant: Tenant,
        entry: Entry,
        request: Request,
        stopped: Stopped,
        completed: Sequence[str],
    ) -> Result | None:
        """Record the hook that nothing goes on without; the end of its Job starts another pass."""
        await self.reports.stopped(tenant, entry, stopped, completed)
        return Result(requeue_after=self.waits.retries.when(request)) if stopped.retry else None

    # -- what is no longer wanted ------------------------------------------------------------

    async def _remove_unwanted(
        self, tenant: Tenant, owner: Owner, made: Build, walked: ApplyResult, variables: Variables
    ) -> Removed:
        """Remove what left the template, and what has been replaced under another name."""
        has_nothing_else = self.changes.remover.has_nothing_else(owner, places_of(made))
        if has_nothing_else and not retained_of_before(tenant):
            return Removed()
        return await self._remove(
            tenant,
            owner,
            wanted_by_living(
                tenant,
                self._template(tenant),
                made,
                walked.outcomes,
                self.changes.pruning.why(tenant),
            ),
            OrphanReason.REMOVED_FROM_TEMPLATE,
            hidden=variables.hidden,
        )

    async def _remove(
        self,
        tenant: Tenant,
        owner: Owner,
        wanted: Wanted,
        reason: OrphanReason,
        *,
        hidden: Mapping[str, str],
    ) -> Removed:
        removed = await self.changes.remover.remove(
            wanted, _scope(tenant, owner, reason, self.kinds.privileges, hidden=hidden)
        )
        self.reports.removed(tenant, removed)
        return removed

    def _template(self, tenant: Tenant) -> Entry | None:
        return self.stores.templates.get(
            tenant.spec.template_ref, namespace=tenant.metadata.namespace or ""
        )

    async def _tear_down(
        self, tenant: Tenant, owner: Owner, entry: Entry, request: Request
    ) -> Result | None:
        """Remove everything in reverse order, then let the tenant go."""
        self.changes.pruning.record(request)
        if FINALIZER not in entry.finalizers:
            return None
        mappings = await self.kinds.mappings(tenant, entry.annotations, request)
        if self._has_changed(entry, request):
            return await self.reconcile(request)
        intent = await self.changes.intents.of(entry)
        wanted = wanted_by_deleted(tenant, entry, self._template(tenant), intent)
        handed_over = intent is Intent.DELETE and hands_over(entry.annotations)
        if (
            handed_over
            and has_hooks(entry.field("spec"))
            and await self._any_goes(tenant, owner, wanted)
        ):
            # Recorded, since nothing is left to decide it from once the objects are gone.
            mark = {"annotations": {HANDS_OVER: None}}
            await self.writers.patcher.patch_metadata(Tenant.mapping(), entry, mark)
            return None  # the answer is in the cache and brings us back
        runs_hooks = intent is Intent.DELETE and not handed_over
        hooks = HookResult()
        if runs_hooks:
            hooks = await self._hooks(tenant, owner, entry, HookMoment.BEFORE_DELETE, mappings)
            if hooks.stopped is not None:
                return await self._stop(tenant, entry, request, hooks.stopped, hooks.completed)
        removed = await self._remove(
            tenant, owner, wanted, OrphanReason.TENANT_DELETED, hidden=_names_hidden(tenant)
        )
        unseen = {
            trouble.grant for trouble in self.kinds.troubles(tenant) if trouble.grant is not None
        }
        grants = unseen | denied(tenant, removed, self.kinds.privileges)
        again = self.waits.grants.report(request, template_of(tenant), grants, unseen=unseen)
        if not removed.pending:
            if runs_hooks:
                hooks = await self._hooks(tenant, owner, entry, HookMoment.AFTER_DELETE, mappings)
                if hooks.stopped is not None:
                    return await self._stop(tenant, entry, request, hooks.stopped, hooks.completed)
            await self.writers.patcher.remove_finalizer(Tenant.mapping(), entry, FINALIZER)
            return None
        await self.reports.leaving(tenant, entry, removed, grants, hooks.completed)
        if (removed.refused or removed.troubles) and not grants:
            return Result(requeue_after=self.waits.retries.when(request))
        # Otherwise the next object to go, or a right that is granted, starts another pass.
        return None if again is None else Result(requeue_after=again)

    async def _any_goes(self, tenant: Tenant, owner: Owner, wanted: Wanted) -> bool:
        """Whether the tenant has objects that go, as they were not handed over."""
        scope = _scope(tenant, owner, OrphanReason.TENANT_DELETED, self.kinds.privileges, hidden={})
        return await self.changes.remover.removes_any(wanted, scope)

    def _next(
        self, tenant: Tenant, request: Request, walked: ApplyResult, wait: float, *, lags: bool
    ) -> Result | None:
        self.waits.claims.set(request, walked.conflicts)
        # After the claims: the first list may answer them.
        self.waits.namespaces.watch(walked.conflicts)
        delays = [wait] if wait > 0 else []
        again = self.waits.grants.report(
            request, template_of(tenant), walked.missing, unseen=walked.unseen
        )
        if again is not None:
            delays.append(again)
        if walked.look_again is not None:
            delays.append(walked.look_again.total_seconds())
        if walked.retry:
            delays.append(self.waits.retries.when(request))
        else:
            self.waits.retries.forget(request)
        if lags:
            delays.append(self.waits.lookups.when(request))
        else:
            self.waits.lookups.forget(request)
        return Result(requeue_after=max(0.05, min(delays))) if delays else None

    def forget(self, request: Request) -> None:
        """Forget a tenant that is gone, or another process's now."""
        entry = self.stores.tenants.get(request.name, namespace=request.namespace)
        if entry is not None:  # of one that is gone, the event of its deletion has cleared them
            self.changes.applier.timers.forget(entry.uid)
        self.content.forget(request)
        self.changes.intents.forget(request)
        self.changes.pruning.record(request)
        self.waits.forget(request)
        self.kinds.forget(request)
        self.reports.gone(request)


def bare(entry: Entry) -> Tenant:
    """Return a tenant whose spec or status cannot be read, without them: enough to let it go."""
    manifest = entry.decode()
    unknown = {"uid": "unknown", "templateRef": "unknown"}
    return Tenant.from_manifest({**manifest, "spec": unknown, "status": {}})


def _scope(
    tenant: Tenant,
    owner: Owner,
    reason: OrphanReason,
    privileges: Privileges,
    *,
    hidden: Mapping[str, str],
) -> Scope:
    """Return whose objects are removed, and as whom."""
    return Scope(
        owner=owner,
        applied=applied_keys(tenant.status),
        reason=reason,
        user=impersonated(tenant, privileges),
        hidden=hidden,
    )


def template_of(tenant: Tenant) -> Request:
    """Return the template that a tenant was made from."""
    return Request(tenant.spec.template_ref, namespace=tenant.metadata.namespace or "")


def denied(tenant: Tenant, removed: Removed, privileges: Privileges) -> set[Grant]:
    """Return the rights that were missing for removals; other refusals are in the status alone."""
    account = account_of(tenant, privileges)
    owner = f"{tenant.metadata.namespace}/{account}" if account else ""
    grants = (
        missing(error, mapping, account=owner, namespace=namespace)
        for mapping, namespace, error in removed.refused
    )
    return {grant for grant in grants if grant is not None}


def _names_hidden(tenant: Tenant) -> dict[str, str]:
    """Stand-ins for the sensitive variables: with any, a refusal shows its reason and places only."""
    sensitive = tenant.spec.sensitive_variables
    names = sensitive.names if sensitive is not None else []
    return dict.fromkeys((*names, *tenant.spec.generate), "…")

"""The tenancy system's three controllers, wired to the runtime."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from apis.operations import FrozenSystem
from apis.tenancy import GROUP, Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api import BUILTIN, GroupVersionKind, Resource, RESTMapping
from ctrlruntime.cache import DeleteEvent, Event, Store
from ctrlruntime.client.openapi import OpenAPISchemas
from ctrlruntime.clock import monotonic
from ctrlruntime.controller import Builder, ControllerOptions, Reconciler
from ctrlruntime.controller.debounce import Debounce
from ctrlruntime.controller.orphan_requests import OrphanRequests
from ctrlruntime.controller.predicates import generation_changed, more_than_own_status_changed
from ctrlruntime.lifecycle import PerUID
from ctrlruntime.manager import Group, Manager
from ctrlruntime.queue import Request
from ctrlruntime.resources import Control, LabelledControl, Owner
from ctrlruntime.rollout import ChangeHolds, ObservedClock
from internal.operations.freezes import SystemFreezes
from internal.removal_holds import LostRecords
from internal.tenancy.objects.body_review import BodyReview
from internal.tenancy.objects.children import OWNER_INDEX
from internal.tenancy.objects.generated_values import GeneratedValues
from internal.tenancy.objects.values import SECRET, SensitiveValues
from internal.tenancy.registry.awaited_tenants import AwaitedTenants, HandOvers
from internal.tenancy.registry.planner import RegistryPlanner
from internal.tenancy.registry.query_schedule import QuerySchedule
from internal.tenancy.registry.reconciler import RegistryReconciler, RegistryRows
from internal.tenancy.registry.removal import RegistryRemoval
from internal.tenancy.registry.reports import RegistryReports
from internal.tenancy.registry.sync_planner import SyncPlanner
from internal.tenancy.registry.tenant_writer import TenantWriter
from internal.tenancy.registry.value_secrets import ValueSecrets
from internal.tenancy.shared.approvals import RULES
from internal.tenancy.shared.labels import FIELD_MANAGER, VALUES
from internal.tenancy.shared.tenant_counts import TenantCounting
from internal.tenancy.sources import SourceTypes
from internal.tenancy.sources.queries import Queries
from internal.tenancy.sources.secrets import WatchedSecrets
from internal.tenancy.sources.write_back import WriteBacks
from internal.tenancy.sync.tenants import positions_in
from internal.tenancy.template.admission import ADMISSION, TENANT_ADMISSION, TenancyAdmission
from internal.tenancy.template.health import TemplateHealth
from internal.tenancy.template.reconciler import TemplateReconciler
from internal.tenancy.template.reports import TemplateReports
from internal.tenancy.template.revisions import TemplateRevisions
from internal.tenancy.tenant.applier import Applier
from internal.tenancy.tenant.awaited_namespaces import AwaitedNamespaces
from internal.tenancy.tenant.builds import TenantBuilds
from internal.tenancy.tenant.deletion_intents import DeletionIntents
from internal.tenancy.tenant.hooks import Hooks
from internal.tenancy.tenant.kinds import TenantKinds
from internal.tenancy.tenant.pruning_holds import PruningHolds, frozen_removals
from internal.tenancy.tenant.readiness import ReadinessTimers
from internal.tenancy.tenant.reconciler import (
    ObjectChanges,
    TenantContent,
    TenantReconciler,
    TenantWaits,
)
from internal.tenancy.tenant.removal import Remover
from internal.tenancy.tenant.reports import TenantReports
from internal.tenancy.tenant.slot_labels import SlotLabels
from internal.tenancy.tenant.slots import SlotConditions, slot_labels
from manager.controllers.approvals import Approvals, add_approvals, approval_key
from manager.controllers.change_freezes import Divided, add_change_freezes
from manager.controllers.error_status import with_error_status
from manager.controllers.health_checks import add_health_checks
from manager.controllers.tenancy_options import TenancyOptions
from manager.controllers.tenancy_parts import NAMESPACE, TenancyParts, make_parts
from manager.controllers.tenancy_slots import OwnTenants, wrong_labels
from manager.controllers.tenancy_watches import (
    RegistryHandlers,
    RegistrySignals,
    crd_changed,
    generation_or_pause_changed,
    registry_changed,
    values_changed,
)

if TYPE_CHECKING:
    from ctrlruntime.generate.webhook import Webhook
    from manager.controllers.hub import Hub

CRD: RESTMapping = BUILTIN[
    GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
]
STATUS_DEBOUNCE = 1.0
"""Seconds that a status of mere progress is held back: what is over by then is never written."""


def add_tenancy(manager: Manager, options: TenancyOptions, hub: "Hub | None" = None) -> None:
    """Add the controllers of registries, templates and tenants to a manager.

    `hub`: where workloads go, if the manager's own cluster is a data plane.
    """
    parts = make_parts(manager, options, hub)
    counting = TenantCounting(parts.records.tally, parts.wakeups.counts_changed)
    parts.informers.tenants.informer.add_handler(HandOvers(parts.wakeups.takes_over))
    parts.informers.tenants.informer.add_handler(counting)
    shared = [] if options.slots is None else [Divided(parts.informers.tenants, frozen_removals)]
    freezes = add_change_freezes(manager, FrozenSystem.TENANCY, divided=shared)
    parts.informers.registries.informer.add_handler(freezes.object_changed)
    _add_tenant_controller(parts, freezes)
    _add_template_controller(parts)
    _add_registry_controller(parts, freezes)
    if options.webhooks:
        _add_webhooks(parts)
    manager.add(_Closing(parts))


# -- webhooks -------------------------------------------------------------------------------------


def webhooks() -> "list[Webhook]":
    """Return what has to be configured in the API server for the option `webhooks`."""
    from ctrlruntime.generate.webhook import webhooks_of  # what only `manager manifests` needs

    return [
        *webhooks_of(TenantRegistry, TenancyAdmission.check_registry, options=ADMISSION),
        *webhooks_of(TenantTemplate, TenancyAdmission.check_template, options=ADMISSION),
        *webhooks_of(Tenant, TenancyAdmission.check_tenant, options=TENANT_ADMISSION),
    ]


def _add_webhooks(parts: TenancyParts) -> None:
    stores, manager = parts.stores, parts.manager
    schemas = OpenAPISchemas(manager.live_client.transport, monotonic)
    bodies = BodyReview(schemas, decisive=not parts.objects.targets.further)
    admission = TenancyAdmission(parts.blueprints, stores.registries, stores.templates, bodies)
    serve = manager.webhooks.register
    serve(TenantRegistry, admission.check_registry, options=ADMISSION)
    serve(TenantTemplate, admission.check_template, options=ADMISSION)
    serve(Tenant, admission.check_tenant, options=TENANT_ADMISSION)


# -- tenants --------------------------------------------------------------------------------------


def _add_tenant_controller(parts: TenancyParts, freezes: SystemFreezes) -> None:
    orphan_requests = OrphanRequests()
    parts.informers.tenants.informer.add_handler(orphan_requests)
    holds = freezes.holder(
        partial(parts.wakeups.tenants.enqueue, reason="a freeze began or ended"), divided=True
    )
    intents = DeletionIntents(orphan_requests, parts.definitions)
    reconciler = _tenant_reconciler(parts, intents, PruningHolds(parts.stores.registries, holds))
    guarded = _guarded(parts, reconciler, Tenant, parts.stores.tenants)
    kind_served = crd_changed(parts.manager.cache, parts.objects.kinds, parts.wakeups.tenants)
    (
        Builder(parts.manager)
        .sharded(cached_whole=True, roots=tuple)  # they are queued once what they have is labelled
        .for_(Tenant, predicates=[more_than_own_status_changed])
        .watches(SECRET, values_changed, labels=f"{VALUES}=true")
        .watches(CRD, kind_served, metadata_only=True)
        .explicit_permissions()
        .permission(GROUP, "tenants", "patch")  # finalizers
        .permission(GROUP, "tenants/status", "patch")
        .permission(GROUP, "tenants/finalizers", "update")  # as owner of what is made for it
        .watches_raw(parts.objects.events)
        .watches_raw(parts.wakeups.tenants)
        .options(
            ControllerOptions(
                max_concurrent_reconciles=parts.options.tenant_concurrency,
                needs_leader_election=parts.options.slots is None,
            )
        )
        .build(_own_tenants(parts, guarded, reconciler.forget))
    )


def _own_tenants(
    parts: TenancyParts, reconciler: Reconciler, forget: Callable[[Request], None]
) -> Reconciler:
    """Return a reconciler of this process's tenants alone, where several share them."""
    slots, tenants = parts.options.slots, parts.stores.tenants
    if slots is None:
        return reconciler
    labels = SlotLabels(
        tenants,
        parts.objects.targets,
        parts.options.privileges,
        slots,
        parts.wakeups.tenants.enqueue,
        parts.manager.logger,
        parts.informers.values.informer.store,
    )
    own = OwnTenants(reconciler, slots, labels, tenants, forget)
    parts.objects.events.add_listener(wrong_labels(parts.manager.logger))
    slots.ownership.subscribe(own)
    parts.manager.add(labels)
    return own


def _tenant_reconciler(
    parts: TenancyParts, intents: DeletionIntents, pruning: PruningHolds
) -> TenantReconciler:
    targets, privileges = parts.objects.targets, parts.options.privileges
    values = SensitiveValues(parts.informers.values.informer)
    return TenantReconciler(
        stores=parts.stores,
        writers=parts.writers,
        kinds=TenantKinds(targets, privileges),
        content=TenantContent(
            generated=_generated_values(parts),
            builds=TenantBuilds(parts.renderer, values, targets, privileges),
            hooks=Hooks(targets, parts.renderer, values, privileges),
        ),
        changes=ObjectChanges(
            applier=_applier(parts),
            remover=Remover(targets, privileges, parts.writers.pools, parts.options.clock),
            intents=intents,
            pruning=pruning,
        ),
        waits=TenantWaits(
            claims=parts.objects.claims,
            grants=parts.records.grants,
            debounce=Debounce(monotonic, STATUS_DEBOUNCE),
            namespaces=AwaitedNamespaces(parts.manager.cache, parts.objects.events.deliver),
        ),
        reports=TenantReports(
            parts.writers.statuses, parts.manager.recorder, parts.metrics, parts.options.clock
        ),
    )


def _generated_values(parts: TenancyParts) -> GeneratedValues:
    values = GeneratedValues(parts.informers.values.informer, parts.manager.client)
    return values if parts.options.slots is None else replace(values, labels=slot_labels)


def _applier(parts: TenancyParts) -> Applier:
    children = parts.objects.kinds
    return Applier(
        targets=parts.objects.targets,
        pools=parts.writers.pools,
        timers=ReadinessTimers(PerUID(parts.informers.tenants.informer)),
        grants=parts.records.grants,
        privileges=parts.options.privileges,
        namespaces=lambda name: children.get(NAMESPACE, name, namespace=""),
        clock=parts.options.clock,
        on_apply=parts.metrics.applied,
        events=parts.objects.events.own,
    )


# -- templates ------------------------------------------------------------------------------------


def _add_template_controller(parts: TenancyParts) -> None:
    reconciler = TemplateReconciler(
        parts.stores,
        parts.blueprints,
        parts.records.tally,
        TemplateReports(parts.records, parts.metrics),
        parts.options.status_period,
    ).lifecycle.reconciler(
        parts.manager,
        informer=parts.informers.templates.informer,
        field_manager=FIELD_MANAGER,
        clock=parts.options.clock,
    )
    templates = parts.stores.templates
    (
        Builder(parts.manager)
        .for_(TenantTemplate, predicates=[more_than_own_status_changed])
        .explicit_permissions()
        .permission(GROUP, "tenanttemplates/status", "patch")
        .watches(TenantRegistry, registry_changed(templates), predicates=[generation_changed])
        .watches_raw(parts.wakeups.templates)
        .options(ControllerOptions(max_concurrent_reconciles=parts.options.template_concurrency))
        .build(reconciler)
    )


# -- registries -----------------------------------------------------------------------------------


def _add_registry_controller(parts: TenancyParts, freezes: SystemFreezes) -> None:
    stores, wakeups = parts.stores, parts.wakeups.registries
    signals = RegistrySignals(wakeups, stores.templates, parts.options.status_period)
    awaited = AwaitedTenants(stores.tenants, signals.replacement_changed)
    parts.informers.tenants.informer.add_handler(awaited)
    holds = _registry_holds(parts, signals, freezes)
    key = approval_key(parts.manager) if parts.options.webhooks else None
    approvals = add_approvals(parts.manager, TenantRegistry, RULES, key)
    reconciler = signals.reconciler = _registry_reconciler(
        parts, signals, awaited, holds, approvals
    )
    handlers = RegistryHandlers(reconciler, awaited, wakeups, stores.templates)
    parts.objects.events.add_listener(handlers.child_changed)
    parts.informers.revisions.informer.add_handler(handlers.revision_changed)
    (
        Builder(parts.manager)
        .for_(TenantRegistry, predicates=[more_than_own_status_changed])
        .watches(
            TenantTemplate, handlers.template_changed, predicates=[generation_or_pause_changed]
        )
        .watches(Tenant, handlers.tenant_changed, predicates=[more_than_own_status_changed])
        .explicit_permissions()
        .permission(GROUP, "tenantregistries", "patch")  # finalizers, the approval of deletions
        .permission(GROUP, "tenantregistries/status", "patch")
        .permission(GROUP, "tenantregistries/finalizers", "update")  # as owner of tenants
        .permission(GROUP, "tenants", "create", "delete", "patch")
        .permission(GROUP, "tenanttemplates/finalizers", "update")  # as owner of its revisions
        .permission("apps", "controllerrevisions", "create", "delete", "patch")
        .watches_raw(wakeups)
        .watches_raw(approvals.wakeups)
        .options(ControllerOptions(max_concurrent_reconciles=parts.options.registry_concurrency))
        .build(_guarded(parts, reconciler, TenantRegistry, parts.stores.registries))
    )


def _registry_reconciler(
    parts: TenancyParts,
    signals: RegistrySignals,
    awaited: AwaitedTenants,
    holds: ChangeHolds,
    approvals: Approvals,
) -> RegistryReconciler:
    stores = replace(parts.stores, approvals=approvals.view)
    writers, recorder = parts.writers, parts.manager.recorder
    queries, orphan_requests = _queries(parts, signals), OrphanRequests()
    slots = parts.options.slots
    parts.informers.registries.informer.add_handler(orphan_requests)
    secrets = ValueSecrets(stores.tenants, parts.objects.value_kinds, writers)
    return RegistryReconciler(
        stores=stores,
        writers=writers,
        rows=RegistryRows(
            QuerySchedule(queries, recorder, monotonic),
            _write_backs(parts, signals, queries),
        ),
        planner=_registry_planner(parts, signals, queries.types, holds),
        tenants=TenantWriter(stores.tenants, secrets, writers, awaited),
        removal=RegistryRemoval(
            stores, secrets, writers, parts.definitions, orphan_requests, parts.options.clock, holds
        ),
        reports=RegistryReports(
            registries=stores.registries,
            writers=writers,
            tally=parts.records.tally,
            metrics=parts.metrics,
            recorder=recorder,
            clocks=parts.clocks,
            status_period=parts.options.status_period,
            lost=LostRecords(
                writers.patcher,
                TenantRegistry.mapping(),
                parts.options.clock,
                lambda used: {
                    "approvedRemovals": None,
                    **({"usedApprovals": used} if used else {}),
                },
            ),
            slots=None if slots is None else SlotConditions(stores.tenants, slots),
        ),
    )


def _queries(parts: TenancyParts, signals: RegistrySignals) -> Queries:
    return Queries(
        sources=parts.sources,
        secrets=WatchedSecrets(parts.manager.cache, signals.rows_changed),
        metrics=parts.metrics,
        clock=monotonic,
        sqlite_root=parts.options.sqlite_root,
        types=SourceTypes.installed(),
        on_change=signals.row_changed,
        recorded=positions_in(parts.stores.tenants),
    )


def _registry_holds(
    parts: TenancyParts, signals: RegistrySignals, freezes: SystemFreezes
) -> ChangeHolds:
    registries = parts.stores.registries
    return freezes.holder(
        signals.freeze_changed,
        lambda: [Request(each.name, namespace=each.namespace) for each in registries.list()],
    )


def _registry_planner(
    parts: TenancyParts, signals: RegistrySignals, types: SourceTypes, holds: ChangeHolds
) -> RegistryPlanner:
    checks = parts.options.health_checks
    return RegistryPlanner(
        sync=_sync_planner(parts, types),
        tenants=parts.stores.tenants,
        blueprints=parts.blueprints,
        rollouts=parts.records.rollouts,
        revisions=_template_revisions(parts),
        recorder=parts.manager.recorder,
        clocks=parts.clocks,
        observed=ObservedClock.of(parts.clocks.now),
        holds=holds,
        health=TemplateHealth(add_health_checks(parts.manager, checks, signals.health_changed)),
    )


def _write_backs(parts: TenancyParts, signals: RegistrySignals, queries: Queries) -> WriteBacks:
    tenants = parts.stores.tenants
    write_backs = WriteBacks(
        tenants=lambda registry: tenants.by_index(OWNER_INDEX, Owner.of(registry).key),
        open=queries.writer,
        on_outcome=signals.written_back,
        monotonic=monotonic,
    )
    parts.manager.add(_ClosingWriteBacks(write_backs))
    return write_backs


def _template_revisions(parts: TenancyParts) -> TemplateRevisions:
    store = parts.informers.revisions.informer.store
    revisions = TemplateRevisions(store, parts.stores.templates, parts.writers)

    def forget(event: Event) -> None:
        if isinstance(event, DeleteEvent):
            revisions.forget(event.old)

    parts.informers.revisions.informer.add_handler(forget)
    return revisions


def _sync_planner(parts: TenancyParts, types: SourceTypes) -> SyncPlanner:
    return SyncPlanner(
        registries=parts.stores.registries,
        templates=parts.stores.templates,
        tenants=parts.stores.tenants,
        control=_comparing(parts.writers.control),
        blueprints=parts.blueprints,
        definitions=parts.definitions,
        location=types.location,
        clock=parts.options.clock,
        template_grace=timedelta(seconds=parts.options.template_grace),
    )


def _comparing(control: Control) -> Control:
    """Return the control by which plans find changes: a Secret without the label of its slot is none, see SlotLabels."""
    return control.without_labels() if isinstance(control, LabelledControl) else control


# -- all ------------------------------------------------------------------------------------------


def _guarded(
    parts: TenancyParts,
    reconciler: Reconciler,
    kind: type[Resource[Any, Any]],
    store: Store,
) -> Reconciler:
    return with_error_status(
        parts.manager,
        reconciler,
        store,
        kind.mapping(),
        field_manager=FIELD_MANAGER,
    )


@dataclass(slots=True)
class _Closing:
    """Ends the renderer's worker process and closes connections, after the controllers have ended.

    Sooner, a query under way would fail, and its registry would report that.
    """

    runnable_group = Group.CACHES

    parts: TenancyParts

    async def start(self) -> None:
        """Run until cancelled."""
        try:
            await asyncio.Event().wait()
        finally:
            for target in self.parts.objects.targets:
                await target.kinds.close()
            await self.parts.objects.value_kinds.close()
            await self.parts.renderer.close()
            await self.parts.sources.close()


@dataclass(slots=True)
class _ClosingWriteBacks:
    """Ends what writes states back, before the connections that it could use."""

    write_backs: WriteBacks

    async def start(self) -> None:
        """Run until cancelled."""
        try:
            await asyncio.Event().wait()
        finally:
            await self.write_backs.close()

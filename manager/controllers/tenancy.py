"""The tenancy system's three controllers, wired to the runtime."""

import asyncio
import time
from collections.abc import Hashable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from apis.tenancy import GROUP, Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupKind, GroupVersionKind, RESTMapping
from ctrlruntime.cache.cache import InformerHandle
from ctrlruntime.cache.entry import Entry
from ctrlruntime.cache.events import Deleted, Event, Updated
from ctrlruntime.controller.builder import Builder
from ctrlruntime.controller.intake import EventQueue
from ctrlruntime.controller.options import ControllerOptions
from ctrlruntime.controller.predicates import annotation_changed, any_of, generation_changed
from ctrlruntime.generate.webhook import Webhook, webhooks_of
from ctrlruntime.manager import Group, Manager
from ctrlruntime.queue import Request
from ctrlruntime.resources import OWNER, Control
from internal.tenancy.admission import ADMISSION, TenancyAdmission
from internal.tenancy.blueprints import Blueprints
from internal.tenancy.children import OWNER_INDEX, ChildKinds, entries_of, owner_keys
from internal.tenancy.claims import Claims
from internal.tenancy.counting import TenantCounting
from internal.tenancy.grants import Grants
from internal.tenancy.live import LiveObjects
from internal.tenancy.marks import FIELD_MANAGER, VALUES
from internal.tenancy.metrics import TenancyMetrics
from internal.tenancy.patience import Patience
from internal.tenancy.pools import WorkerPools
from internal.tenancy.privileges import Privileges
from internal.tenancy.queries import Queries
from internal.tenancy.readiness import ReadinessTimers
from internal.tenancy.registry_reconciler import REGISTRY_INDEX, RegistryReconciler, registry_of
from internal.tenancy.removal import Remover
from internal.tenancy.rendering import Renderer
from internal.tenancy.reports import TenantReports
from internal.tenancy.secrets import WatchedSecrets
from internal.tenancy.sources import Sources
from internal.tenancy.statuses import StatusWriter
from internal.tenancy.tally import Tally
from internal.tenancy.template_reconciler import TemplateReconciler
from internal.tenancy.tenant_reconciler import TenantReconciler
from internal.tenancy.values import SECRET, SensitiveValues
from internal.tenancy.wakeups import ChildEvents, Wakeups, more_than_status_changed
from internal.tenancy.walk import Walker

CRD: RESTMapping = BUILTIN[
    GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
]
STATUS_PERIOD = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TenancyOptions:
    """Options of the tenancy system."""

    registry_concurrency: int = 3
    template_concurrency: int = 5
    tenant_concurrency: int = 10
    writes_per_type: int = 16
    """Writes of one resource type that are under way at once."""
    writes_total: int = 64
    """Writes that are under way at once."""
    sqlite_root: Path | None = None
    """Directory of the SQLite files that registries may name; None allows none."""
    tenant_series: int = 500
    """Most tenants with metric series of their own; only those that are not ready have any."""
    every_tenant_series: bool = False
    """Series for every tenant."""
    status_period: float = STATUS_PERIOD
    """Seconds that changed counts of tenants wait for more, and between two writes of one status."""
    allow_foreign_namespaces: bool = False
    """Templates may put resources into namespaces other than the tenant's, and make Namespaces."""
    allow_kinds: frozenset[GroupKind] = frozenset()
    """Kinds that templates may name although they give rights or belong to the whole cluster."""
    webhooks: bool = False
    """Tell at once what is wrong with a registry or template that is written."""
    protected_namespaces: frozenset[str] = frozenset()
    """Namespaces that nothing is written to for any tenant; meant for the manager's own."""

    @property
    def privileges(self) -> Privileges:
        """What templates may do."""
        return Privileges(
            foreign_namespaces=self.allow_foreign_namespaces,
            kinds=self.allow_kinds,
            protected=self.protected_namespaces,
        )


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class _Parts:
    """What the three controllers share."""

    manager: Manager
    options: TenancyOptions
    tenants: InformerHandle
    registries: InformerHandle
    templates: InformerHandle
    values: InformerHandle
    children: ChildKinds
    child_events: ChildEvents
    claims: Claims
    control: Control
    pools: WorkerPools
    renderer: Renderer
    sources: Sources
    blueprints: Blueprints
    live: LiveObjects
    statuses: StatusWriter
    metrics: TenancyMetrics
    tally: Tally
    grants: Grants
    tenant_wakeups: Wakeups
    registry_wakeups: Wakeups
    template_wakeups: Wakeups


def add_tenancy(manager: Manager, options: TenancyOptions) -> None:
    """Add the controllers of registries, templates and tenants to a manager."""
    parts = _make_parts(manager, options)
    tally = TenantCounting(parts.tally, lambda kind, request: _counts_changed(parts, kind, request))
    parts.tenants.informer.add_handler(tally)
    _add_tenant_controller(parts)
    _add_template_controller(parts)
    _add_registry_controller(parts)
    if options.webhooks:
        _add_webhooks(parts)
    manager.add(_Closing(parts))


def webhooks() -> list[Webhook]:
    """What has to be configured in the API server for the option `webhooks`."""
    return [
        *webhooks_of(TenantRegistry, TenancyAdmission.check_registry, options=ADMISSION),
        *webhooks_of(TenantTemplate, TenancyAdmission.check_template, options=ADMISSION),
    ]


def _add_webhooks(parts: _Parts) -> None:
    admission = TenancyAdmission(parts.blueprints, parts.registries.informer.store)
    serve = parts.manager.webhooks.register
    serve(TenantRegistry, admission.check_registry, options=ADMISSION)
    serve(TenantTemplate, admission.check_template, options=ADMISSION)


def _make_parts(manager: Manager, options: TenancyOptions) -> _Parts:
    cache, client = manager.cache, manager.client
    tenants = cache.declare(Tenant, track_manager=FIELD_MANAGER, indexes={OWNER_INDEX: owner_keys})
    registries = cache.declare(TenantRegistry)
    claims = Claims()
    child_events = ChildEvents(claims)
    renderer = Renderer()

    tenant_wakeups = Wakeups("tenants to look at again")
    template_wakeups = Wakeups("templates to look at again")

    def readable(users: frozenset[Hashable]) -> None:
        for user in users:
            if isinstance(user, Request):
                tenant_wakeups.wake(user, "a kind can be read")

    def rights_changed(template: Request) -> None:
        template_wakeups.wake(template, "missing rights changed")

    def alive(uid: str) -> bool:
        stores = (tenants.informer.store, registries.informer.store)
        return any(store.count("uid", uid) for store in stores)

    for handle in (tenants, registries):
        handle.informer.store.add_index("uid", lambda entry: (entry.uid,))
    return _Parts(
        manager=manager,
        options=options,
        tenants=tenants,
        registries=registries,
        templates=cache.declare(TenantTemplate, indexes={REGISTRY_INDEX: registry_of}),
        values=cache.declare(SECRET, labels=f"{VALUES}=true"),
        children=ChildKinds(
            cache,
            manager.live_client.mapper.resolve,
            FIELD_MANAGER,
            child_events.deliver,
            readable,
        ),
        child_events=child_events,
        claims=claims,
        control=Control(cache, field_manager=FIELD_MANAGER, alive=alive),
        pools=WorkerPools(per_type=options.writes_per_type, total=options.writes_total),
        renderer=renderer,
        sources=Sources(),
        blueprints=Blueprints(renderer, options.privileges),
        live=LiveObjects(cache, client, FIELD_MANAGER),
        statuses=StatusWriter(client, FIELD_MANAGER, _now),
        metrics=TenancyMetrics(
            manager.metrics.registry,
            cap=options.tenant_series,
            every_tenant=options.every_tenant_series,
        ),
        tally=Tally(),
        grants=Grants(tenant_wakeups.wake, rights_changed),
        tenant_wakeups=tenant_wakeups,
        registry_wakeups=Wakeups("registries to look at again"),
        template_wakeups=template_wakeups,
    )


@dataclass(slots=True)
class _Closing:
    """Ends the renderer's worker process and closes connections, after the controllers have ended.

    Sooner, a query under way would fail, and its registry would be told so.
    """

    runnable_group = Group.CACHES

    parts: _Parts

    async def start(self) -> None:
        """Runs until cancelled."""
        try:
            await asyncio.Event().wait()
        finally:
            await self.parts.children.close()
            await self.parts.renderer.close()
            await self.parts.sources.close()


def _counts_changed(parts: _Parts, kind: str, request: Request) -> None:
    wakeups = parts.registry_wakeups if kind == "registry" else parts.template_wakeups
    wakeups.wake(request, "counts of tenants changed", after=parts.options.status_period)


def _add_tenant_controller(parts: _Parts) -> None:
    timers = ReadinessTimers()
    reconciler = TenantReconciler(
        tenants=parts.tenants.informer.store,
        mapping=Tenant.mapping(),
        children=parts.children,
        walker=Walker(
            control=parts.control,
            live=parts.live,
            pools=parts.pools,
            timers=timers,
            grants=parts.grants,
            clock=_now,
            on_apply=parts.metrics.applied,
        ),
        remover=Remover(parts.control, parts.pools, _now),
        renderer=parts.renderer,
        values=SensitiveValues(parts.values.informer),
        statuses=parts.statuses,
        live=parts.live,
        claims=parts.claims,
        reports=TenantReports(parts.manager.recorder, parts.metrics),
        timers=timers,
        patience=Patience(time.monotonic),
        grants=parts.grants,
        privileges=parts.options.privileges,
        clock=_now,
    )

    def values_changed(event: Event, queue: EventQueue) -> None:
        for entry in entries_of(event)[-1:]:
            queue.add(Request(entry.namespace, entry.name.removesuffix("-values")))

    def definition_changed(_event: Event, _queue: EventQueue) -> None:
        parts.manager.cache.notify_discovery_changed()
        for user in parts.children.appeared():
            if isinstance(user, Request):
                parts.tenant_wakeups.wake(user, "a kind appeared")

    builder = (
        Builder(parts.manager)
        .for_(Tenant, predicates=[more_than_status_changed])
        .watches(SECRET, values_changed, labels=f"{VALUES}=true")
        .watches(CRD, definition_changed, metadata_only=True)
        .declares_writes()
        .permission(GROUP, "tenants", "patch")  # finalizers
        .permission(GROUP, "tenants/status", "patch")
        .permission(GROUP, "tenants/finalizers", "update")  # as owner of what is made for it
        .watches_source(parts.child_events)
        .watches_source(parts.tenant_wakeups)
        .options(ControllerOptions(max_concurrent_reconciles=parts.options.tenant_concurrency))
    )
    builder.build(reconciler)


def _add_template_controller(parts: _Parts) -> None:
    reconciler = TemplateReconciler(
        templates=parts.templates.informer.store,
        registries=parts.registries.informer.store,
        blueprints=parts.blueprints,
        statuses=parts.statuses,
        tally=parts.tally,
        grants=parts.grants,
        recorder=parts.manager.recorder,
        clock=_now,
        monotonic=time.monotonic,
        status_period=parts.options.status_period,
    )

    def registry_changed(event: Event, queue: EventQueue) -> None:
        for entry in entries_of(event)[-1:]:
            key = f"{entry.namespace}/{entry.name}"
            for template in parts.templates.informer.store.by_index(REGISTRY_INDEX, key):
                queue.add(Request(template.namespace, template.name))

    (
        Builder(parts.manager)
        .for_(TenantTemplate, predicates=[more_than_status_changed])
        .declares_writes()
        .permission(GROUP, "tenanttemplates/status", "patch")
        .watches(TenantRegistry, registry_changed, predicates=[generation_changed])
        .watches_source(parts.template_wakeups)
        .options(ControllerOptions(max_concurrent_reconciles=parts.options.template_concurrency))
        .build(reconciler)
    )


def _add_registry_controller(parts: _Parts) -> None:
    wakeups = parts.registry_wakeups

    def credentials_changed(users: frozenset[Hashable]) -> None:
        for request in reconciler.query_now(users):
            wakeups.wake(request, "credentials changed")

    reconciler = RegistryReconciler(
        registries=parts.registries.informer.store,
        templates=parts.templates.informer.store,
        tenants=parts.tenants.informer.store,
        children=parts.children,
        queries=Queries(
            sources=parts.sources,
            secrets=WatchedSecrets(parts.manager.cache, credentials_changed),
            metrics=parts.metrics,
            clock=time.monotonic,
            sqlite_root=parts.options.sqlite_root,
        ),
        control=parts.control,
        pools=parts.pools,
        blueprints=parts.blueprints,
        statuses=parts.statuses,
        live=parts.live,
        tally=parts.tally,
        metrics=parts.metrics,
        recorder=parts.manager.recorder,
        clock=_now,
        monotonic=time.monotonic,
        status_period=parts.options.status_period,
    )

    def template_changed(event: Event, queue: EventQueue) -> None:
        for entry in entries_of(event):
            for key in registry_of(entry):
                namespace, _, name = key.partition("/")
                reconciler.replan(Request(namespace, name))
                queue.add(Request(namespace, name))

    def tenant_changed(event: Event, queue: EventQueue) -> None:
        if isinstance(event, Deleted):
            reconciler.existing.forget(event.old.namespace, event.old.name)
        request = writer_of(event)
        if request is not None:
            reconciler.replan(request)
            queue.add(request)

    def child_changed(_mapping: RESTMapping, event: Event) -> None:
        """A Secret with values. Told by the watch that the reconciler looks at, not by another."""
        request = writer_of(event)
        if request is not None:
            reconciler.replan(request)
            wakeups.wake(request, "a Secret with values changed")

    parts.child_events.tell(child_changed)
    (
        Builder(parts.manager)
        .for_(TenantRegistry, predicates=[more_than_status_changed])
        .watches(TenantTemplate, template_changed, predicates=[generation_or_pause_changed])
        .watches(Tenant, tenant_changed, predicates=[more_than_status_changed])
        .declares_writes()
        .permission(GROUP, "tenantregistries", "patch")  # finalizers, the word for deletions
        .permission(GROUP, "tenantregistries/status", "patch")
        .permission(GROUP, "tenantregistries/finalizers", "update")  # as owner of tenants
        .permission(GROUP, "tenants", "create", "delete", "patch")
        .watches_source(wakeups)
        .options(ControllerOptions(max_concurrent_reconciles=parts.options.registry_concurrency))
        .build(reconciler)
    )


generation_or_pause_changed = any_of(generation_changed, annotation_changed)
"""Predicate: blocks updates of the status."""


def writer_of(event: Event) -> Request | None:
    """The registry whose object went or was changed, perhaps by somebody else: it compares again."""
    return owning_registry(event.old) if isinstance(event, Deleted | Updated) else None


def owning_registry(entry: Entry) -> Request | None:
    """The registry recorded as an object's owner."""
    key = entry.annotations.get(OWNER, "")
    prefix = f"{TenantRegistry.gvk().group_kind}/"
    if not key.startswith(prefix):
        return None
    namespace, _, name = key.removeprefix(prefix).partition("/")
    return Request(namespace, name)

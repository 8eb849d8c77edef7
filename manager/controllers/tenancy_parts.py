"""What the controllers of the tenancy system share: declared informers and collaborators."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api import BUILTIN, GroupVersionKind, RESTMapping
from ctrlruntime.cache import Entry, InformerHandle
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.clock import monotonic
from ctrlruntime.cluster import Cluster
from ctrlruntime.controller.request_source import RequestSource
from ctrlruntime.lifecycle.status import StatusWriter
from ctrlruntime.manager import Manager
from ctrlruntime.queue import Request
from ctrlruntime.resources import Control, Definitions, LabelledControl
from internal.tenancy.objects.children import OWNER_INDEX, ChildKinds, owner_keys
from internal.tenancy.objects.object_reader import ObjectReader
from internal.tenancy.objects.target_clusters import TargetCluster, TargetClusters
from internal.tenancy.objects.values import SECRET
from internal.tenancy.rendering import Renderer
from internal.tenancy.shared.deps import Clocks, TenancyRecords, TenancyStores, Writers
from internal.tenancy.shared.labels import FIELD_MANAGER, TEMPLATE, VALUES
from internal.tenancy.shared.metrics import TenancyMetrics
from internal.tenancy.shared.missing_permissions import Grants
from internal.tenancy.shared.pools import WorkerPools
from internal.tenancy.shared.rollout import Rollouts
from internal.tenancy.shared.tally import Tally
from internal.tenancy.sources import Sources
from internal.tenancy.sync.neighbours import REGISTRY_INDEX, registry_of
from internal.tenancy.template.compiled import Blueprints
from internal.tenancy.template.revisions import (
    CONTROLLER_REVISION,
    TEMPLATE_INDEX,
    templates_of,
)
from internal.tenancy.tenant.child_events import ChildEvents
from internal.tenancy.tenant.conflict_waiters import Claims
from internal.tenancy.tenant.replacement_marks import HEIRS_INDEX, heirs_of
from internal.tenancy.tenant.slots import UNLABELLED_INDEX, TenantSlots, is_labelled, labels_of
from manager.controllers.tenancy_options import TenancyOptions
from manager.controllers.tenancy_watches import owning_registry

if TYPE_CHECKING:
    from manager.controllers.hub import Hub

NAMESPACE = GroupVersionKind("", "v1", "Namespace")
HUB_FIRST_TIMEOUT = 2.0
"""Seconds that a pass waits for the first list of a kind on the hub."""


@dataclass(slots=True)
class TenancyInformers:
    """The objects that the system reads besides those of tenants' kinds."""

    tenants: InformerHandle
    registries: InformerHandle
    templates: InformerHandle
    values: InformerHandle
    """Secrets with sensitive values."""
    revisions: InformerHandle
    """Recorded content of templates."""

    @classmethod
    def declare(cls, manager: Manager, slots: TenantSlots | None = None) -> TenancyInformers:
        """Declare them, with their indexes. `slots`: those of this process, where several share the tenants."""
        declare = manager.cache.declare
        values = f"{VALUES}=true"
        made = cls(
            tenants=declare(Tenant, track_manager=FIELD_MANAGER, indexes={OWNER_INDEX: owner_keys}),
            registries=declare(TenantRegistry),
            templates=declare(TenantTemplate, indexes={REGISTRY_INDEX: registry_of}),
            values=declare(SECRET, labels=values)
            if slots is None
            else declare(
                SECRET,  # the same as the registries' own, see `value_kinds`
                labels=values,
                track_manager=FIELD_MANAGER,
                indexes={OWNER_INDEX: owner_keys},
            ),
            revisions=declare(
                CONTROLLER_REVISION,
                labels=TEMPLATE,
                track_manager=FIELD_MANAGER,
                indexes={TEMPLATE_INDEX: templates_of},
            ),
        )
        for handle in (made.tenants, made.registries, made.templates):
            handle.informer.store.add_index("uid", lambda entry: (entry.uid,))
        made.tenants.informer.store.add_index(HEIRS_INDEX, heirs_of)
        if slots is not None:
            made.tenants.informer.store.add_index(UNLABELLED_INDEX, _owner_of_unlabelled)
        return made

    @property
    def stores(self) -> TenancyStores:
        """What the cache holds of the system's kinds."""
        return TenancyStores(
            self.registries.informer.store,
            self.templates.informer.store,
            self.tenants.informer.store,
        )

    def exists(self, uid: str) -> bool:
        """Return whether an owner with the UID exists."""
        stores = (
            self.tenants.informer.store,
            self.registries.informer.store,
            self.templates.informer.store,
        )
        return any(store.count("uid", uid) for store in stores)

    def has_tenant(self, namespace: str, name: str, registry: str) -> bool:
        """Return whether a registry has a tenant of that name that is not being deleted."""
        entry = self.tenants.informer.store.get(name, namespace=namespace)
        if entry is None or entry.deletion_timestamp is not None:
            return False
        return owning_registry(entry) == Request(registry, namespace=namespace)


@dataclass(frozen=True, slots=True)
class Wakeups:
    """Sources of requests that no event of the API server causes."""

    status_period: float
    tenants: RequestSource = field(
        default_factory=lambda: RequestSource("tenants to look at again")
    )
    registries: RequestSource = field(
        default_factory=lambda: RequestSource("registries to look at again")
    )
    templates: RequestSource = field(
        default_factory=lambda: RequestSource("templates to look at again")
    )

    def kind_readable(self, users: frozenset[Hashable]) -> None:
        """Queue the tenants that wait for a kind."""
        for user in users:
            if isinstance(user, Request):
                self.tenants.enqueue(user, "a kind can be read")

    def hub_changed(self, users: frozenset[Hashable]) -> None:
        """Queue the tenants that have objects on the hub, which answers no longer, or again."""
        for user in users:
            if isinstance(user, Request):
                self.tenants.enqueue(user, "the hub answers no longer, or again")

    def rights_changed(self, template: Request) -> None:
        """Queue a template whose tenants miss other rights than before."""
        self.templates.enqueue(template, "missing rights changed")

    def tenants_planned(self, template: Request) -> None:
        """Queue a template that a plan found tenants for."""
        self.templates.enqueue(template, "tenants are planned", after=self.status_period)

    def takes_over(self, tenant: Request) -> None:
        """Queue a tenant that may take objects over."""
        self.tenants.enqueue(tenant, "objects may be taken over")

    def counts_changed(self, kind: str, request: Request) -> None:
        """Queue a template or a registry whose counts of tenants changed."""
        source = self.templates if kind == "template" else self.registries
        source.enqueue(request, "counts of tenants changed", after=self.status_period)


@dataclass(frozen=True, slots=True)
class TenantObjects:
    """The objects of the kinds that templates name."""

    targets: TargetClusters
    events: ChildEvents
    claims: Claims
    value_kinds: ChildKinds
    """The Secrets with values, of all tenants: registries write them."""

    @property
    def kinds(self) -> ChildKinds:
        """Those of the cluster that has the tenants."""
        return self.targets.local.kinds

    @classmethod
    def watched_by(
        cls,
        manager: Manager,
        wakeups: Wakeups,
        writers: Writers,
        alive: Callable[[str], bool],
        hub: Hub | None,
        slots: TenantSlots | None,
    ) -> TenantObjects:
        """Prepare to watch kinds as tenants name them, in the hub too if there is one.

        `slots`: those whose objects are watched, where several processes share the tenants.
        """
        claims = Claims()
        events = ChildEvents(claims)

        async def resolve_on_hub(kind: GroupVersionKind) -> RESTMapping:
            """Ask the hub about kinds alone that not every server has: it may not answer."""
            assert hub is not None  # noqa: S101 - called for the kinds of the hub
            return BUILTIN.get(kind) or await hub.cluster.mapper.resolve(kind)

        def kinds_of(
            cluster: Cluster, *, labels: str | None = None, sharded: bool = slots is not None
        ) -> ChildKinds:
            return ChildKinds(
                cluster.cache,
                cluster.mapper.resolve if cluster is manager.cluster else resolve_on_hub,
                FIELD_MANAGER,
                events.deliver,
                wakeups.kind_readable,
                discover=cluster.mapper.discover,
                first_timeout=None if cluster is manager.cluster else HUB_FIRST_TIMEOUT,
                labels=labels,
                sharded=sharded,
            )

        local = TargetCluster(
            control=writers.control,
            patcher=writers.patcher,
            objects=ObjectReader(manager.cache),
            kinds=kinds_of(manager.cluster),
        )
        value_kinds = local.kinds
        if slots is not None:
            value_kinds = kinds_of(manager.cluster, labels=f"{VALUES}=true", sharded=False)
        if hub is None:
            return cls(TargetClusters(local), events, claims, value_kinds)
        further = _on_hub(hub, kinds_of(hub.cluster), make_control(hub.cluster, alive, slots))
        local = replace(local, check=hub.check_data_plane)
        targets = TargetClusters(local, {further.name: further}, hub.placement)
        hub.monitor.subscribe(lambda: wakeups.hub_changed(further.kinds.users()))
        return cls(targets, events, claims, value_kinds)


@dataclass(slots=True)
class TenancyParts:
    """What the three controllers share."""

    manager: Manager
    options: TenancyOptions
    informers: TenancyInformers
    stores: TenancyStores
    objects: TenantObjects
    writers: Writers
    definitions: Definitions
    """Which CRDs are being deleted."""
    renderer: Renderer
    blueprints: Blueprints
    sources: Sources
    records: TenancyRecords
    metrics: TenancyMetrics
    wakeups: Wakeups
    clocks: Clocks


def make_parts(manager: Manager, options: TenancyOptions, hub: Hub | None = None) -> TenancyParts:
    """Declare what is read, and make what is shared. `hub`: where workloads go, if to another cluster."""
    informers = TenancyInformers.declare(manager, options.slots)
    wakeups = Wakeups(options.status_period)
    writers = _writers(manager, options, informers)
    renderer = Renderer()
    return TenancyParts(
        manager=manager,
        options=options,
        informers=informers,
        stores=informers.stores,
        objects=TenantObjects.watched_by(
            manager, wakeups, writers, informers.exists, hub, options.slots
        ),
        writers=writers,
        definitions=Definitions(manager.live_client),
        renderer=renderer,
        blueprints=Blueprints(renderer, options.privileges),
        sources=Sources(),
        records=TenancyRecords(
            Tally(),
            Rollouts(informers.has_tenant, wakeups.tenants_planned),
            Grants(wakeups.tenants.enqueue, wakeups.rights_changed),
        ),
        metrics=TenancyMetrics(
            manager.metrics.registry,
            cap=options.tenant_series,
            every_tenant=options.every_tenant_series,
        ),
        wakeups=wakeups,
        clocks=Clocks(options.clock, monotonic),
    )


def _writers(manager: Manager, options: TenancyOptions, informers: TenancyInformers) -> Writers:
    patcher = ObjectPatcher(manager.client, FIELD_MANAGER)
    return Writers(
        control=make_control(manager.cluster, informers.exists, options.slots),
        patcher=patcher,
        statuses=StatusWriter(patcher, options.clock),
        pools=WorkerPools(
            per_type=options.writes_per_type,
            total=options.writes_total,
            slow_passes=max(1, options.tenant_concurrency // 2),
            pace=manager.pace,
        ),
    )


def make_control(
    cluster: Cluster, alive: Callable[[str], bool], slots: TenantSlots | None
) -> Control:
    """Return what writes the objects of a cluster: with the label of their slot, where processes share the tenants."""
    if slots is None:
        return Control(cluster, field_manager=FIELD_MANAGER, alive=alive)
    return LabelledControl(cluster, labels=labels_of, field_manager=FIELD_MANAGER, alive=alive)


def _on_hub(hub: Hub, kinds: ChildKinds, control: Control) -> TargetCluster:
    """Return how objects are read and written in the hub."""
    cluster = hub.cluster
    return TargetCluster(
        name=cluster.name,
        control=control,
        patcher=ObjectPatcher(cluster.client, FIELD_MANAGER),
        objects=ObjectReader(cluster.cache),
        kinds=kinds,
        owner_cluster=hub.data_plane,
        labels=hub.labels,
        explain=hub.explain,
        unreachable=hub.unreachable,
    )


def _owner_of_unlabelled(entry: Entry) -> Iterable[str]:
    """Index function of tenants: the owner of one without the label of its slot."""
    return () if is_labelled(entry) else owner_keys(entry)

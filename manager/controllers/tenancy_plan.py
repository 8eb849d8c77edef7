"""A plan of the tenancy system: the parts of its controllers, wired to a cluster that nothing is written to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from apis.operations import FrozenSystem
from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.cache import Entry, InformerHandle
from ctrlruntime.client.config import Config
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.clock import monotonic, utc_now
from ctrlruntime.cluster.cluster import Cluster, ClusterDeps
from ctrlruntime.queue import Request
from ctrlruntime.resources import Definitions, DryRunControl, PlannedWrite
from ctrlruntime.resources.change_plan import ChangePlan, Grouping, PlanError
from internal.approvals.reported import reported
from internal.tenancy.dryrun.fleet import FleetPlanner
from internal.tenancy.dryrun.tenant import TenantPlanner
from internal.tenancy.objects.children import OWNER_INDEX, ChildKinds, owner_keys
from internal.tenancy.objects.object_reader import ObjectReader
from internal.tenancy.objects.target_clusters import TargetCluster, TargetClusters
from internal.tenancy.objects.values import SECRET, SensitiveValues
from internal.tenancy.registry.sync_planner import SyncPlanner
from internal.tenancy.rendering import Renderer
from internal.tenancy.rows.row import Reading, mapping_problems
from internal.tenancy.shared.approvals import RULES
from internal.tenancy.shared.labels import FIELD_MANAGER, VALUES
from internal.tenancy.shared.metrics import TenancyMetrics
from internal.tenancy.shared.missing_permissions import Grants
from internal.tenancy.shared.pools import WorkerPools
from internal.tenancy.sources import Sources, SourceTypes
from internal.tenancy.sources.queries import Queries
from internal.tenancy.sources.secrets import WatchedSecrets
from internal.tenancy.sync.neighbours import REGISTRY_INDEX, registry_of
from internal.tenancy.sync.tenants import positions_in
from internal.tenancy.template.compiled import Blueprints
from internal.tenancy.tenant.applier import Applier
from internal.tenancy.tenant.kinds import TenantKinds
from internal.tenancy.tenant.pruning_holds import PruningHolds
from internal.tenancy.tenant.readiness import ReadinessTimers
from internal.tenancy.tenant.removal import Remover
from internal.tenancy.tenant.replacement_marks import HEIRS_INDEX, heirs_of
from manager.controllers.plan_client import SYNC_TIMEOUT, as_stored, without_writes
from manager.controllers.plan_freezes import PlannedFreezes, read_freezes
from manager.controllers.tenancy_options import TenancyOptions
from manager.controllers.tenancy_parts import NAMESPACE


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """What to plan: the next sync of a registry, with its rows, or a changed template, or both."""

    namespace: str
    registry: str = ""
    template: TenantTemplate | None = None
    confirm: bool = True
    """Whether one change of each group is sent as a dry run."""


class _NoPatches(ObjectPatcher):
    """Drops every patch: a plan has none."""

    async def _patch(self, *_: object, **__: object) -> None:
        return None


@dataclass(slots=True)
class _Templates:
    """The templates of the cache, with one that is not stored."""

    handle: InformerHandle
    changed: Entry | None = None

    def get(self, name: str, *, namespace: str) -> Entry | None:
        if self.changed is not None and self.changed.key == (namespace, name):
            return self.changed
        return self.handle.informer.store.get(name, namespace=namespace)

    def list(self) -> Iterable[Entry]:
        return self._with_changed(self.handle.informer.store.list(), lambda _entry: True)

    def by_index(self, index: str, value: str) -> Iterable[Entry]:
        def belongs(entry: Entry) -> bool:
            return index == REGISTRY_INDEX and value in registry_of(entry)

        return self._with_changed(self.handle.informer.store.by_index(index, value), belongs)

    def _with_changed(
        self, found: Iterable[Entry], belongs: Callable[[Entry], bool]
    ) -> Iterable[Entry]:
        changed = self.changed
        if changed is None:
            return found
        others = [entry for entry in found if entry.key != changed.key]
        return [*others, changed] if belongs(changed) else others


@dataclass(slots=True)
class _Parts:
    """What plans need of one cluster."""

    cluster: Cluster
    options: TenancyOptions
    logger: FilteringBoundLogger
    tenants: InformerHandle = field(init=False)
    registries: InformerHandle = field(init=False)
    templates: _Templates = field(init=False)
    values: InformerHandle = field(init=False)
    children: ChildKinds = field(init=False)
    renderer: Renderer = field(default_factory=Renderer)
    sources: Sources = field(default_factory=Sources)
    types: SourceTypes = field(default_factory=SourceTypes.installed)

    def __post_init__(self) -> None:
        cache = self.cluster.cache
        self.tenants = cache.declare(
            Tenant, track_manager=FIELD_MANAGER, indexes={OWNER_INDEX: owner_keys}
        )
        self.registries = cache.declare(TenantRegistry)
        self.templates = _Templates(
            cache.declare(TenantTemplate, indexes={REGISTRY_INDEX: registry_of})
        )
        self.values = cache.declare(SECRET, labels=f"{VALUES}=true")
        for handle in (self.tenants, self.registries):
            handle.informer.store.add_index("uid", lambda entry: (entry.uid,))
        self.tenants.informer.store.add_index(HEIRS_INDEX, heirs_of)
        mapper = self.cluster.mapper
        self.children = ChildKinds(
            cache, mapper.resolve, FIELD_MANAGER, lambda _mapping, _event: None
        )

    def planner(self, freezes: PlannedFreezes) -> FleetPlanner:
        """Wire the planners."""
        writes: list[PlannedWrite] = []
        control = DryRunControl(
            self.cluster.cache,
            field_manager=FIELD_MANAGER,
            on_write=writes.append,
            alive=self._alive,
        )
        blueprints = Blueprints(self.renderer, self.options.privileges)
        definitions = Definitions(self.cluster.live_client)
        grouping = Grouping()
        sync = SyncPlanner(
            registries=self.registries.informer.store,
            templates=self.templates,
            tenants=self.tenants.informer.store,
            control=control,
            blueprints=blueprints,
            definitions=definitions,
            location=self.types.location,
            clock=utc_now,
        )
        values = SensitiveValues(self.values.informer)
        kinds = TenantKinds(self._targets(control), self.options.privileges)
        tenants = TenantPlanner(
            control=control,
            applier=self._applier(control),
            remover=Remover(kinds.targets, kinds.privileges, self._pools, utc_now),
            kinds=kinds,
            renderer=self.renderer,
            templates=self.templates,
            definitions=definitions,
            grouping=grouping,
            logger=self.logger,
            pruning=PruningHolds(self.registries.informer.store, freezes),
            generated=values.generated,
            writes=writes,
        )
        return FleetPlanner(sync, tenants, blueprints, values, grouping, freezes.hold)

    @property
    def _pools(self) -> WorkerPools:
        return WorkerPools(per_type=1, total=1)

    def _alive(self, uid: str) -> bool:
        stores = (self.tenants.informer.store, self.registries.informer.store)
        return any(store.count("uid", uid) for store in stores)

    def _targets(self, control: DryRunControl) -> TargetClusters:
        local = TargetCluster(
            control=control,
            patcher=_NoPatches(self.cluster.client, FIELD_MANAGER),
            objects=ObjectReader(self.cluster.cache),
            kinds=self.children,
        )
        return TargetClusters(local)

    def _applier(self, control: DryRunControl) -> Applier:
        return Applier(
            targets=self._targets(control),
            pools=self._pools,
            timers=ReadinessTimers(),
            grants=Grants(lambda _request, _why: None, lambda _request: None),
            privileges=self.options.privileges,
            namespaces=lambda name: self.children.get(NAMESPACE, name, namespace=""),
            clock=utc_now,
        )

    async def read(self, request: Request, registry: TenantRegistry) -> Reading:
        """Read the rows of the registry's source. Raises SourceError and PlanError."""
        if problems := mapping_problems(registry.spec):
            raise PlanError("; ".join(problems))
        queries = Queries(
            sources=self.sources,
            secrets=WatchedSecrets(self.cluster.cache, lambda _users: None),
            metrics=TenancyMetrics(CollectorRegistry()),
            clock=monotonic,
            sqlite_root=self.options.sqlite_root,
            types=self.types,
            recorded=positions_in(self.tenants.informer.store),
        )
        return await queries.run(request, registry)

    async def close(self) -> None:
        """End the informers and close all connections."""
        await self.children.close()
        await self.renderer.close()
        await self.sources.close()
        await self.cluster.close(flush=0)


@asynccontextmanager
async def _connected(
    config: Config, options: TenancyOptions, logger: FilteringBoundLogger
) -> AsyncIterator[_Parts]:
    """Read what plans need. Every write of the cluster's clients is a dry run."""
    deps = ClusterDeps(logger=logger, intercepted=without_writes)
    parts = _Parts(Cluster("", config, fence=None, deps=deps), options, logger)
    try:
        await parts.cluster.start()
        await parts.cluster.wait_synced(SYNC_TIMEOUT)
        yield parts
    finally:
        await parts.close()


async def plan_tenants(
    config: Config, options: TenancyOptions, wanted: PlanRequest, logger: FilteringBoundLogger
) -> ChangePlan:
    """Plan a registry's tenants. Raises PlanError, SourceError and the client's errors."""
    async with _connected(config, options, logger) as parts:
        template = wanted.template
        if template is not None:
            parts.templates.changed = await as_stored(
                parts.cluster.live_client, template, wanted.namespace
            )
        name = wanted.registry or (template.spec.registry_id if template is not None else "")
        entry = parts.registries.informer.store.get(name, namespace=wanted.namespace)
        if entry is None:
            raise PlanError(
                f"there is no TenantRegistry {name!r} in namespace {wanted.namespace!r}"
            )
        entry, uncounted = reported(entry, RULES)
        owner = f"{TenantRegistry.gvk().group_kind}/{wanted.namespace}/{name}"
        parts.children.use(owner, frozenset({SECRET.gvk}))
        await parts.children.mapping(SECRET.gvk, owner)
        reading = None
        if wanted.registry:
            request = Request(name, namespace=wanted.namespace)
            reading = await parts.read(request, entry.typed(TenantRegistry))
        only = "" if wanted.registry or template is None else template.metadata.name or ""
        freezes = await read_freezes(parts.cluster.live_client, FrozenSystem.TENANCY)
        planner = parts.planner(freezes)
        found = await planner.plan(entry, reading, only)
        found.notes += [*freezes.notes, *([uncounted] if uncounted else [])]
        if wanted.confirm:
            await planner.confirm(found)
        return found

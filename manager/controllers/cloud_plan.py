"""Plans of the cloud system: the parts of its controllers, wired to a cluster that nothing is written to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError
from structlog.typing import FilteringBoundLogger

from apis.cloud import FleetRollout, Instance
from apis.operations import FrozenSystem
from ctrlruntime.cache import Entry, InformerHandle
from ctrlruntime.cache.store import NAMESPACE
from ctrlruntime.client.config import Config
from ctrlruntime.clock import utc_now
from ctrlruntime.cluster.cluster import Cluster, ClusterDeps
from ctrlruntime.resources.change_plan import ChangePlan, Grouping, PlanError
from ctrlruntime.resources.dry_run import DryRunControl, PlannedWrite
from internal.cloud.instance.bundles import Bundles
from internal.cloud.instance.domains import Domains
from internal.cloud.instance.reading import Preconditions
from internal.cloud.labels import FIELD_MANAGER
from internal.cloud.planning.instances import (
    InstancePlanner,
    PlannedChildren,
    PlannedPatch,
    PlannedWalk,
)
from internal.cloud.planning.rollouts import RolloutPlanner
from internal.cloud.rollouts.strategy import InvalidRollout
from internal.cloud.subresources import SUBRESOURCES
from internal.cloud.tasks.settings import SettingsError
from internal.cloud.terraform_types import TerraformTypes
from manager.controllers.cloud_parts import DeclaredKinds, declare_kinds
from manager.controllers.plan_client import SYNC_TIMEOUT, as_stored, without_writes
from manager.controllers.plan_freezes import PlannedFreezes, read_freezes
from manager.controllers.terraform_types import read_types

Target = Instance | FleetRollout


@dataclass(slots=True)
class _Parts:
    """What plans need of one cluster."""

    cluster: Cluster
    types: TerraformTypes
    """What the types of infrastructure stand for."""
    declared: DeclaredKinds = field(init=False)
    rollouts: InformerHandle = field(init=False)

    def __post_init__(self) -> None:
        cache = self.cluster.cache
        self.declared = declare_kinds(cache, SUBRESOURCES)
        self.rollouts = cache.declare(FleetRollout)

    def instances(self, freezes: PlannedFreezes) -> InstancePlanner:
        """Wire the planner of instances."""
        writes: list[PlannedWrite] = []
        patches: list[PlannedPatch] = []
        cache, store = self.cluster.cache, self.declared.instances.informer.store
        control = DryRunControl(
            cache,
            field_manager=FIELD_MANAGER,
            on_write=writes.append,
            alive=lambda uid: bool(store.count("uid", uid)),
        )
        children = PlannedChildren(cache, self.cluster.client, control, patches)
        return InstancePlanner(
            walk=PlannedWalk(SUBRESOURCES, children, self.types),
            control=control,
            preconditions=Preconditions(
                Domains(store).conflict,
                Bundles(self.declared.config_maps.informer.store),
                self.types,
            ),
            hold=freezes.hold,
            clock=utc_now,
            grouping=Grouping(),
            writes=writes,
            patches=patches,
        )

    async def plan(self, kind: type[Target], entry: Entry, *, confirm: bool) -> ChangePlan:
        """Plan an object as `entry` has it. Raises PlanError and the client's errors."""
        freezes = await read_freezes(self.cluster.live_client, FrozenSystem.CLOUD)
        found = await self._plan(kind, entry, freezes, confirm=confirm)
        found.notes += freezes.notes
        return found

    async def _plan(
        self, kind: type[Target], entry: Entry, freezes: PlannedFreezes, *, confirm: bool
    ) -> ChangePlan:
        instances = self.instances(freezes)
        if kind is Instance:
            store = self.declared.instances.informer.store
            before = store.get(entry.name, namespace=entry.namespace)
            found = await instances.changed(entry, before)
            if confirm:
                await instances.confirm(found)
            return found
        planner = RolloutPlanner(instances, self.cluster.live_client, utc_now)
        try:
            found = await planner.plan(
                entry,
                self.rollouts.informer.store.by_index(NAMESPACE, entry.namespace),
                self.declared.instances.informer.store.by_index(NAMESPACE, entry.namespace),
                freezes.hold(entry),
            )
        except (InvalidRollout, ValidationError) as error:
            raise PlanError(f"the FleetRollout {entry.name!r} cannot be used: {error}") from error
        if confirm:
            await planner.confirm(found)
        return found

    def stored(self, kind: type[Target], name: str, namespace: str) -> Entry:
        """Return an object of the cache. Raises PlanError."""
        handle = self.declared.instances if kind is Instance else self.rollouts
        entry = handle.informer.store.get(name, namespace=namespace)
        if entry is None:
            raise PlanError(f"there is no {kind.__name__} {name!r} in namespace {namespace!r}")
        return entry


@asynccontextmanager
async def _connected(
    config: Config, logger: FilteringBoundLogger, types_file: Path | None
) -> AsyncIterator[_Parts]:
    """Read what plans need. Every write of the cluster's clients is a dry run. Raises PlanError."""
    try:
        types = read_types(types_file)
    except SettingsError as error:
        raise PlanError(f"{types_file}: {error}") from error
    deps = ClusterDeps(logger=logger, intercepted=without_writes)
    parts = _Parts(Cluster("", config, fence=None, deps=deps), types)
    try:
        await parts.cluster.start()
        await parts.cluster.wait_synced(SYNC_TIMEOUT)
        yield parts
    finally:
        await parts.cluster.close(flush=0)


async def plan_changed(
    config: Config,
    logger: FilteringBoundLogger,
    changed: Target,
    namespace: str,
    *,
    confirm: bool = True,
    types_file: Path | None = None,
) -> ChangePlan:
    """Plan an Instance or a FleetRollout that is not stored. Raises PlanError and the client's errors."""
    async with _connected(config, logger, types_file) as parts:
        entry = await as_stored(parts.cluster.live_client, changed, namespace)
        return await parts.plan(type(changed), entry, confirm=confirm)


async def plan_stored(
    config: Config,
    logger: FilteringBoundLogger,
    kind: type[Target],
    name: str,
    namespace: str,
    *,
    confirm: bool = True,
    types_file: Path | None = None,
) -> ChangePlan:
    """Plan an Instance or a FleetRollout of the server. Raises PlanError and the client's errors."""
    async with _connected(config, logger, types_file) as parts:
        return await parts.plan(kind, parts.stored(kind, name, namespace), confirm=confirm)

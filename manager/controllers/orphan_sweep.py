"""Sweeps objects of the hub whose owner is gone from the data plane; work of the role `workers`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import CollectorRegistry, Gauge

from apis.fleet.labels import APPROVE_ORPHANS
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.cache.cache import InformerHandle
from ctrlruntime.cache.entry import Entry
from ctrlruntime.cache.informer import Informer
from ctrlruntime.client.errors import APIError, Conflict, NotFound, TransportError
from ctrlruntime.gate import Cause, Evidence
from ctrlruntime.manager import Manager
from ctrlruntime.resources import OWNER, OwnerKey, owner_key, removal_of, remove_object
from internal.fleet.orphans import DELAY, OrphanSweep, Sweep
from manager.controllers.hub import Hub
from manager.plane_objects import ON_HUB, OWNERS, goes_with_owner

PERIOD: Final = 60.0
"""Seconds between two looks, which cost no request."""
NAMESPACE: Final = BUILTIN[GroupVersionKind("", "v1", "Namespace")]


class SweepMetrics:
    """What the sweep finds on the hub."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.orphans = Gauge(
            "fleet_orphans",
            "Owners that are gone from the data plane and have objects on the hub, such as Tenants, CosmosFullNodes and Instances.",
            registry=registry,
        )
        self.held = Gauge(
            "fleet_orphans_held",
            "Owners whose objects are deleted only once their number is approved.",
            registry=registry,
        )
        self.objects = Gauge(
            "fleet_data_plane_objects",
            "Objects on the hub that belong to the data plane.",
            registry=registry,
        )


@dataclass(slots=True)
class OrphanSweeper:
    """Looks at the caches; reads live, and deletes, only what has been gone for long enough."""

    manager: Manager
    hub: Hub
    objects: dict[RESTMapping, InformerHandle]
    owners: dict[str, tuple[RESTMapping, InformerHandle]]
    """By `Kind.group`."""
    metrics: SweepMetrics
    period: float = PERIOD
    clock: Callable[[], float] = time.monotonic
    sweep: OrphanSweep = field(default_factory=OrphanSweep)

    def __repr__(self) -> str:
        return "OrphanSweeper()"

    async def start(self) -> None:
        """Sweep until cancelled."""
        while True:
            try:
                await self.look()
            except (APIError, TransportError) as error:
                self.manager.logger.warning("Orphans not swept", error=str(error))
            await asyncio.sleep(self.period)

    async def look(self) -> Sweep:
        """Sweep once. Raises the client's errors."""
        if not self.hub.cluster.cache.synced or self.hub.unreachable() is not None:
            return Sweep()
        found = self._by_owner()
        self.metrics.objects.set(sum(len(each.informer.store) for each in self.objects.values()))
        now = self.clock()
        made = self.sweep.look(found, self._living(), now)
        if made.held:
            made = self.sweep.look(found, self._living(), now, await self._approved())
        self.metrics.orphans.set(len(made.orphaned))
        self.metrics.held.set(made.held)
        for owner in sorted(made.reported):
            self.manager.logger.warning(
                "Owner of objects on the hub is gone", owner=owner, objects=len(found[owner])
            )
        if made.held:
            self.manager.logger.warning(
                "Orphans held: approve their number by annotation of the target namespace",
                orphans=made.held,
                annotation=APPROVE_ORPHANS,
                namespace=self.hub.options.target_namespace,
            )
        for owner in sorted(made.scheduled):
            if await self._is_gone(owner):
                await self._delete(found[owner], owner)
        return made

    def _by_owner(self) -> dict[str, list[tuple[RESTMapping, Entry]]]:
        """Return the objects that go with their owner, by the owner that they record."""
        found: dict[str, list[tuple[RESTMapping, Entry]]] = {}
        known = {kind for kind, (_, handle) in self.owners.items() if _is_known(handle.informer)}
        for mapping, handle in self.objects.items():
            for entry in handle.informer.store.list():
                if goes_with_owner(entry.annotations, entry.labels, self.hub.data_plane):
                    owner = entry.annotations[OWNER]
                    key = OwnerKey.parse(owner)
                    if key is None or key.kind not in known:
                        continue
                    found.setdefault(owner, []).append((mapping, entry))
        return found

    def _living(self) -> set[str]:
        return {
            owner_key(mapping.gvk, each.name, namespace=each.namespace, cluster=self.hub.data_plane)
            for mapping, handle in self.owners.values()
            for each in handle.informer.store.list()
        }

    async def _approved(self) -> int:
        """Return the number of owners that the target namespace's annotation approves."""
        client = self.hub.cluster.live_client
        found = await client.get(NAMESPACE, self.hub.options.target_namespace, metadata_only=True)
        text = str((found["metadata"].get("annotations") or {}).get(APPROVE_ORPHANS, ""))
        return int(text) if text.isdecimal() else 0

    async def _is_gone(self, owner: str) -> bool:
        """Whether the data plane itself has no owner of that name, by a live read."""
        key = OwnerKey.parse(owner)
        assert key is not None  # noqa: S101 - the keys that _by_owner returns
        mapping, _ = self.owners[key.kind]
        try:
            await self.manager.live_client.get(
                mapping, key.name, namespace=key.namespace, metadata_only=True
            )
        except NotFound as error:
            return error.details.get("name") == key.name  # else the kind is gone, not the owner
        return False

    async def _delete(self, objects: list[tuple[RESTMapping, Entry]], owner: str) -> None:
        client = self.hub.cluster.client
        for mapping, entry in objects:
            # The data plane was read live: it has no such owner.
            removal = removal_of(
                mapping, entry.metadata(), Cause.PARENT_DELETED, Evidence.CERTAIN, parent=owner
            )
            try:
                await remove_object(client, mapping, removal, propagation="Background")
            except (NotFound, Conflict):
                continue
        self.manager.logger.info("Orphans deleted", owner=owner, objects=len(objects))


def _is_known(informer: Informer) -> bool:
    """Whether it is known which objects of a kind there are: none, where the kind is not served."""
    return informer.missing_since is not None or (informer.synced and not informer.restarting)


def add_orphan_sweep(
    manager: Manager, hub: Hub, *, period: float = PERIOD, delay: float = DELAY
) -> OrphanSweeper:
    """Declare what is looked at, and sweep while this process is elected."""
    sweeper = OrphanSweeper(
        manager=manager,
        hub=hub,
        objects={each: hub.cluster.cache.declare(each, metadata_only=True) for each in ON_HUB},
        owners={
            str(kind.gvk().group_kind): (
                kind.mapping(),
                manager.cache.declare(kind, metadata_only=True),
            )
            for kind in OWNERS
        },
        metrics=SweepMetrics(manager.metrics.registry),
        period=period,
        sweep=OrphanSweep(delay),
    )
    manager.add(sweeper)
    return sweeper

"""Sweeps objects of the hub whose owner is gone from the data plane; work of the role `workers`."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import ceil
from typing import Final, TypeAlias

from prometheus_client import CollectorRegistry, Gauge

from apis.fleet.labels import APPROVE_ORPHANS, DATA_PLANE
from ctrlruntime.api import BUILTIN, GroupVersionKind, RESTMapping
from ctrlruntime.cache import Entry, Informer, InformerHandle
from ctrlruntime.client.errors import APIError, Conflict, Forbidden, NotFound, TransportError
from ctrlruntime.clock import monotonic, utc_now
from ctrlruntime.gate import Cause, Evidence, Hold, Permit, Removal
from ctrlruntime.manager import Manager
from ctrlruntime.resources import (
    OWNER,
    OwnerKey,
    delete_permitted,
    evidence_of,
    owner_key,
    removal_of,
)
from internal.fleet.orphans import (
    DELAY,
    OrphanSweep,
    Sweep,
    SweepRecord,
    decide_few,
    decide_held,
    hold_of,
    with_holds,
)
from manager.commands.other_planes import Elsewhere, OtherPlanes
from manager.commands.plane_objects import ON_HUB, OWNERS, STACK_MANAGERS, goes_with_owner
from manager.controllers.hub import Hub
from manager.controllers.orphan_record import OrphanRecord

PERIOD: Final = 60.0
"""Seconds between two looks, which cost no request."""
NAMESPACE: Final = BUILTIN[GroupVersionKind("", "v1", "Namespace")]
Found: TypeAlias = dict[str, list[tuple[RESTMapping, Entry]]]
"""Objects of the hub, by the key of their owner."""


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
            "Owners whose objects are deleted only once their set is approved.",
            registry=registry,
        )
        self.objects = Gauge(
            "fleet_data_plane_objects",
            "Objects on the hub that belong to the data plane.",
            registry=registry,
        )


@dataclass(slots=True)
class OrphanSweeper:
    """Looks at the caches; reads live, and deletes, only what has been gone for long enough.

    Owners that are gone are read once more on every data plane when they are first seen, and before anything of them goes.
    """

    manager: Manager
    hub: Hub
    objects: dict[RESTMapping, InformerHandle]
    owners: dict[str, tuple[RESTMapping, InformerHandle]]
    """By `Kind.group`."""
    metrics: SweepMetrics
    period: float = PERIOD
    clock: Callable[[], float] = monotonic
    utc: Callable[[], datetime] = utc_now
    sweep: OrphanSweep = field(default_factory=OrphanSweep)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _record: SweepRecord | None = field(default=None, init=False)
    _version: str = field(default="", init=False)
    """Of the record as it was loaded or saved; empty: load it."""
    _explained: set[str] = field(default_factory=set, init=False)
    """Owners that are no orphans, although their data plane has them not: they have moved."""
    _written: set[str] = field(default_factory=set, init=False)
    """UIDs of orphans' objects that a stack has written; a copy that a person made is none."""
    _unsure: frozenset[str] = field(default=frozenset(), init=False)
    """Owners that another data plane may have, as of the last look."""

    def __repr__(self) -> str:
        return "OrphanSweeper()"

    async def start(self) -> None:
        """Sweep until cancelled."""
        while True:
            try:
                await self.look()
            except (APIError, TransportError, ValueError) as error:
                self.manager.logger.warning("Orphans not swept", error=str(error))
            await asyncio.sleep(self.period)

    async def look(self) -> Sweep:
        """Sweep once. Raises the client's errors, and ValueError for a record that cannot be read."""
        async with self._turn:
            return await self._look()

    async def _look(self) -> Sweep:
        if not self.hub.cluster.cache.synced or self.hub.unreachable() is not None:
            return Sweep()
        found, unknown = self._by_owner()
        self.metrics.objects.set(sum(len(each.informer.store) for each in self.objects.values()))
        gone = frozenset(found.keys() - self._living() - unknown)
        self._explained &= gone
        self._written &= {entry.uid for owner in gone for _, entry in found[owner]}
        orphaned = gone - self._explained
        reported, long_gone = self.sweep.look(orphaned, self.clock())
        if reported:
            orphaned = await self._look_closer(found, orphaned, reported)
        self.metrics.orphans.set(len(orphaned))
        record = await self._held(found, orphaned, unknown)
        due = long_gone & orphaned
        made = await self._sweep(found, orphaned, due, record)
        self.metrics.held.set(made.held)
        if made.hold is not None:
            self.manager.logger.warning(
                "Orphans held", orphans=made.held, message=self._store.message(made.hold)
            )
        return replace(made, orphaned=frozenset(orphaned), reported=reported & orphaned)

    async def _look_closer(
        self, found: Found, orphaned: AbstractSet[str], reported: AbstractSet[str]
    ) -> frozenset[str]:
        """Read what there is of owners that were not gone before. Return the orphans without those that have moved."""
        for owner, elsewhere in (await self._others.find(reported)).items():
            if elsewhere is Elsewhere.MOVED:
                self._explained.add(owner)
                self.manager.logger.warning(
                    "Owner has moved to another data plane; its objects on the hub record the former one and stay",
                    owner=owner,
                )
        # Per namespace: where the reading of Secrets is restricted, no other list of them is allowed.
        places = {
            (mapping, entry.namespace) for owner in reported for mapping, entry in found[owner]
        }
        client, selected = self.hub.cluster.live_client, f"{DATA_PLANE}={self.hub.data_plane}"
        for mapping, place in places:
            for item in await client.list(mapping, place, labels=selected, metadata_only=True):
                metadata = item["metadata"]
                if evidence_of(metadata, STACK_MANAGERS) is Evidence.CERTAIN:
                    self._written.add(metadata["uid"])
        for owner in sorted(reported - self._explained):
            self.manager.logger.warning(
                "Owner of objects on the hub is gone", owner=owner, objects=len(found[owner])
            )
        return frozenset(orphaned - self._explained)

    async def _held(
        self, found: Found, orphaned: AbstractSet[str], unknown: AbstractSet[str]
    ) -> SweepRecord:
        """Return the record of what waits from now on, as it is stored."""
        if not self._version:
            self._record, self._version = await self._store.load()
        before = self._record
        record = with_holds(
            before, orphaned=orphaned, owners=found, unknown=unknown, now=self.utc()
        )
        if before is None and (given := await self._approval()):
            # It may have been used, which the record that is lost had.
            used = {given: ceil(self.utc().timestamp())}
            record = replace(record, budget=replace(record.budget, used=used))
        waiting = record.held.keys() & found.keys()
        record = record.with_approved({each.uid for each in self._removals(found, waiting)})
        if before is None or record.held != before.held:
            hold = self._hold(found, orphaned & record.held.keys(), record)
            try:
                await self._save(record, hold)
            except (NotFound, Forbidden) as error:
                if orphaned:
                    raise
                self._record = record
                self.manager.logger.warning("No record of orphans can be kept", error=str(error))
        return record

    async def _sweep(
        self, found: Found, orphaned: AbstractSet[str], due: AbstractSet[str], record: SweepRecord
    ) -> Sweep:
        """Delete what is permitted; that is stored before."""
        held = orphaned & (record.held.keys() | self._unsure)
        hold = self._hold(found, held, record)
        approval = await self._approval() if held else ""
        approved = hold is not None and held <= due and approval == hold.digest
        going = held if approved else self._resumed(found, held, record)
        few = due - record.held.keys() - going
        certain, self._unsure = await self._confirm(few | (going & due))
        permits: list[Permit] = []
        if going and going <= certain | self._unsure:
            removals = self._removals(found, going, partial=self._unsure)
            record, granted = decide_held(
                record, removals, approval if approved else "", now=self.utc()
            )
            permits += granted
        if few & certain:
            removals = self._removals(found, few & certain)
            record, granted = decide_few(record, removals, owners=len(found), now=self.utc())
            permits += granted
        permitted = {each.removal.member for each in permits}
        held = (orphaned & (record.held.keys() | self._unsure)) - permitted - self._explained
        hold = self._hold(found, held, record)
        if record != self._record:
            await self._save(record, hold)
        await self._delete(found, permits)
        count = 0 if hold is None else hold.count
        return Sweep(scheduled=frozenset(few | going), held=count, hold=hold)

    def _resumed(self, found: Found, held: AbstractSet[str], record: SweepRecord) -> frozenset[str]:
        """Return the owners of which an approved set was cut short; within an hour it goes on."""
        return frozenset(
            each.member
            for each in self._removals(found, held)
            if each.uid in record.budget.approved
        )

    async def _confirm(self, owners: AbstractSet[str]) -> tuple[frozenset[str], frozenset[str]]:
        """Return those of the owners that no data plane has, by live reads, and those of which that is not certain.

        It is not where a data plane cannot be asked, or has an owner of that name.
        """
        gone = {owner for owner in sorted(owners) if await self._is_gone(owner)}
        certain, unsure = set(), set()
        for owner, elsewhere in (await self._others.find(gone)).items():
            if elsewhere is Elsewhere.MOVED:
                self._explained.add(owner)
            elif elsewhere is Elsewhere.NOTHING:
                certain.add(owner)
            else:
                unsure.add(owner)
        return frozenset(certain), frozenset(unsure)

    def _hold(self, found: Found, owners: AbstractSet[str], record: SweepRecord) -> Hold | None:
        """Return what waits, with the digest that approves it; None if nothing does."""
        return hold_of(record, self._removals(found, owners), now=self.utc())

    def _removals(
        self, found: Found, owners: Iterable[str], partial: Collection[str] = ()
    ) -> list[Removal]:
        """Return the removals of all that stacks have written for some owners; of `partial` ones another plane may have some."""
        parent = f"Namespace/{self.hub.options.target_namespace}"
        return [
            replace(
                removal_of(
                    mapping,
                    entry.metadata(),
                    Cause.PARENT_DELETED,
                    Evidence.PARTIAL if owner in partial else Evidence.CERTAIN,
                    parent=parent,
                ),
                member=owner,
            )
            for owner in sorted(owners)
            for mapping, entry in found[owner]
            if entry.uid in self._written
        ]

    def _by_owner(self) -> tuple[Found, frozenset[str]]:
        """Return the objects that go with their owner, by the owner that they record, and the owners of unread kinds."""
        found: Found = {}
        known = {kind for kind, (_, handle) in self.owners.items() if _is_known(handle.informer)}
        unknown = set()
        for mapping, handle in self.objects.items():
            for entry in handle.informer.store.list():
                if entry.deletion_timestamp is None and goes_with_owner(
                    entry.annotations, entry.labels, self.hub.data_plane
                ):
                    owner = entry.annotations[OWNER]
                    key = OwnerKey.parse(owner)
                    if key is None or key.kind not in self.owners:
                        continue
                    if key.kind not in known:
                        unknown.add(owner)
                    found.setdefault(owner, []).append((mapping, entry))
        return found, frozenset(unknown)

    def _living(self) -> set[str]:
        return {
            owner_key(mapping.gvk, each.name, namespace=each.namespace, cluster=self.hub.data_plane)
            for mapping, handle in self.owners.values()
            for each in handle.informer.store.list()
        }

    @property
    def _store(self) -> OrphanRecord:
        return OrphanRecord(self.hub.cluster.live_client, self.hub.options.target_namespace)

    @property
    def _others(self) -> OtherPlanes:
        return OtherPlanes(
            hub=self.hub.cluster.live_client,
            own=self.hub.data_plane,
            kinds={kind: mapping for kind, (mapping, _) in self.owners.items()},
            own_namespace=self.hub.options.target_namespace,
            plane=self.manager.live_client,
        )

    async def _save(self, record: SweepRecord, hold: Hold | None) -> None:
        """Store the record. After an error it is loaded anew. Raises the client's errors."""
        version, self._version = self._version, ""
        self._version = await self._store.save(record, hold, version)
        self._record = record

    async def _approval(self) -> str:
        """Return the text of the target namespace's annotation that approves; empty without one, and without the namespace."""
        client = self.hub.cluster.live_client
        try:
            found = await client.get(
                NAMESPACE, self.hub.options.target_namespace, metadata_only=True
            )
        except NotFound:
            return ""
        return str((found["metadata"].get("annotations") or {}).get(APPROVE_ORPHANS, ""))

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

    async def _delete(self, found: Found, permits: Iterable[Permit]) -> None:
        client = self.hub.cluster.client
        deleted: Counter[str] = Counter()
        mappings = {entry.uid: mapping for each in found.values() for mapping, entry in each}
        for permit in permits:
            removal = permit.removal
            try:
                await delete_permitted(
                    client, mappings[removal.uid], permit, propagation="Background"
                )
            except (NotFound, Conflict):
                continue
            deleted[removal.member] += 1
        for owner, objects in sorted(deleted.items()):
            self.manager.logger.info("Orphans deleted", owner=owner, objects=objects)


@dataclass(slots=True)
class LeaderSweep:
    """A runnable that sweeps while this member leads. Only then it caches what all members have on the hub."""

    manager: Manager
    hub: Hub

    async def start(self) -> None:
        """Sweep until cancelled."""
        await make_orphan_sweep(self.manager, self.hub).start()


def _is_known(informer: Informer) -> bool:
    """Whether it is known which objects of a kind there are: none, where the kind is not served."""
    return informer.missing_since is not None or (informer.synced and not informer.restarting)


def add_orphan_sweep(
    manager: Manager, hub: Hub, *, period: float = PERIOD, delay: float = DELAY
) -> OrphanSweeper:
    """Declare what is looked at, and sweep while this process is elected."""
    sweeper = make_orphan_sweep(manager, hub, period=period, delay=delay)
    manager.add(sweeper)
    return sweeper


def make_orphan_sweep(
    manager: Manager, hub: Hub, *, period: float = PERIOD, delay: float = DELAY
) -> OrphanSweeper:
    """Declare what is looked at."""
    return OrphanSweeper(
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

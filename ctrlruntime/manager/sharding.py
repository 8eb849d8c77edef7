"""The slots of a manager, and what it does when they come and go: its caches, then its controllers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from ctrlruntime.cache.cache import Cache
from ctrlruntime.clock import boottime
from ctrlruntime.controller.controller import Controller
from ctrlruntime.manager.endpoints import Endpoints
from ctrlruntime.manager.leadership import Leadership
from ctrlruntime.manager.options import lease_namespace
from ctrlruntime.manager.shared_lease import SHARED_HOLDER

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from ctrlruntime.client.config import Config
    from ctrlruntime.cluster.cluster import Cluster
    from ctrlruntime.events.recorder import EventRecorder
    from ctrlruntime.manager.metrics import Metrics
    from ctrlruntime.manager.options import ManagerOptions
    from ctrlruntime.sharding.shards import Shards


SHARD_VERBS = ("create", "delete", "get", "list", "update", "watch")
"""What members do with the Leases of their group."""


def leader_options(
    options: ManagerOptions,
) -> tuple[ManagerOptions, Sequence[tuple[str, str, str]]]:
    """Return the options by which the leader is elected, and the Leases that it holds together with others.

    Members elect their leader by a Lease of their own, and all of them, the leader too, hold that of a manager without
    slots: it would work on every object, so it never leads beside a member, nor does a member begin beside it.
    """
    if options.sharding is None:
        return options, ()
    name = options.leader_election_id
    alone = replace(options, leader_election_id=f"{name}-shards", leader_election_shared_id="")
    return alone, held_together(options)


def held_together(options: ManagerOptions) -> Sequence[tuple[str, str, str]]:
    """Return namespace, name and identity of the Leases that members hold together: those of managers that work alone.

    Members of another group are kept out like those: each group divides all slots, and would work on what this one works on.
    """
    if not options.leader_election or options.sharding is None:
        return ()
    every = options.leader_election_shared_identity or SHARED_HOLDER
    own = options.leader_election_shared_identity or f"{SHARED_HOLDER}-{options.sharding.group}"
    held = ((options.leader_election_id, own), (options.leader_election_shared_id, every))
    return [(lease_namespace(options), name, identity) for name, identity in held if name]


class ShardedHost(Protocol):
    """What slots need of a manager."""

    config: Config
    options: ManagerOptions
    metrics: Metrics
    recorder: EventRecorder
    logger: FilteringBoundLogger
    cache: Cache

    @property
    def controllers(self) -> tuple[Controller, ...]: ...
    def engaged_clusters(self) -> tuple[Cluster, ...]: ...


def make_shards(
    manager: ShardedHost,
    leadership: Leadership | None,
    endpoints: Endpoints,
    failed: Callable[[Exception], None],
) -> Shards | None:
    """Return the slots of a manager, which take part in its caches, controllers and health; None without `sharding`."""
    options = manager.options.sharding
    if options is None:
        return None
    from ctrlruntime.sharding.shards import ShardDeps, Shards  # loaded by who needs it

    def leads() -> bool:
        return leadership is not None and boottime() <= leadership.term.may_write_until

    def caches() -> Iterable[Cache]:
        return [manager.cache, *(each.cache for each in manager.engaged_clusters())]

    async def catch_up() -> None:
        informers = [each for cache in caches() for each in cache.informers()]
        await asyncio.gather(*(each.catch_up() for each in informers))

    deps = ShardDeps(
        config=manager.config,
        manager=manager.options,
        metrics=manager.metrics,
        recorder=manager.recorder,
        logger=manager.logger,
        failed=failed,
        together=held_together(manager.options),
        leads=leads,
        catch_up=catch_up,
    )
    shards = Shards(options, deps)
    endpoints.add_check("shards", shards.check)
    shards.subscribe(ManagerHandOver(caches, lambda: manager.controllers))
    return shards


class ManagerHandOver:
    """A SlotHandOver over what a manager has at the time."""

    def __init__(
        self,
        caches: Callable[[], Iterable[Cache]],
        controllers: Callable[[], Iterable[Controller]],
    ) -> None:
        self._caches = caches
        self._controllers = controllers

    async def take(self, slots: frozenset[int]) -> None:
        """List slots in every cache; controllers keep what the lists bring. Raises what a list raises."""
        for controller in self._controllers():
            controller.expect_slots(slots)
        await asyncio.gather(*(cache.take_slots(slots) for cache in self._caches()))

    def begin(self, slots: frozenset[int]) -> None:
        """Have controllers work on slots that are held now."""
        for controller in self._controllers():
            controller.begin_slots(slots)

    async def release(self, slots: frozenset[int]) -> None:
        """Let passes that run end, then forget the objects of slots."""
        await asyncio.gather(*(each.release_slots(slots) for each in self._controllers()))
        await asyncio.gather(*(cache.drop_slots(slots) for cache in self._caches()))

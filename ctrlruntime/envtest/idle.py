"""Wait until a manager has nothing left to do. This is a state, not a time without requests.

manager = await run_manager(setup, Site)
await client.create(site)
await idle(manager, client)
assert proxy.log.since(mark).writes == 1
"""

from __future__ import annotations

import asyncio
import math
from asyncio import sleep
from collections.abc import Iterator, Mapping
from contextlib import aclosing
from typing import Final

import msgspec

from ctrlruntime.cache.entry import Key
from ctrlruntime.cache.informer import Informer
from ctrlruntime.cache.versions import number, version
from ctrlruntime.client.calling import METADATA_ONLY_LIST
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import Forbidden, NotFound
from ctrlruntime.client.reads import selector_params
from ctrlruntime.client.transport import list_meta
from ctrlruntime.cluster.cluster import Cluster
from ctrlruntime.cluster.selection import LOCAL_NAME
from ctrlruntime.controller.controller import Controller
from ctrlruntime.envtest.eventually import TIMEOUT
from ctrlruntime.manager import Manager

WITHIN: Final = 0.25
"""Seconds: a request that is delayed by less is waited for, as retries and short batches are."""
PAUSE: Final = 0.002
"""Seconds from one check to the next while the manager is at work."""
_PAGE: Final = 500


async def idle(
    manager: Manager,
    client: Client,
    *,
    clusters: Mapping[str, Client] | None = None,
    within: float = WITHIN,
    lost_after: float = math.inf,
    timeout: float = TIMEOUT,
) -> None:
    """Wait until a manager that runs on this loop has nothing left to do, and return at once when it has.

    It is idle when every controller's queue is empty and no reconcile runs; no request of its clients is
    under way and no event is to be sent; each informer's store holds exactly what the server has of its
    kind and selection, so that no watch event is on its way; and no delayed request is ready within
    `within` seconds of the call, or of what the manager sent last; delays count, and not what else takes time
    on a slow machine. So a retry or a batch is waited for, a poll with a longer period is not; set `within` to
    wait for longer delays. Where a test loses events on
    purpose, those that have not come after `lost_after` seconds without any work are not waited for.

    `client` lists the informed kinds, so it must not be the manager's own: its requests would be counted.
    `clusters` are clients of engaged clusters by name; the informers of clusters without one are left
    out. Timers that are no requests of a queue, and work of other programs, are not waited for.

    Raises AssertionError after `timeout` seconds, with what was left to do.
    """
    watched = _Watched(manager, {LOCAL_NAME: client, **(clusters or {})}, within, lost_after)
    try:
        async with asyncio.timeout(timeout):
            await watched.wait()
    except TimeoutError:
        raise AssertionError(
            f"the manager is not idle after {timeout:g} s: {watched.left}"
        ) from None


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    resource_version: str = ""


class _Item(msgspec.Struct):
    metadata: _Metadata


class _List(msgspec.Struct):
    items: list[_Item] | None = None


_decoder = msgspec.json.Decoder(_List)


class _Watched:
    """A manager that is waited for."""

    def __init__(
        self, manager: Manager, clients: Mapping[str, Client], within: float, lost_after: float
    ) -> None:
        self.left = ""
        self._manager = manager
        self._clients = clients
        self._within = within
        self._lost_after = lost_after
        self._time = asyncio.get_running_loop().time
        self._budget = within
        """Seconds of delays that are waited for yet. What else takes time does not count: a machine may be slow."""
        self._sent = self._requests()
        self._lacking = ""
        """The informers that were behind when they were last looked at."""
        self._lacking_at = 0
        self._lacking_since = 0.0

    async def wait(self) -> None:
        while True:
            before = self._progress()
            if work := next(self._work(), ""):
                await self._pause(work)
            elif (delay := self._delay()) is not None:
                self.left = f"a delayed request in {delay:.3f} s"
                await sleep(delay)
                self._budget -= delay
            elif (behind := await self._behind()) and not self._is_lost(behind):
                await self._pause(behind)
            elif not behind and self._lacking:
                self._lacking = ""
                self._budget = self._within  # what came by now may have delayed a request
            elif before == self._progress() and not any(self._work()):
                return

    def _is_lost(self, behind: str) -> bool:
        """Return whether nothing has changed about informers that are behind for `lost_after` seconds."""
        if (behind, self._sent) != (self._lacking, self._lacking_at):
            self._lacking, self._lacking_at = behind, self._sent
            self._lacking_since = self._time()
        return self._time() >= self._lacking_since + self._lost_after

    async def _pause(self, left: str) -> None:
        self.left = left
        await sleep(PAUSE)

    def _clusters(self) -> list[Cluster]:
        return [self._manager.cluster, *self._manager.engaged_clusters()]

    def _controllers(self) -> Iterator[tuple[str, Controller]]:
        for controller in self._manager.controllers:
            yield from controller.by_cluster().items()

    def _requests(self) -> int:
        return sum(each.sent for each in self._clusters())

    def _progress(self) -> tuple[int, int]:
        """Return what changes whenever the manager does something."""
        ready = sum(each.queue.core.stats.adds for _, each in self._controllers())
        return ready, self._requests()

    def _work(self) -> Iterator[str]:
        """Yield what is under way, without a look at the servers."""
        for name, controller in self._controllers():
            title = f"{controller!r} in {name}" if name else repr(controller)
            if controller.busy:
                yield f"{title} has requests"
            if controller.starting and name in self._clients:
                yield f"{title} is starting"
        for cluster in self._clusters():
            if cluster.under_way:
                yield f"{cluster!r} has requests under way"

    def _delay(self) -> float | None:
        """Return the seconds until the next delayed request that is waited for."""
        if self._sent != (sent := self._requests()):
            self._sent, self._budget = sent, self._within
        delays = [each.ready_in() for _, each in self._controllers()]
        delays += [each.recorder.ready_in() for each in self._clusters()]
        delay = min((each for each in delays if each is not None), default=None)
        return None if delay is None or delay > self._budget else delay

    async def _behind(self) -> str:
        """Return the informers that have not received all that their servers have; empty if each has."""
        behind = [
            f"{informer.gvk} in {cluster!r}"
            for cluster in self._clusters()
            if (client := self._clients.get(cluster.name)) is not None
            for informer in cluster.cache.informers()
            if await _is_behind(informer, client)
        ]
        return f"events on their way to informers of {', '.join(behind)}" if behind else ""


async def _is_behind(informer: Informer, client: Client) -> bool:
    if not informer.synced and not _is_refused(informer):
        return informer.missing_since is None or await _is_served(informer, client)
    for scope in informer.selection.scopes:
        try:
            listed, newest = await _list(informer, client, scope)
        except NotFound:  # the kind is gone; its objects have no events left
            continue
        if _differ(informer, scope, listed, newest) and not _is_refused(informer):
            return True
    return not informer.handlers_synced and informer.synced


def _is_refused(informer: Informer) -> bool:
    return isinstance(informer.last_error, Forbidden)


async def _is_served(informer: Informer, client: Client) -> bool:
    try:
        await _list(informer, client, "")
    except NotFound:
        return False
    return True


async def _list(informer: Informer, client: Client, scope: str) -> tuple[dict[Key, int], int]:
    """Return the versions of all objects that the informer selects in a scope, and the list's own."""
    listed: dict[Key, int] = {}
    newest = 0
    pages = client.transport.list_pages(
        informer.mapping.path(namespace=scope or None),
        selector_params(informer.selection.labels, informer.selection.fields),
        limit=_PAGE,
        headers={"Accept": METADATA_ONLY_LIST},
    )
    async with aclosing(pages):
        async for page in pages:
            newest = number(list_meta(page).resource_version)
            for item in _decoder.decode(page).items or ():
                found = item.metadata
                listed[found.namespace, found.name] = number(found.resource_version)
    return listed, newest


def _differ(informer: Informer, scope: str, listed: Mapping[Key, int], newest: int) -> bool:
    store = informer.store
    if any(version(store.get_by_key(key)) < listed[key] for key in listed):
        return True
    return any(
        entry.key not in listed and version(entry) <= newest
        for entry in store
        if not scope or entry.namespace == scope
    )

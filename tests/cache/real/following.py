"""An informer under test, and the question whether it holds what the server holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ctrlruntime.api.kinds import GroupVersionKind, Manifest
from ctrlruntime.backoff import BackoffOptions
from ctrlruntime.cache.cache import Cache, CacheOptions
from ctrlruntime.cache.entry import Key
from ctrlruntime.cache.events import CreateEvent, DeleteEvent, Event, UpdateEvent
from ctrlruntime.cache.informer import Informer, InformerOptions
from ctrlruntime.cache.observe import NoInformerObserver
from ctrlruntime.cache.reflector import ReflectorOptions
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
SERVICE_ACCOUNT = GroupVersionKind("", "v1", "ServiceAccount")
BEFORE = ("kept", "changed", "deleted", "replaced")
PATIENCE = 90.0
"""Seconds; wide, for busy machines."""


class Restarts(NoInformerObserver):
    """Counts watches that ended."""

    def __init__(self) -> None:
        self.count = 0

    def watch_restarted(self, gvk: GroupVersionKind) -> None:
        self.count += 1


class Following:
    """The informer of a namespace's objects, with what its handlers were called with."""

    def __init__(
        self, cache: Cache, kind: GroupVersionKind, namespace: str, restarts: Restarts
    ) -> None:
        self.kind = kind
        self._restarts = restarts
        self.informer: Informer = cache.declare(kind, namespaces=[namespace]).informer
        self.namespace = namespace
        self.handled: dict[Key, str] = {}
        """Versions by key, made from the events alone."""
        self.unknown_deletions: set[str] = set()
        self.wrong: list[str] = []
        self.informer.add_handler(self._deliver)

    def _deliver(self, event: Event) -> None:
        if isinstance(event, DeleteEvent):
            if self.handled.pop((event.old.namespace, event.old.name), None) is None:
                self.wrong.append(f"{event.old.name} deleted, but it was not there")
            if event.unknown:
                self.unknown_deletions.add(event.old.name)
        elif isinstance(event, CreateEvent | UpdateEvent):
            key = (event.new.namespace, event.new.name)
            if (key in self.handled) is isinstance(event, CreateEvent):
                self.wrong.append(f"{event.new.name}: {type(event).__name__} at the wrong time")
            self.handled[key] = event.new.resource_version

    @property
    def restarts(self) -> int:
        return self._restarts.count

    @property
    def lists(self) -> int:
        return self.informer.stats().lists

    def held(self) -> dict[str, Manifest]:
        return {entry.name: entry.decode() for entry in self.informer.store}

    async def watches(self, admin: Client) -> None:
        """Wait until the watch is there, and not just the first list."""
        await write(admin, self.namespace, "watched", kind=self.kind)
        await self.holds_what(admin)

    async def holds_what(self, admin: Client) -> None:
        """Wait until the store, and what handlers were called with, is what the server has."""
        there: dict[str, Manifest] = {}
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    found = await admin.list(self.kind, self.namespace)
                    there = {each["metadata"]["name"]: plain(each) for each in found}
                    for _ in range(20):
                        if self._equals(there):
                            assert self.wrong == []
                            return
                        await asyncio.sleep(0.05)
        except TimeoutError:
            held = self.held()
            raise AssertionError(
                f"last error: {self.informer.last_error!r}; missing: {there.keys() - held.keys()}, "
                f"left over: {held.keys() - there.keys()}, "
                f"old: {[name for name in held if held[name] != there.get(name)][:5]}"
            ) from None

    def _equals(self, there: dict[str, Manifest]) -> bool:
        versions = {name: each["metadata"]["resourceVersion"] for name, each in there.items()}
        handled = {name: version for (_, name), version in self.handled.items()}
        held = {name: plain(each) for name, each in self.held().items()}
        return held == there and handled == versions


def plain(manifest: Manifest) -> Manifest:
    """Without what the cache leaves out, and what lists do."""
    metadata = {k: v for k, v in manifest["metadata"].items() if k != "managedFields"}
    rest = {k: v for k, v in manifest.items() if k not in ("apiVersion", "kind")}
    return {**rest, "metadata": metadata}


@asynccontextmanager
async def following(
    config: Config,
    namespace: str,
    *,
    kind: GroupVersionKind = CONFIG_MAP,
    inactivity: float = 60.0,
) -> AsyncIterator[Following]:
    """An informer that has synced; it waits briefly after failures."""
    reflector = ReflectorOptions(
        inactivity=inactivity, backoff=BackoffOptions(initial=0.05, cap=0.5)
    )
    options = CacheOptions(informers=InformerOptions(reflector=reflector, resync=None))
    async with Client.connect(config) as client:
        restarts = Restarts()
        cache = Cache(client, options, restarts)
        followed = Following(cache, kind, namespace, restarts)
        await cache.start()
        try:
            await cache.wait_synced(PATIENCE)
            yield followed
        finally:
            await cache.stop()


async def write(
    admin: Client,
    namespace: str,
    *names: str,
    value: str = "1",
    kind: GroupVersionKind = CONFIG_MAP,
) -> None:
    for name in names:
        metadata = {"name": name, "namespace": namespace, "annotations": {"value": value}}
        manifest = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
        await admin.create(manifest)


async def change(
    admin: Client, namespace: str, name: str, value: str, kind: GroupVersionKind = CONFIG_MAP
) -> None:
    await admin.patch(
        kind, name, {"metadata": {"annotations": {"value": value}}}, namespace=namespace
    )


async def some_of_everything(
    admin: Client, namespace: str, kind: GroupVersionKind = CONFIG_MAP
) -> None:
    """One object made, and of BEFORE one changed, one deleted, one replaced by another."""
    await write(admin, namespace, "made", kind=kind)
    await change(admin, namespace, "changed", "2", kind)
    await admin.delete(kind, "deleted", namespace=namespace)
    await admin.delete(kind, "replaced", namespace=namespace)
    await write(admin, namespace, "replaced", value="new", kind=kind)

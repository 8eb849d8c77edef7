"""What really changed: a watch of its own on all that the controllers write."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator

from benchmarks.runtime.widget import PREFIX, Widget
from ctrlruntime.api.kinds import GroupVersionKind, Manifest, RESTMapping
from ctrlruntime.client.client import Client

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
MINUTES = 60.0


class Witness:
    """Counts the states that each object of a namespace has been in since the watch began."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._tasks: list[asyncio.Task[None]] = []
        self.widgets: Counter[str] = Counter()
        self.config_maps: Counter[str] = Counter()
        self.ready: set[str] = set()
        self.last_change = time.monotonic()

    async def __aenter__(self) -> Witness:
        self._tasks = [
            asyncio.create_task(self._watch_widgets()),
            asyncio.create_task(self._watch_config_maps()),
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def converged(self, count: int, timeout: float) -> float:
        """When the last of `count` widgets was ready, by the monotonic clock."""
        async with asyncio.timeout(timeout):
            while len(self.ready) < count or len(self.config_maps) < count:
                self._check()
                await asyncio.sleep(0.02)
        return self.last_change

    async def quiet(self, seconds: float) -> None:
        """Wait until nothing has changed for a while."""
        while (left := self.last_change + seconds - time.monotonic()) > 0:
            self._check()
            await asyncio.sleep(left)

    def _check(self) -> None:
        for task in self._tasks:
            if task.done():
                task.result()

    async def _watch_widgets(self) -> None:
        async for name, manifest in self._states(Widget.mapping()):
            self.widgets[name] += 1
            if (manifest.get("status") or {}).get("ready"):
                self.ready.add(name)

    async def _watch_config_maps(self) -> None:
        async for name, _ in self._states(CONFIG_MAP):
            if name.startswith(PREFIX):  # a cluster puts ConfigMaps of its own into every namespace
                self.config_maps[name] += 1

    async def _states(
        self, kind: GroupVersionKind | RESTMapping
    ) -> AsyncGenerator[tuple[str, Manifest], None]:
        """Every state of every object, once; a watch that the server ends goes on where it was."""
        version: str | None = None
        seen: set[tuple[str, str]] = set()
        while True:
            events = self._client.watch(
                kind, self._namespace, resource_version=version, timeout=MINUTES * 60
            )
            async for _, manifest in events:
                metadata = manifest["metadata"]
                version = metadata["resourceVersion"]
                state = (metadata["name"], version)
                if state not in seen:
                    seen.add(state)
                    self.last_change = time.monotonic()
                    yield metadata["name"], manifest

"""What people do by hand to objects that a controller made: it makes them again, and waits for finalizers."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Final

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import Conflict, NotFound
from ctrlruntime.envtest.server.storage import Record, Storage
from ctrlruntime.envtest.simulation.state import counts

_HELD: Final = "example.com/held-by-hand"
_LONGEST: Final = 20.0
"""Seconds that a finalizer stays at most."""


class Hands:
    """People with a client. What they began they end when it is over."""

    def __init__(self, client: Client, storage: Storage) -> None:
        self._client = client
        self._storage = storage
        self._tasks: list[asyncio.Task[None]] = []
        self._over = asyncio.Event()

    def meddle(self, kind: str, draw: random.Random) -> str:
        """Begin to delete a drawn object, or to hold it by a finalizer. Return its kind; empty: there is none."""
        made = [
            record
            for bucket in self._storage
            if counts(bucket.resource)
            for record in bucket.scan()
            if any(
                each.get("controller") for each in record.obj["metadata"].get("ownerReferences", ())
            )
        ]
        if not made:
            return ""
        record, seconds = draw.choice(made), draw.uniform(0.5, _LONGEST)
        doing = (
            self._hold(record, seconds) if kind.startswith("finalizer") else self._delete(record)
        )
        self._tasks.append(asyncio.create_task(doing))
        return str(record.obj["kind"])

    async def rest(self) -> None:
        """Return once all that was begun has ended."""
        self._over.set()
        await asyncio.gather(*self._tasks)

    async def _delete(self, record: Record) -> None:
        with contextlib.suppress(NotFound):
            await self._client.delete(_kind(record), record.name, namespace=record.namespace)

    async def _hold(self, record: Record, seconds: float) -> None:
        await self._set_finalizer(record, held=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()
        await self._set_finalizer(record, held=False)

    async def _set_finalizer(self, record: Record, *, held: bool) -> None:
        """Add or take off the finalizer of an object that is there, and not being deleted if it is added."""
        kind, name, namespace = _kind(record), record.name, record.namespace
        with contextlib.suppress(NotFound):
            while True:
                metadata = (await self._client.get(kind, name, namespace=namespace))["metadata"]
                if metadata["uid"] != record.uid or (held and "deletionTimestamp" in metadata):
                    return
                others = [each for each in metadata.get("finalizers", ()) if each != _HELD]
                finalizers = [*others, _HELD] if held else others
                patch = {"finalizers": finalizers, "resourceVersion": metadata["resourceVersion"]}
                with contextlib.suppress(Conflict):
                    await self._client.patch(kind, name, {"metadata": patch}, namespace=namespace)
                    return


def _kind(record: Record) -> GroupVersionKind:
    return GroupVersionKind.parse(record.obj["apiVersion"], record.obj["kind"])

"""What an API server tells of the objects in a namespace, kept from first to last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.api.resource import KindRef
from ctrlruntime.client.client import Client
from ctrlruntime.envtest.eventually import eventually_holds

LONGEST = 1800.0
"""Seconds that a watch may last."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An object as it was from one write on."""

    moment: int
    """The resource version: one server counts its writes, whatever the kind."""
    change: str
    """ADDED, MODIFIED or DELETED."""
    kind: str
    manifest: Manifest

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])

    @property
    def generation(self) -> int:
        return int(self.manifest["metadata"]["generation"])

    @property
    def uid(self) -> str:
        return str(self.manifest["metadata"]["uid"])

    @property
    def status(self) -> dict[str, Any]:
        return dict(self.manifest.get("status") or {})

    @property
    def ready(self) -> bool:
        """The condition Ready, of the generation that the object has."""
        return any(
            each["type"] == "Ready"
            and each["status"] == "True"
            and each.get("observedGeneration") == self.generation
            for each in self.status.get("conditions", [])
        )


@dataclass(slots=True)
class Chronicle:
    """Every state of every object, in the order of each kind's writes."""

    seen: list[Seen] = field(default_factory=list)

    @classmethod
    @asynccontextmanager
    async def of(
        cls, client: Client, kinds: Iterable[KindRef], namespace: str, since: str
    ) -> AsyncIterator[Chronicle]:
        """Watch the kinds from the resource version `since` on."""
        told = cls()
        watches = [
            asyncio.create_task(told._follow(client, kind, namespace, since)) for kind in kinds
        ]
        try:
            yield told
        finally:
            for watch in watches:
                watch.cancel()
            await asyncio.gather(*watches, return_exceptions=True)

    async def _follow(self, client: Client, kind: KindRef, namespace: str, since: str) -> None:
        name = (await client.mapping(kind)).gvk.kind
        events = client.watch(kind, namespace, resource_version=since, timeout=LONGEST)
        async with aclosing(events):
            async for change, said in events:
                manifest = said if isinstance(said, dict) else said.to_manifest()
                moment = int(manifest["metadata"]["resourceVersion"])
                self.seen.append(Seen(moment, change, name, manifest))

    def of_kind(self, kind: str) -> list[Seen]:
        return [each for each in self.seen if each.kind == kind]

    def last(self, kind: str) -> Seen:
        return self.of_kind(kind)[-1]

    def is_present(self, kind: str) -> bool:
        told = self.of_kind(kind)
        return bool(told) and told[-1].change != "DELETED"

    def first(self, kind: str, holds: Callable[[Seen], bool] = lambda _seen: True) -> Seen:
        """The first state of a kind for which that holds. Raises AssertionError if there is none."""
        found = next((each for each in self.of_kind(kind) if holds(each)), None)
        assert found is not None, f"no {kind} was ever so: {[s.status for s in self.of_kind(kind)]}"
        return found

    async def until(self, kind: str, holds: Callable[[Seen], bool], *, timeout: float) -> Seen:
        """The latest state of the one object of a kind, as soon as that holds."""

        def is_so() -> Seen | None:
            told = self.of_kind(kind)
            assert told, f"there is no {kind} yet"
            assert holds(told[-1]), f"{kind} is {told[-1].change}: {told[-1].status}"
            return told[-1]

        found: Seen = await eventually_holds(is_so, timeout=timeout)
        return found

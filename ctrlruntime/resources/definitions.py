"""Whether the CRD of a kind is being deleted, and with it every object of the kind.

The server deletes all objects of a CRD that goes: their `deletionTimestamp` then does not show what
anyone wants for each of them. A controller that cleans up behind a finalizer has to tell the two
apart before it deletes anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.client.client import Client

CRD: Final[RESTMapping] = BUILTIN[
    GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A CRD as it stands. `created` is its creationTimestamp, empty if there is no such CRD."""

    exists: bool = True
    terminating: bool = False
    created: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)

    def removes(self, approval: str) -> bool:
        """Whether objects of the kind go with their CRD, without the annotation `approval: "true"` on it."""
        gone = not self.exists or self.terminating
        return gone and self.annotations.get(approval) != "true"


class Definitions:
    """Reads CRDs live. Needs the right to list `customresourcedefinitions`.

    A watch would not do: the deletion of an object may be seen before that of its CRD, which came first.
    Each answer is of a read that began after it was requested; concurrent requests share reads.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._running: dict[str, asyncio.Task[Definition]] = {}
        self._next: dict[str, asyncio.Task[Definition]] = {}

    async def of(self, mapping: RESTMapping) -> Definition:
        """Return the CRD of a kind, by its name `plural.group`. Raises the client's errors."""
        name = f"{mapping.plural}.{mapping.gvk.group}"
        task = self._next.get(name)
        if task is None:
            task = asyncio.create_task(self._read(name, self._running.get(name)))
            self._next[name] = task
        return await asyncio.shield(task)

    async def any_removes(self, mappings: Iterable[RESTMapping], approval: str) -> bool:
        """Return whether a CRD of the kinds is going without approval, see `Definition.removes`."""
        found = await asyncio.gather(*map(self.of, mappings))
        return any(each.removes(approval) for each in found)

    async def _read(self, name: str, before: asyncio.Task[Definition] | None) -> Definition:
        """Read once the read under way has ended; requests until then share this one."""
        if before is not None:
            await asyncio.wait({before})
        task = self._next.pop(name)
        self._running[name] = task
        try:
            return await self._list(name)
        finally:
            if self._running.get(name) is task:
                del self._running[name]

    async def _list(self, name: str) -> Definition:
        found = await self._client.list(CRD, fields={"metadata.name": name}, metadata_only=True)
        if not found:
            return Definition(exists=False)
        metadata = found[0]["metadata"]
        return Definition(
            terminating="deletionTimestamp" in metadata,
            created=metadata.get("creationTimestamp", ""),
            annotations=metadata.get("annotations") or {},
        )

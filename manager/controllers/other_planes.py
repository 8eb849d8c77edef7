"""What the other data planes of the hub have of an owner that one data plane has not: a Tenant may have moved."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final

from apis.fleet.labels import DATA_PLANE, MOVED_FROM, TARGET_NAMESPACE
from ctrlruntime.api import BUILTIN, GroupVersionKind, RESTMapping
from ctrlruntime.client import Client, NotFound
from ctrlruntime.resources import OwnerKey
from internal.fleet.plane_check import FAILURES, identify
from internal.fleet.targets import TRUE
from manager.commands.plane_clients import connect_plane

NAMESPACE: Final = BUILTIN[GroupVersionKind("", "v1", "Namespace")]
ANSWER: Final = 10.0
"""Seconds that a data plane has for its answers."""
FEW: Final = 20
"""Owners that are read one by one; more are listed."""


class Elsewhere(IntEnum):
    """What other data planes have of an owner; of several the greatest counts."""

    NOTHING = 0
    UNKNOWN = 1
    """A data plane was not asked, or has an owner of that name that does not record a move."""
    MOVED = 2
    """An owner of that name that records the data plane it came from."""


@dataclass(frozen=True, slots=True)
class OtherPlanes:
    """Reads owners on every data plane of the hub but one."""

    hub: Client
    """Reads live."""
    own: str
    """The id of the data plane whose owners are gone."""
    own_namespace: str
    """Its target namespace."""
    kinds: Mapping[str, RESTMapping] = field(default_factory=dict)
    """By `Kind.group`."""

    async def find(self, owners: Collection[str]) -> dict[str, Elsewhere]:
        """Return what there is of each owner. Raises the client's errors of the hub.

        A data plane that does not answer, or that there is no way to ask, may have any of them.
        """
        found = dict.fromkeys(owners, Elsewhere.NOTHING)
        if not owners:
            return found
        names = [each for each in await self._namespaces() if each != self.own_namespace]
        for answers in await asyncio.gather(*(self._ask(each, owners) for each in names)):
            for owner, answer in answers.items():
                found[owner] = max(found[owner], answer)
        return found

    async def _namespaces(self) -> list[str]:
        """Return the target namespaces, by either label."""
        return [
            str(each["metadata"]["name"])
            for each in await self.hub.list(NAMESPACE, metadata_only=True)
            if TRUE
            in {
                (each["metadata"].get("labels") or {}).get(label)
                for label in (DATA_PLANE, TARGET_NAMESPACE)
            }
        ]

    async def _ask(self, namespace: str, owners: Collection[str]) -> dict[str, Elsewhere]:
        """Return what the data plane of a target namespace has of each owner."""
        try:
            async with asyncio.timeout(ANSWER), AsyncExitStack() as opened:
                plane = await connect_plane(self.hub, namespace)
                if plane is not None:
                    await opened.enter_async_context(plane)
                    if await identify(plane) == self.own:
                        return {}
                    return await self._read(plane, owners)
        except FAILURES:
            pass
        return dict.fromkeys(owners, Elsewhere.UNKNOWN)

    async def _read(self, plane: Client, owners: Collection[str]) -> dict[str, Elsewhere]:
        keys = {each: key for each in owners if (key := OwnerKey.parse(each)) is not None}
        if len(keys) <= FEW:
            found = {each: await self._get(plane, key) for each, key in keys.items()}
        else:
            found = await self._list(plane, keys)
        return {each: self._answer(metadata) for each, metadata in found.items()}

    async def _get(self, plane: Client, key: OwnerKey) -> Mapping[str, Any] | None:
        try:
            found = await plane.get(
                self.kinds[key.kind], key.name, namespace=key.namespace, metadata_only=True
            )
        except NotFound:
            return None
        metadata: Mapping[str, Any] = found["metadata"]
        return metadata

    async def _list(
        self, plane: Client, keys: Mapping[str, OwnerKey]
    ) -> dict[str, Mapping[str, Any] | None]:
        there: dict[tuple[str, str, str], Mapping[str, Any]] = {}
        for kind in {key.kind for key in keys.values()}:
            try:
                items = await plane.list(self.kinds[kind], metadata_only=True)
            except NotFound:
                continue  # it does not serve the kind
            for item in items:
                metadata = item["metadata"]
                there[kind, metadata["namespace"], metadata["name"]] = metadata
        return {each: there.get((key.kind, key.namespace, key.name)) for each, key in keys.items()}

    def _answer(self, metadata: Mapping[str, Any] | None) -> Elsewhere:
        if metadata is None:
            return Elsewhere.NOTHING
        moved = (metadata.get("annotations") or {}).get(MOVED_FROM) == self.own
        return Elsewhere.MOVED if moved else Elsewhere.UNKNOWN

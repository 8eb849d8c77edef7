"""What the other data planes of the hub have of an owner that one data plane has not: a Tenant may have moved."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import structlog

from apis.fleet.labels import MOVED_FROM
from ctrlruntime.api import RESTMapping
from ctrlruntime.client import Client, NotFound
from ctrlruntime.resources import OwnerKey
from internal.fleet.plane_answers import ANSWER, Place, places_of
from internal.fleet.plane_check import FAILURES, identify
from internal.fleet.stack_lease import moved_to
from manager.commands.plane_clients import connect_plane

FEW: Final = 20
"""Owners that are read one by one; more are listed."""


_log = structlog.get_logger(__name__)


class Elsewhere(IntEnum):
    """What other data planes have of an owner; of several the greatest counts."""

    NOTHING = 0
    UNKNOWN = 1
    """A data plane was not asked, or has an owner of that name that does not record a move."""
    MOVED = 2
    """An owner of that name that records the data plane it came from."""


@dataclass(frozen=True, slots=True)
class _Ask:
    """What the kubeconfig of a target namespace led to."""

    place: Place
    identity: str
    """Id of the data plane; empty if it was not asked."""
    answers: Mapping[str, Elsewhere]
    """By owner."""


@dataclass(frozen=True, slots=True)
class OtherPlanes:
    """Reads owners on every data plane of the hub but one."""

    hub: Client
    """Reads live."""
    own: str
    """The id of the data plane whose owners are gone."""
    kinds: Mapping[str, RESTMapping]
    """By `Kind.group`."""
    own_namespace: str = ""
    """Its target namespace."""
    plane: Client | None = None
    """Reads it live; None: it is lost."""

    async def find(self, owners: Collection[str]) -> dict[str, Elsewhere]:
        """Return what there is of each owner. Raises the client's errors of the hub.

        A data plane that does not answer, or that there is no way to ask, may have any of them. So may one that Tenants
        were moved to, or that a namespace records, and that no kubeconfig leads to: a hub that was restored from
        before does not know it.
        """
        found = dict.fromkeys(owners, Elsewhere.NOTHING)
        if not owners:
            return found
        asks = await self._asks(owners)
        for ask in asks:
            for owner, answer in ask.answers.items():
                found[owner] = max(found[owner], answer)
        destinations = frozenset[str]() if self.plane is None else await moved_to(self.plane)
        expected = destinations.union(each.place.plane for each in asks)
        unasked = expected - {self.own, "", *(each.identity for each in asks)}
        if unasked:
            found = {owner: max(answer, Elsewhere.UNKNOWN) for owner, answer in found.items()}
            _log.warning("Data planes that may have owners cannot be asked", planes=sorted(unasked))
        return found

    async def holders(self, owners: Collection[str]) -> tuple[dict[str, str], list[str]]:
        """Return the target namespaces of data planes that have owners of these names, by owner, and those not asked.

        Raises the client's errors of the hub.
        """
        found: dict[str, str] = {}
        asks = await self._asks(owners)
        for ask in asks:
            if ask.identity:
                found |= {
                    owner: ask.place.name
                    for owner, answer in ask.answers.items()
                    if answer is not Elsewhere.NOTHING
                }
        wrong = [each for each in asks if each.identity != (each.place.plane or each.identity)]
        return found, sorted(each.place.name for each in asks if not each.identity or each in wrong)

    async def _asks(self, owners: Collection[str]) -> list[_Ask]:
        places = [each for each in await places_of(self.hub) if each.label]
        others = [each for each in places if each.name != self.own_namespace]
        return list(await asyncio.gather(*(self._ask(each, owners) for each in others)))

    async def _ask(self, place: Place, owners: Collection[str]) -> _Ask:
        try:
            async with asyncio.timeout(ANSWER), AsyncExitStack() as opened:
                plane = await connect_plane(self.hub, place.name)
                if plane is not None:
                    await opened.enter_async_context(plane)
                    identity = await identify(plane)
                    own = identity == self.own
                    return _Ask(place, identity, {} if own else await self._read(plane, owners))
        except FAILURES:
            pass
        return _Ask(place, "", dict.fromkeys(owners, Elsewhere.UNKNOWN))

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

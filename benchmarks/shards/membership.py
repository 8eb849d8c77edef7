"""Who owns which slot, by the Leases of a group."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.frame import NAMESPACE
from ctrlruntime.client.client import Client
from ctrlruntime.manager.lease import LEASE
from ctrlruntime.sharding.assignment import Assignment, decode
from ctrlruntime.sharding.leases import ASSIGNED, annotation, member_of
from ctrlruntime.sharding.members import MemberLease
from ctrlruntime.sharding.options import GROUP_LABEL, ShardingOptions
from ctrlruntime.sharding.slots import ALL_SLOTS

LIMIT = 180.0
"""Seconds until slots are where they are to be."""


@dataclass(frozen=True, slots=True)
class Membership:
    """Members of one group."""

    client: Client
    group: str

    async def owners(self) -> Mapping[int, str]:
        """Return who is to have each slot."""
        return (await self._read())[0].owners

    async def shared_by(self, members: Collection[str]) -> Mapping[int, str]:
        """Wait until these members, and no other, hold all slots. Return who has each."""

        async def shared() -> bool:
            assignment, found = await self._read()
            # The Lease of one that was killed goes on to announce what it had.
            at_work = [each for each in found if each.name in members and each.holder]
            held = {slot: each.name for each in at_work for slot in each.announced.held}
            return {*held.values()} == {*members} and assignment.owners == held

        await until(shared, LIMIT)
        return await self.owners()

    async def _read(self) -> tuple[Assignment, Sequence[MemberLease]]:
        """Return the assignment, and the Leases of members."""
        selector = {GROUP_LABEL: self.group}
        leases = await self.client.list(LEASE, namespace=NAMESPACE, labels=selector)
        name = ShardingOptions(group=self.group).assignment
        texts = [annotation(each, ASSIGNED) for each in leases if each["metadata"]["name"] == name]
        assignment = decode(texts[0]) if texts else Assignment()
        return assignment, [member for each in leases if (member := member_of(each)) is not None]


def moved(before: Mapping[int, str], after: Mapping[int, str]) -> int:
    """Return how many slots changed their owner."""
    return sum(before.get(slot) != after.get(slot) for slot in ALL_SLOTS)


async def until(holds: Callable[[], Awaitable[bool]], limit: float) -> None:
    """Wait until something holds. Raises TimeoutError after so many seconds."""
    async with asyncio.timeout(limit):
        while True:
            if await holds():
                return
            await asyncio.sleep(0.2)

"""The ChangeFreezes that a plan notes: read once, with the rights of whoever makes the plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from apis.operations import ChangeFreeze, FrozenSystem
from ctrlruntime.cache.entry import Entry, EntryDecoder
from ctrlruntime.client import Client, Forbidden, NotFound
from ctrlruntime.clock import utc_now
from ctrlruntime.queue import Request
from ctrlruntime.rollout import Freeze, NoHolds, Waiting
from internal.operations.exemptions import hold_for
from internal.operations.freezes import freeze_of

UNREADABLE: Final = (
    "ChangeFreezes could not be read, so a freeze that holds these changes is not shown: "
    "it takes the right to list changefreezes.operations.ctrlruntime.dev"
)


@dataclass(frozen=True, slots=True)
class PlannedFreezes(NoHolds):
    """The freezes of one system, and what a plan has to note about reading them."""

    system: FrozenSystem
    freezes: Sequence[Freeze] = ()
    notes: tuple[str, ...] = ()

    def hold(self, entry: Entry) -> Waiting | None:
        """Return the freeze that holds changes of an object."""
        return self.waiting(Request(entry.name, namespace=entry.namespace), entry)

    def waiting(self, request: Request, frozen: Entry | None = None) -> Waiting | None:
        """Return the freeze that holds changes of an object."""
        return hold_for(self.freezes, self.system.value, request.namespace, frozen, utc_now())


async def read_freezes(client: Client, system: FrozenSystem) -> PlannedFreezes:
    """Read the freezes; without the right to, the plan has a note. Raises the client's other errors."""
    decoder = EntryDecoder(ChangeFreeze.gvk())
    try:
        found = await client.list(ChangeFreeze.mapping())
    except NotFound:
        return PlannedFreezes(system)
    except Forbidden:
        return PlannedFreezes(system, notes=(UNREADABLE,))
    return PlannedFreezes(system, [freeze_of(decoder.decode_manifest(item)) for item in found])

"""What a registry records on its tenants that move to other data planes: whether it still has their rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from apis.fleet.labels import ROW
from apis.tenancy import Tenant
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.errors import APIError, NotFound
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.controller.reconcile import reconcile_context
from internal.tenancy.shared.pools import Job, WorkerPools
from internal.tenancy.sync.departures import Move


class Tenants(Protocol):
    """Tenants as the cache has them."""

    def get(self, name: str, *, namespace: str) -> Entry | None: ...


@dataclass(slots=True)
class MoveMarks:
    """Records the rows of tenants that move. Who moves them waits for it before the row is changed."""

    tenants: Tenants
    patcher: ObjectPatcher
    pools: WorkerPools

    async def write(self, namespace: str, moves: Iterable[Move]) -> list[str]:
        """Record each row that is not recorded yet. Returns what the server refused; raises other errors."""
        todo = [
            (entry, move)
            for move in moves
            if move.row != move.recorded
            and (entry := self.tenants.get(move.tenant, namespace=namespace)) is not None
        ]
        kind = Tenant.gvk().group_kind
        jobs = [Job(kind, partial(self._one, *item)) for item in todo]
        troubles: list[str] = []
        for (entry, _), outcome in zip(todo, await self.pools.run(jobs), strict=True):
            if isinstance(outcome, APIError):
                troubles.append(
                    f"the row of tenant {entry.name!r}, which moves, was not recorded: {outcome.message}"
                )
            elif isinstance(outcome, Exception):
                raise outcome
        return troubles

    async def _one(self, entry: Entry, move: Move) -> None:
        fields = {"annotations": {ROW: move.row or None}}
        try:
            await self.patcher.patch_metadata(Tenant.mapping(), entry, fields)
        except NotFound:
            return
        reconcile_context().logger.info(
            "Row of a moving Tenant recorded", tenant=entry.name, row=move.row
        )

"""Replacements as they are recorded on the tenants that go, and who may take objects over from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from apis.tenancy import Tenant
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.errors import APIError, NotFound
from ctrlruntime.client.object_patcher import ObjectPatcher
from internal.tenancy.departures import Replacement
from internal.tenancy.labels import HANDS_OVER, REPLACED_BY, hands_over, replaced_by
from internal.tenancy.pools import Job, WorkerPools

REPLACED_BY_INDEX = "replaced-by"
"""Index of the tenant informer: `namespace/name` of each replacement that a tenant records."""


class Tenants(Protocol):
    """Tenants as the cache has them."""

    def get(self, name: str, *, namespace: str) -> Entry | None: ...

    def by_index(self, index: str, value: str) -> Iterable[Entry]: ...


def replacements_of(entry: Entry) -> Iterable[str]:
    """Index function of tenants."""
    return [f"{entry.namespace}/{name}" for name in sorted(replaced_by(entry.annotations))]


def predecessors_of(entry: Entry, tenants: Tenants) -> frozenset[str]:
    """Return the UIDs of the tenants that hand their objects over to this one.

    A tenant that releases objects itself takes nothing, so that two never take one object from each other.
    """
    if hands_over(entry.annotations):
        return frozenset()
    found = tenants.by_index(REPLACED_BY_INDEX, f"{entry.namespace}/{entry.name}")
    return frozenset(
        item.uid
        for item in found
        if hands_over(item.annotations) and item.deletion_timestamp is None
    )


@dataclass(frozen=True, slots=True)
class MarkFailure:
    """A record that could not be written: the tenants not to be made before it is, and why."""

    held_back: frozenset[str]
    message: str


@dataclass(slots=True)
class ReplacementMarks:
    """Records a plan's replacements before it is carried out, so that the next manager finds them."""

    tenants: Tenants
    patcher: ObjectPatcher
    pools: WorkerPools

    async def write(
        self, namespace: str, replacements: Iterable[Replacement], unpaired: Iterable[str]
    ) -> list[MarkFailure]:
        """Record each replacement, then take the records off tenants that stay.

        Returns what the server refused; raises what leaves its answer open.
        """
        failures = await self._run(
            namespace, [(item.tenant, item.by, not item.held) for item in replacements]
        )
        failures += await self._run(namespace, [(name, (), False) for name in unpaired])
        return failures

    async def _run(
        self, namespace: str, wanted: Iterable[tuple[str, tuple[str, ...], bool]]
    ) -> list[MarkFailure]:
        todo = [
            (entry, by, over)
            for name, by, over in wanted
            if (entry := self.tenants.get(name, namespace=namespace)) is not None
            and (replaced_by(entry.annotations), hands_over(entry.annotations))
            != (frozenset(by), over)
        ]
        kind = Tenant.gvk().group_kind
        jobs = [Job(kind, partial(self._one, *item)) for item in todo]
        failures: list[MarkFailure] = []
        for (entry, by, _), outcome in zip(todo, await self.pools.run(jobs), strict=True):
            if isinstance(outcome, APIError):
                why = (
                    f"the replacement of tenant {entry.name!r} was not recorded: {outcome.message}"
                )
                failures.append(MarkFailure(frozenset(by), why))
            elif isinstance(outcome, Exception):
                raise outcome
        return failures

    async def _one(self, entry: Entry, by: tuple[str, ...], over: bool) -> None:
        annotations = {REPLACED_BY: ",".join(by) or None, HANDS_OVER: "true" if over else None}
        try:
            await self.patcher.patch_metadata(Tenant.mapping(), entry, {"annotations": annotations})
        except NotFound:
            return

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
from internal.tenancy.shared.labels import (
    HANDS_OVER,
    INHERITED_BY,
    REPLACED_BY,
    hands_over,
    heirs,
    inherited_by,
    replaced_by,
)
from internal.tenancy.shared.pools import Job, WorkerPools
from internal.tenancy.sync.departures import Replacement

HEIRS_INDEX = "heirs"
"""Index of the tenant informer: `namespace/name` of each tenant that a tenant's objects pass to."""


class Tenants(Protocol):
    """Tenants as the cache has them."""

    def get(self, name: str, *, namespace: str) -> Entry | None: ...

    def by_index(self, index: str, value: str) -> Iterable[Entry]: ...


def heirs_of(entry: Entry) -> Iterable[str]:
    """Index function of tenants."""
    return [f"{entry.namespace}/{name}" for name in sorted(heirs(entry.annotations))]


def predecessors_of(entry: Entry, tenants: Tenants) -> frozenset[str]:
    """Return the UIDs of the tenants that hand their objects over to this one.

    A tenant that releases objects itself takes nothing, so that two never take one object from each other.
    """
    if heirs(entry.annotations):
        return frozenset()
    found = tenants.by_index(HEIRS_INDEX, f"{entry.namespace}/{entry.name}")
    return frozenset(item.uid for item in found if item.deletion_timestamp is None)


@dataclass(frozen=True, slots=True)
class MarkFailure:
    """A record that could not be written: the tenants not to be made before it is, and why."""

    held_back: frozenset[str]
    message: str


@dataclass(frozen=True, slots=True)
class _Marks:
    """What is to be recorded on a tenant; by default, nothing."""

    by: tuple[str, ...] = ()
    heirs: tuple[str, ...] = ()
    decided: bool = False

    def are_on(self, entry: Entry) -> bool:
        """Whether a tenant has just these records."""
        there = entry.annotations
        return (replaced_by(there), inherited_by(there), hands_over(there)) == (
            frozenset(self.by),
            frozenset(self.heirs),
            self.decided,
        )


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
            namespace,
            [(item.tenant, _Marks(item.by, item.heirs, not item.held)) for item in replacements],
        )
        failures += await self._run(namespace, [(name, _Marks()) for name in unpaired])
        return failures

    async def _run(self, namespace: str, wanted: Iterable[tuple[str, _Marks]]) -> list[MarkFailure]:
        todo = [
            (entry, marks)
            for name, marks in wanted
            if (entry := self.tenants.get(name, namespace=namespace)) is not None
            and not marks.are_on(entry)
        ]
        kind = Tenant.gvk().group_kind
        jobs = [Job(kind, partial(self._one, *item)) for item in todo]
        failures: list[MarkFailure] = []
        for (entry, marks), outcome in zip(todo, await self.pools.run(jobs), strict=True):
            if isinstance(outcome, APIError):
                why = (
                    f"the replacement of tenant {entry.name!r} was not recorded: {outcome.message}"
                )
                failures.append(MarkFailure(frozenset(marks.by), why))
            elif isinstance(outcome, Exception):
                raise outcome
        return failures

    async def _one(self, entry: Entry, marks: _Marks) -> None:
        annotations = {
            REPLACED_BY: ",".join(marks.by) or None,
            INHERITED_BY: ",".join(marks.heirs) or None,
            HANDS_OVER: "true" if marks.decided else None,
        }
        try:
            await self.patcher.patch_metadata(Tenant.mapping(), entry, {"annotations": annotations})
        except NotFound:
            return

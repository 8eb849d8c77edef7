"""Tenants that registries wait for before they delete others: their changes wake the registry."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from ctrlruntime.cache import DeleteEvent, Entry, Event, UpdateEvent
from ctrlruntime.controller.predicates import entries_of
from ctrlruntime.queue import Request
from internal.tenancy.shared.labels import heirs
from internal.tenancy.shared.tally import TenantState
from internal.tenancy.shared.tenant_counts import state_of
from internal.tenancy.sync.replacements import Awaited

Key = tuple[str, str]
TURN = 50
"""Tenants looked at before other tasks get a turn."""


class Tenants(Protocol):
    """Tenants as the cache has them."""

    def get(self, name: str, *, namespace: str) -> Entry | None: ...


@dataclass(slots=True)
class AwaitedTenants:
    """An event handler of the tenant informer. What is awaited comes from the last plan of each registry."""

    tenants: Tenants
    on_change: Callable[[Request], None]
    """Receives a registry when the state of a tenant that it waits for is another one than in its plan."""
    _states: dict[Key, dict[Request, TenantState | None]] = field(default_factory=dict)
    _keys: dict[Request, frozenset[Key]] = field(default_factory=dict)
    _reported: dict[Request, dict[Key, str]] = field(default_factory=dict)

    def expect(self, registry: Request, awaited: Iterable[Awaited]) -> None:
        """Replace what a registry waits for; an empty iterable is nothing."""
        found = {(registry.namespace, item.name): item.state for item in awaited}
        for key in self._keys.pop(registry, frozenset()) - found.keys():
            self._forget(key, registry)
        for key, state in found.items():
            self._states.setdefault(key, {})[registry] = state
        if found:
            self._keys[registry] = frozenset(found)
        else:
            self._reported.pop(registry, None)

    async def recheck(self, registry: Request) -> None:
        """Report a registry whose awaited tenants changed between the reading of its plan and `expect`."""
        changed = False
        for count, key in enumerate(self._keys.get(registry, frozenset()), 1):
            seen, entry = self._states[key][registry], self.tenants.get(key[1], namespace=key[0])
            if entry is not None and _differs(entry, seen):
                # Once for each version: the name may be that of another tenant, which has to go first.
                version = self._reported.setdefault(registry, {}).get(key)
                changed |= version != entry.resource_version
                self._reported[registry][key] = entry.resource_version
            if count % TURN == 0:
                await asyncio.sleep(0)
        if changed:
            self.on_change(registry)

    def waiting(self, namespace: str) -> list[Request]:
        """Return the registries of a namespace that wait for a tenant."""
        return [item for item in self._keys if item.namespace == namespace]

    def __call__(self, event: Event) -> None:
        for entry in entries_of(event)[-1:]:
            registries = self._states.get(entry.key)
            if not registries:
                continue
            gone = isinstance(event, DeleteEvent)
            for registry, seen in list(registries.items()):
                if gone or _differs(entry, seen):
                    self.on_change(registry)

    def _forget(self, key: Key, registry: Request) -> None:
        self._states[key].pop(registry, None)
        if not self._states[key]:
            del self._states[key]


def _differs(entry: Entry, seen: TenantState | None) -> bool:
    """Whether a tenant is not as a plan saw it; one that is being deleted counts as not ready."""
    state = TenantState.PENDING if entry.deletion_timestamp is not None else state_of(entry)
    return state is not (seen or TenantState.PENDING)


@dataclass(slots=True)
class HandOvers:
    """An event handler of the tenant informer: a tenant that may take objects over is woken."""

    on_change: Callable[[Request], None]
    """Receives the tenants that may take objects over, and a tenant that releases no more."""

    def __call__(self, event: Event) -> None:
        if not isinstance(event, UpdateEvent):
            return
        before, after = event.old.annotations, event.new.annotations
        for name in sorted(heirs(before) ^ heirs(after)):
            self.on_change(Request(name, namespace=event.new.namespace))

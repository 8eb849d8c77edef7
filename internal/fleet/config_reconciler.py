"""Reconciles the FleetConfig: its status shows how all stacks are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from apis.fleet import FleetConfig
from apis.fleet.fleetconfig import NAME
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.controller import Request
from internal.fleet import status
from internal.fleet.metrics import FleetMetrics
from internal.fleet.namespace_reconciler import Entries
from internal.fleet.targets import KnownTargets, Mode, is_former, mode_of


@dataclass(slots=True)
class ConfigReconciler:
    """Writes the status, and nothing if nothing of it changed."""

    configs: Entries
    namespaces: Iterable[Entry]
    known: KnownTargets
    patcher: ObjectPatcher
    metrics: FleetMetrics
    clock: Callable[[], datetime]
    orphans_held: Callable[[], Mapping[str, str]] = dict
    """What waits of owners that are gone from their data planes, by target namespace."""

    async def reconcile(self, request: Request) -> None:
        """Raise the client's errors, and pydantic.ValidationError for a config that cannot be read."""
        entry = self.configs.get(request.name, namespace="")
        if entry is None or entry.name != NAME:
            return
        config = entry.typed(FleetConfig)
        generation, before = entry.generation, config.status
        mode = mode_of(config)
        if mode is None:
            entries = before.target_namespaces
            conditions = [status.invalid(generation)]
        else:
            wanted = self._wanted(mode)
            entries = status.target_list(
                wanted, self.known.outcomes, before.target_namespaces, self.clock()
            )
            conditions = [
                status.ready(wanted, entries, generation),
                status.teardown(self._leftovers(mode), generation),
            ]
        conditions += status.orphans(self.orphans_held(), before, generation)
        after = status.updated(
            before,
            generation=generation,
            entries=entries,
            conditions=conditions,
            now=self.clock(),
        )
        self.metrics.observe(entries, hub_namespaces=sum(1 for _ in self.namespaces))
        await self.patcher.write_status(FleetConfig.mapping(), entry, before, after)

    def _wanted(self, mode: Mode) -> set[str]:
        """Return the names of the namespaces that have or get a stack."""
        found = {
            each.name
            for each in self.namespaces
            if mode.wants(each) and each.deletion_timestamp is None
        }
        return found | ({mode.namespace} if mode.namespace else set())

    def _leftovers(self, mode: Mode) -> dict[str, str]:
        """Return what is left in former target namespaces."""
        return {
            each.name: self.known.leftovers.get(each.name, "not looked at yet")
            for each in self.namespaces
            if is_former(each, mode) and each.deletion_timestamp is None
        }

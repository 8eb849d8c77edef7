"""Reconciles the FleetConfig: its status shows how all stacks are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from apis.fleet import FleetConfig
from apis.fleet.fleetconfig import NAME
from ctrlruntime.cache.entry import Entry
from ctrlruntime.lifecycle import Lifecycle, ObjectPass, PausePolicy
from internal.fleet import stack_removals, status
from internal.fleet.metrics import FleetMetrics
from internal.fleet.targets import KnownTargets, Mode, is_former, mode_of


@dataclass(slots=True)
class ConfigReconciler:
    """Computes the status."""

    namespaces: Iterable[Entry]
    known: KnownTargets
    metrics: FleetMetrics
    orphans_held: Callable[[], Mapping[str, str]] = dict
    """What waits of owners that are gone from their data planes, by target namespace."""

    @property
    def lifecycle(self) -> Lifecycle[FleetConfig]:
        """Return the life of the only config."""
        only = PausePolicy(leaves_alone=lambda entry: entry.name != NAME)
        return Lifecycle(FleetConfig, reconcile=self.reconcile, pause=only)

    async def reconcile(self, config: FleetConfig, this: ObjectPass) -> None:
        """Make one pass."""
        generation, before = this.entry.generation, config.status
        mode = mode_of(config)
        if mode is None:
            entries = before.target_namespaces
            conditions = [status.invalid(generation)]
        else:
            wanted = self._wanted(mode)
            entries = status.target_list(
                wanted, self.known.outcomes, before.target_namespaces, this.now
            )
            removals = stack_removals.decide(config, self.namespaces, mode, this.now)
            before = before.model_copy(update={"removals": removals.removals})
            conditions = [
                *removals.conditions,
                status.ready(wanted, entries, generation),
                status.teardown(self._leftovers(mode), generation),
            ]
        conditions += status.orphans(self.orphans_held(), before, generation)
        config.status = status.updated(
            before,
            generation=generation,
            entries=entries,
            conditions=conditions,
            now=this.now,
        )
        self.metrics.observe(entries, hub_namespaces=sum(1 for _ in self.namespaces))

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

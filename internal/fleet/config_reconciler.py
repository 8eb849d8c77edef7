"""Reconciles the FleetConfig: its status shows how all stacks are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from apis.fleet import FleetConfig
from apis.fleet.fleetconfig import NAME
from apis.fleet.labels import TARGET_NAMESPACE
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.errors import Conflict
from ctrlruntime.lifecycle import Lifecycle, ObjectPass, PausePolicy
from internal.fleet import status
from internal.fleet.metrics import FleetMetrics
from internal.fleet.stack_removals import StackRemovals, decide
from internal.fleet.targets import TRUE, KnownTargets, Mode, is_former, mode_of
from internal.removal_holds import LostRecords


@dataclass(slots=True)
class ConfigReconciler:
    """Computes the status."""

    namespaces: Iterable[Entry]
    known: KnownTargets
    metrics: FleetMetrics
    lost: LostRecords
    """Whether the status was lost, with what it records of stacks."""
    orphans_held: Callable[[], Mapping[str, str]] = dict
    """What waits of owners that are gone from their data planes, by target namespace."""

    @property
    def lifecycle(self) -> Lifecycle[FleetConfig]:
        """Return the life of the only config."""
        only = PausePolicy(leaves_alone=lambda entry: entry.name != NAME)
        return Lifecycle(FleetConfig, reconcile=self.reconcile, pause=only)

    async def reconcile(self, config: FleetConfig, this: ObjectPass) -> None:
        """Make one pass. Raises the client's errors, and Conflict if the object changes meanwhile."""
        if await self.lost.report(this.entry, self._has_stacks):
            _read_again(config, this)
        mode = mode_of(config)
        removals: StackRemovals | None = None
        if mode is not None:
            removals = decide(config, self.namespaces, mode, this.now)
            if removals.changes(config) and await self.lost.report_older(this.entry):
                _read_again(config, this)
                removals = decide(config, self.namespaces, mode, this.now)
        generation, before = this.entry.generation, config.status
        if mode is None or removals is None:
            entries = before.target_namespaces
            conditions = [status.invalid(generation)]
        else:
            wanted = self._wanted(mode)
            entries = status.target_list(
                wanted, self.known.outcomes, before.target_namespaces, this.now
            )
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

    def _has_stacks(self) -> bool:
        return any(each.labels.get(TARGET_NAMESPACE) == TRUE for each in self.namespaces)

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


def _read_again(config: FleetConfig, this: ObjectPass) -> None:
    """Go on with the status that was written in this pass. Raises Conflict if the object is another one by now."""
    if not this.reread():
        raise Conflict("The FleetConfig has changed since it was read; it is read again.")
    config.status = this.entry.typed(FleetConfig).status
    this.before = config.status.model_copy(deep=True)

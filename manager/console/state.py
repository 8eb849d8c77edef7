"""What the pages share: the rows of each kind, who follows which page, the course of rollouts."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

from ctrlruntime.api import GroupKind, format_micro_time
from ctrlruntime.cache import Cache, CreateEvent, DeleteEvent, Entry, Event, Informer, UpdateEvent
from ctrlruntime.clock import monotonic, utc_now
from ctrlruntime.events.correlator import Occurrence
from ctrlruntime.manager import Manager
from internal.cloud.cloud_run_tails import CloudRunTails
from internal.cloud.run_tails import RunTails
from manager.console import samples
from manager.console.changes import Changes
from manager.console.estimate import Estimates
from manager.console.history import PERIOD, History
from manager.console.index import KindIndex
from manager.console.journal import Journal
from manager.console.options import ConsoleOptions
from manager.console.rollout_view import ROLLOUTS, progress_of, rollout_key
from manager.kinds import KINDS


class ConsoleState:
    """Reads the informers that the manager's controllers declared; it declares none."""

    def __init__(self, manager: Manager, options: ConsoleOptions) -> None:
        self.manager = manager
        self.changes = Changes(options.most_streams)
        cloud = None if options.cloud_run is None else CloudRunTails(options.cloud_run)
        self.run_tails = RunTails(manager.cluster.connect, options.runs_folder, cloud)
        self.estimates = Estimates()
        self.history = History()
        self.journal = Journal(lambda: format_micro_time(utc_now()))
        self.clock = monotonic
        informers = [
            found
            for kind in KINDS
            if (found := _informer_of(manager.cache, kind.gvk().group_kind)) is not None
        ]
        self._indexes = {
            each.gvk.kind: KindIndex(
                each, self.changes, manager.pace.maybe_yield, self.journal.changed
            )
            for each in informers
        }
        self._following = [
            each.add_handler(self._rollout_changed)
            for each in informers
            if each.gvk.kind in ROLLOUTS
        ]
        self._unsubscribe = manager.recorder.subscribe(self.recorded)

    @property
    def indexes(self) -> list[KindIndex]:
        """The kinds that can be shown."""
        return [each for each in self._indexes.values() if each.is_readable]

    def of_kinds(self, kinds: Collection[str]) -> list[KindIndex]:
        """Return those of these kinds that can be shown."""
        return [each for each in self.indexes if each.kind in kinds]

    def of_plural(self, plural: str) -> KindIndex | None:
        """Return a kind by its plural name."""
        return next((each for each in self.indexes if each.mapping.plural == plural), None)

    def owned_parts(self, kind: GroupKind, uid: str) -> list[Entry]:
        """Return the objects of a kind that is not the product's that an object owns, as far as the cache has them whole."""
        found = _informer_of(self.manager.cache, kind)
        return [] if found is None else list(found.store.by_index("owner", uid))

    async def sample(self) -> None:
        """Make the rows of what has changed, and record the counts of the charts. From memory alone."""
        for each in self.indexes:
            await each.refresh()
        queues = self.manager.metrics.queue_states()
        self.history.sample(samples.of_all(self.indexes, queues))

    async def keep_sampling(self) -> None:
        """Sample until cancelled. A failure is logged: the next sample is taken all the same."""
        while True:
            try:
                await self.sample()
            except Exception as error:
                self.manager.logger.error("The charts were not sampled", exc_info=error)
            await asyncio.sleep(PERIOD)

    def recorded(self, occurrence: Occurrence) -> None:
        """Keep an event of the manager's for the timelines."""
        regarding, note = occurrence.regarding, occurrence.note
        self.journal.recorded(regarding, occurrence.type, occurrence.reason, note)

    async def close(self) -> None:
        """Follow no longer."""
        self._unsubscribe()
        await self.run_tails.close()
        for each in self._indexes.values():
            each.close()
        for registration in self._following:
            registration.remove()

    def _rollout_changed(self, event: Event[Any]) -> None:
        match event:
            case CreateEvent(new=entry) | UpdateEvent(new=entry):
                if (progress := progress_of(entry)) is not None:
                    self.estimates.observe(rollout_key(entry), *progress, now=self.clock())
            case DeleteEvent(old=entry):
                self.estimates.forget(rollout_key(entry))


def _informer_of(cache: Cache, kind: GroupKind) -> Informer | None:
    """Return the informer that keeps whole objects of a kind; the widest of several."""
    return next((each for each in cache.informers_of(kind) if not each.metadata_only), None)

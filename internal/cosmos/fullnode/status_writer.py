"""Writes of the status of a set, with the events and metrics that go with it."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime

from apis.cosmos import CosmosFullNode, CosmosFullNodeSpec, CosmosFullNodeStatus
from apis.waiting import changes_waiting
from ctrlruntime.api.conditions import shorten
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.status_client import StatusClient
from ctrlruntime.events import EventRecorder
from ctrlruntime.gate import Hold
from ctrlruntime.lifecycle.remote import ClusterTrouble
from ctrlruntime.queue import Request
from ctrlruntime.rollout import Waiting
from internal.cosmos.fullnode import events
from internal.cosmos.fullnode.disk_removals import parent_of
from internal.cosmos.fullnode.metrics import NodeSetMetrics
from internal.cosmos.fullnode.status import Facts, lose_hub, refuse, set_status, until_complete
from internal.removal_holds import report_held

Statuses = StatusClient[CosmosFullNodeSpec, CosmosFullNodeStatus]


@dataclass(slots=True)
class NodeSetStatusWriter:
    """Writes statuses. Every method raises the client's errors."""

    statuses: Statuses
    recorder: EventRecorder
    metrics: NodeSetMetrics
    clock: Callable[[], datetime]

    async def record_image(self, request: Request, node_set: CosmosFullNode, image: str) -> bool:
        """Write down which image runs beside the nodes before they are made with it. False if the set is gone.

        Heights need no such step: Pods go by those of the status, never by what was heard just now.
        """
        chosen = node_set.spec.pod_template.sidecar_image or node_set.status.sidecar_image
        if chosen or not image:
            return True

        def record(status: CosmosFullNodeStatus) -> None:
            status.sidecar_image = status.sidecar_image or image

        return await self._record_first(request, node_set, record)

    async def record_fixes(
        self, request: Request, node_set: CosmosFullNode, names: Collection[str]
    ) -> bool:
        """Record Pods that have failed before they are replaced. False if the set is gone."""

        def record(status: CosmosFullNodeStatus) -> None:
            status.rollout.fixes = sorted({*status.rollout.fixes, *names})

        return await self._record_first(request, node_set, record)

    async def record(
        self,
        entry: Entry,
        node_set: CosmosFullNode,
        facts: Facts,
        now: datetime,
        notes: Collection[events.Note],
    ) -> float | None:
        """Write the status if it changed; report by events what changed for the worse.

        Returns the seconds until heights may be written that it was too early for; None if there are none.
        """
        request = Request(entry.name, namespace=entry.namespace)
        before = node_set.status
        after = before.model_copy(deep=True)
        set_status(after, facts, now)
        self.metrics.show(request, facts.phase, after.rollout)
        if after != before:
            await self._sync(request, lambda status: set_status(status, facts, now), entry.uid)
        events.record(self.recorder, entry, [*notes, *events.of_status(before, after)])
        return until_complete(after, facts, now)

    async def record_held_deletion(self, entry: Entry, hold: Waiting | None) -> None:
        """Report a deleted set that a freeze holds."""
        waiting = changes_waiting(hold, 1)

        def report(status: CosmosFullNodeStatus) -> None:
            status.waiting = waiting
            status.status = "Being deleted, and held: " + ("" if hold is None else hold.message)

        await self._sync(Request(entry.name, namespace=entry.namespace), report, entry.uid)

    async def record_protected(self, entry: Entry, hold: Hold) -> None:
        """Report a deleted set whose disks are protected."""
        parent, now = parent_of(entry.name, entry.namespace, entry.annotations), self.clock()
        is_news = False

        def report(status: CosmosFullNodeStatus) -> None:
            nonlocal is_news
            status.waiting = None
            status.status = shorten(f"Being deleted, and held: {hold.reason}.")
            is_news = report_held(
                status.conditions, parent, hold, generation=entry.generation, now=now
            )

        await self._sync(Request(entry.name, namespace=entry.namespace), report, entry.uid)
        if is_news:
            note = events.Note(events.Reason.DELETIONS_HELD, parent.message(hold))
            events.record(self.recorder, entry, [note])

    async def refuse(self, entry: Entry, message: str) -> None:
        """Report a set that cannot be read: nothing of it is touched."""
        now = self.clock()
        await self._sync(
            Request(entry.name, namespace=entry.namespace),
            lambda status: refuse(status, entry.generation, message, now),
            entry.uid,
        )

    async def lose_hub(self, entry: Entry, trouble: ClusterTrouble) -> None:
        """Report a set whose objects on the hub are unknown: nothing was done for it."""
        now = self.clock()
        await self._sync(
            Request(entry.name, namespace=entry.namespace),
            lambda status: lose_hub(status, entry.generation, trouble, now),
            entry.uid,
        )

    def forget(self, request: Request) -> None:
        """Forget a set that is gone."""
        self.metrics.forget(request)

    async def _record_first(
        self,
        request: Request,
        node_set: CosmosFullNode,
        record: Callable[[CosmosFullNodeStatus], None],
    ) -> bool:
        """Write the status before it is acted on, also in `node_set`. False if the set is gone."""
        written = await self._sync(request, record, node_set.metadata.uid)
        if written is None:
            return False
        node_set.status = written
        return True

    async def _sync(
        self, request: Request, update: Callable[[CosmosFullNodeStatus], None], uid: str | None
    ) -> CosmosFullNodeStatus | None:
        return await self.statuses.sync_status(
            request.name, update, namespace=request.namespace, uid=uid
        )

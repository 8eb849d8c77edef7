"""Reconciles one ChangeFreeze: its status shows whether it is active, and how much it holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from pydantic import ValidationError

from apis.operations import ChangeFreeze, ChangeFreezeStatus, Exemption
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.controller.reconcile import Result
from ctrlruntime.events import EventRecorder
from ctrlruntime.queue import Request
from ctrlruntime.rollout import Freeze
from internal.operations.exemptions import exemption_events, exemption_statuses
from internal.operations.freezes import SystemFreezes
from internal.operations.metrics import FreezeMetrics
from internal.operations.status import freeze_status, held_count

ACTION: Final = "Freeze"


class Entries(Protocol):
    """The freezes as the cache has them."""

    def get(self, name: str, *, namespace: str) -> Entry | None: ...


@dataclass(slots=True)
class FreezeReconciler:
    """Writes the status of freezes for one system; managers of other systems add their counts."""

    entries: Entries
    freezes: SystemFreezes
    patcher: ObjectPatcher
    clock: Callable[[], datetime]
    metrics: FreezeMetrics
    recorder: EventRecorder

    async def reconcile(self, request: Request) -> Result | None:
        """Make one pass. Raises the client's errors."""
        entry = self.entries.get(request.name, namespace="")
        if entry is None:
            self.metrics.forget(request.name)
            return None
        now, freeze = self.clock(), self.freezes.freeze(entry)
        before, granted, problem = _read(entry)
        system, count = self.freezes.system, self.freezes.held_by(freeze)
        incomplete = self.freezes.incomplete_for()
        if incomplete:  # what an earlier manager counted stays for as long
            count = max(count, held_count(before, system))
        held = {system: count}
        after = freeze_status(before, freeze, held, entry.generation, now, problem=problem)
        after.exemptions = exemption_statuses(
            before.exemptions, granted, self._requested(freeze, now), system, now
        )
        self.metrics.record(
            request.name, system, held_count(after, system), active=freeze.is_active(now)
        )
        if await self.patcher.write_status(ChangeFreeze.mapping(), entry, before, after):
            for reason, note in exemption_events(before.exemptions, after.exemptions):
                self.recorder.event(entry, "Normal", reason, ACTION, note)
        edge = freeze.next_edge(now)
        waits = [edge - self.clock()] if edge is not None else []
        waits += [incomplete] if incomplete else []
        return Result(requeue_after=max(min(waits).total_seconds(), 0.01)) if waits else None

    def _requested(self, freeze: Freeze, now: datetime) -> list[Exemption]:
        """Return the exemptions that are requested of a freeze that is not over."""
        if freeze.until is not None and now >= freeze.until:
            return []
        return self.freezes.requests.of(freeze, self.freezes.system)


def _read(entry: Entry) -> tuple[ChangeFreezeStatus, list[Exemption], str]:
    """Return the status, the exemptions of the spec, and why the spec cannot be read; empty if it can."""
    try:
        freeze = entry.typed(ChangeFreeze)
        return freeze.status, freeze.spec.exempt, ""
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False, include_context=False)
        places = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in found[:5]]
    problem = f"All changes are held, because this cannot be read: {'; '.join(places)}"
    manifest = {**entry.decode(), "spec": {"reason": "unknown"}}
    try:
        return ChangeFreeze.from_manifest(manifest).status, [], problem
    except ValidationError:
        return ChangeFreezeStatus(), [], problem

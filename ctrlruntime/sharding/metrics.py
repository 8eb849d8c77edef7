"""Series of slots and members."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge

from ctrlruntime.clock import processor
from ctrlruntime.sharding.report import SlotsOwned


class SlotMetrics:
    """The series of one process, as it sees all members."""

    def __init__(
        self, registry: CollectorRegistry, processor: Callable[[], float] = processor
    ) -> None:
        """`processor`: seconds of processor time that this process has used."""
        self._processor, self._used = processor, processor()
        self._held = Gauge(
            "ctrlruntime_slot_owner", "Slots that a member works on.", ["member"], registry=registry
        )
        self._unowned = Gauge(
            "ctrlruntime_slots_unowned", "Slots on which no member works.", registry=registry
        )
        self._oldest = Gauge(
            "ctrlruntime_slot_unowned_seconds",
            "For how long the slot has had no owner that is longest without; 0 where each has one.",
            registry=registry,
        )
        self._kept = Gauge(
            "ctrlruntime_slots_kept",
            "Slots that a member keeps though they were assigned to others a minute ago.",
            ["member"],
            registry=registry,
        )
        self._busy = Counter(
            "ctrlruntime_member_busy_seconds",
            "Processor time that this member has used. It can use one core.",
            registry=registry,
        )

    def show(self, found: SlotsOwned) -> None:
        """Set the series."""
        before, self._used = self._used, self._processor()
        self._busy.inc(self._used - before)
        self._held.clear()
        for member, slots in found.held.items():
            self._held.labels(member).set(len(slots))
        self._unowned.set(sum(len(each.slots) for each in found.unowned))
        self._oldest.set(found.oldest)
        self._kept.clear()
        for kept in found.kept:
            self._kept.labels(kept.member).set(len(kept.slots))

"""Series of slots and members."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge

from ctrlruntime.sharding.report import SlotsOwned


class SlotMetrics:
    """The series of one process, as it sees all members."""

    def __init__(self, registry: CollectorRegistry) -> None:
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

    def show(self, found: SlotsOwned) -> None:
        """Set the series."""
        self._held.clear()
        for member, slots in found.held.items():
            self._held.labels(member).set(len(slots))
        self._unowned.set(sum(len(each.slots) for each in found.unowned))
        self._oldest.set(found.oldest)
        self._kept.clear()
        for kept in found.kept:
            self._kept.labels(kept.member).set(len(kept.slots))

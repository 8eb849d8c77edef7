"""Series of the ChangeFreezes."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry, Gauge

from apis.operations import FrozenSystem
from ctrlruntime.queue import Request


class FreezeMetrics:
    """The series of all freezes in one registry. Each system records its own counts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._systems: dict[str, set[str]] = {}
        self.active = Gauge(
            "change_freeze_active",
            "1 while a ChangeFreeze is active, else 0.",
            ("freeze",),
            registry=registry,
        )
        self.held = Gauge(
            "change_freeze_held_changes",
            "Changes that a ChangeFreeze holds, by system.",
            ("freeze", "system"),
            registry=registry,
        )

    @classmethod
    def of(cls, registry: CollectorRegistry) -> FreezeMetrics:
        """Return the series of a registry, which several systems of a process share."""
        found = _SHARED.get(registry)
        if found is None:
            found = _SHARED[registry] = cls(registry)
        return found

    def record(self, name: str, system: FrozenSystem, held: int, *, active: bool) -> None:
        """Set the series of one freeze."""
        self._systems.setdefault(name, set()).add(system.value)
        self.active.labels(name).set(active)
        self.held.labels(name, system.value).set(held)

    def forget(self, request: Request) -> None:
        """Drop the series of a freeze that is gone."""
        name = request.name
        systems = self._systems.pop(name, set())
        if systems:
            self.active.remove(name)
        for system in systems:
            self.held.remove(name, system)


_SHARED: WeakKeyDictionary[CollectorRegistry, FreezeMetrics] = WeakKeyDictionary()

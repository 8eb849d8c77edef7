"""What the metrics of a manager in this process say of its work."""

from __future__ import annotations

from ctrlruntime.manager import Manager


def is_busy(manager: Manager) -> bool:
    """Return whether requests are queued, delayed ones aside, or being reconciled."""
    return _total(manager, "workqueue_depth", "controller_runtime_active_workers") > 0


def reconciles(manager: Manager) -> int:
    """Return how many reconciles have ended, of all controllers."""
    return int(_total(manager, "controller_runtime_reconcile"))


def _total(manager: Manager, *families: str) -> float:
    return sum(
        sample.value
        for family in manager.metrics.registry.collect()
        if family.name in families
        for sample in family.samples
        if not sample.name.endswith("_created")
    )

"""Metrics of sets of nodes: sums over all sets, with no series per set."""

from collections.abc import Hashable

from prometheus_client import CollectorRegistry, Counter, Gauge

from apis.cosmos import FullNodePhase, RolloutStatus
from ctrlruntime.resources import Action

_OPERATIONS = {
    Action.CREATED: "create",
    Action.UPDATED: "update",
    Action.CONFLICT: "conflict",
}


class NodeSetMetrics:
    """The series of all sets in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._rollouts: dict[Hashable, RolloutStatus] = {}
        self._phases: dict[Hashable, FullNodePhase] = {}
        self.changes = Counter(
            "cosmos_diff_total",
            "Objects of sets of nodes that were not as they should be, by what was done.",
            ("kind", "operation"),
            registry=registry,
        )
        self.outdated = Gauge(
            "cosmos_rollout_outdated_pods", "Pods that are to be replaced.", registry=registry
        )
        self.budget = Gauge(
            "cosmos_rollout_budget_pods",
            "Pods that may be replaced now, of sets with outdated ones.",
            registry=registry,
        )
        self.blocked = Gauge(
            "cosmos_rollout_blocked_sets",
            "Sets of nodes whose rollout waits for a node to recover.",
            registry=registry,
        )
        self.halted = Gauge(
            "cosmos_rollout_halted_sets",
            "Sets of nodes whose rollout is halted by failed Pods.",
            registry=registry,
        )
        self.sets = Gauge(
            "cosmos_fullnode_sets", "Sets of nodes, by phase.", ("phase",), registry=registry
        )

    def wrote(self, kind: str, action: Action) -> None:
        """Count what a control did to one object, unless it did nothing."""
        operation = _OPERATIONS.get(action)
        if operation is not None:
            self.changes.labels(kind, operation).inc()

    def counted(self, kind: str, operation: str, number: int) -> None:
        """Count what was done to several objects."""
        if number:
            self.changes.labels(kind, operation).inc(number)

    def show(self, key: Hashable, phase: FullNodePhase, rollout: RolloutStatus) -> None:
        """Where a set stands now."""
        if (self._phases.get(key), self._rollouts.get(key)) == (phase, rollout):
            return
        self._phases[key] = phase
        self._rollouts[key] = rollout
        self._sum()

    def forget(self, key: Hashable) -> None:
        """Forget a set that is gone."""
        self._phases.pop(key, None)
        self._rollouts.pop(key, None)
        self._sum()

    def _sum(self) -> None:
        rollouts = self._rollouts.values()
        self.outdated.set(sum(item.outdated for item in rollouts))
        self.budget.set(sum(item.budget for item in rollouts if item.outdated))
        self.blocked.set(sum(bool(item.blocked) for item in rollouts))
        self.halted.set(sum(bool(item.halted) for item in rollouts))
        found = list(self._phases.values())
        for phase in FullNodePhase:
            self.sets.labels(phase.value).set(found.count(phase))

"""Metrics of the tenancy system.

Series per tenant exist only for tenants that are not ready, up to a cap, or for all of them by
option; everything else is aggregated, so that 100,000 tenants do not make a million series.
"""

import contextlib
from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from apis.tenancy import RolloutPhase, RolloutStatus, TenantRegistryStatus, TenantStatus
from apis.waiting import HoldReason
from ctrlruntime.api import Condition, GroupKind
from ctrlruntime.resources import Action
from ctrlruntime.rollout.health_checks import HealthCheckState, HealthCheckStatus

_PER_TENANT = ("tenant", "namespace")
_PER_REGISTRY = ("registry", "namespace")
QUERY_RESULTS = ("success", "error")
ROLLOUT_STATES = ("updated", "changing", "waiting", "failed")
ROW_STATES = ("active", "inactive", "invalid")


class TenancyMetrics:
    """The tenancy system's series in one registry."""

    def __init__(
        self, registry: CollectorRegistry, *, cap: int = 500, every_tenant: bool = False
    ) -> None:
        """`cap`: most tenants with series of their own; `every_tenant`: no matter whether ready."""
        self._cap = cap
        self._every_tenant = every_tenant
        self._shown: set[tuple[str, str]] = set()
        self._conditions: dict[tuple[str, str], tuple[str, ...]] = {}
        self._registries: set[tuple[str, str]] = set()
        self._registry_conditions: dict[tuple[str, str], set[str]] = {}
        self._waiting: set[tuple[str, str]] = set()
        self._rollouts: set[tuple[str, str]] = set()
        self._checks: dict[tuple[str, str], set[str]] = {}
        self._make_tenant_series(registry)
        self._make_registry_series(registry)
        self.rollout_tenants = Gauge(
            "tenanttemplate_rollout_tenants",
            "Tenants of a template with a rollout, by where they stand.",
            ("template", "namespace", "state"),
            registry=registry,
        )
        self.rollout_halted = Gauge(
            "tenanttemplate_rollout_halted",
            "Whether the rollout of a template is halted.",
            ("template", "namespace"),
            registry=registry,
        )
        self.rollout_phase = Gauge(
            "tenanttemplate_rollout_phase",
            "1 for the phase of a template's rollout.",
            ("template", "namespace", "phase"),
            registry=registry,
        )
        self.rollout_checks = Gauge(
            "tenanttemplate_rollout_health_check",
            "1 for the state of a health check of a template's rollout.",
            ("template", "namespace", "check", "state"),
            registry=registry,
        )

    def _make_tenant_series(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, (*_PER_TENANT, *labels), registry=registry)

        self.desired = gauge("tenant_resources_desired", "Resources a tenant should have.")
        self.ready = gauge("tenant_resources_ready", "Resources of a tenant that are ready.")
        self.failed = gauge("tenant_resources_failed", "Resources of a tenant that failed.")
        self.conflicted = gauge("tenant_resources_conflicted", "Resources of a tenant in conflict.")
        self.condition = gauge(
            "tenant_condition_status",
            "A condition of a tenant: 0 False, 1 True, 2 Unknown.",
            "type",
        )
        self.hidden = Gauge(
            "tenant_series_hidden",
            "Tenants that are not ready and beyond the cap.",
            registry=registry,
        )
        self.applies = Counter(
            "apply_attempts_total",
            "Writes of tenants' resources.",
            ("kind", "result", "conflict_policy"),
            registry=registry,
        )
        self.removals = Counter(
            "tenant_resources_removed_total",
            "Resources deleted or let go of.",
            ("result",),
            registry=registry,
        )

    def _make_registry_series(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, (*_PER_REGISTRY, *labels), registry=registry)

        self.registry_desired = gauge("registry_desired", "Tenants a registry should have.")
        self.registry_ready = gauge("registry_ready", "Tenants of a registry that are ready.")
        self.registry_failed = gauge("registry_failed", "Tenants of a registry that have failed.")
        self.registry_removals = gauge(
            "registry_removals_pending",
            "Tenants of a registry with an object that is still to be removed.",
        )
        self.registry_condition = gauge(
            "registry_condition_status",
            "A condition of a registry: 0 False, 1 True, 2 Unknown.",
            "type",
        )
        self.registry_waiting = gauge(
            "registry_changes_waiting",
            "Changes of a registry that wait for a freeze or a window.",
            "reason",
        )
        self.rows = gauge("registry_rows", "Rows by what became of them.", "state")
        self.query_seconds = Histogram(
            "registry_query_duration_seconds",
            "Time a query of the data source took.",
            (*_PER_REGISTRY, "result"),
            registry=registry,
            buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60),
        )

    def applied(self, kind: GroupKind, action: Action | None, policy: str) -> None:
        """Count a write; `action` is None if the server refused it."""
        result = "error" if action is None else str(action)
        if action in {Action.CREATED, Action.UPDATED}:
            result = "success"
        self.applies.labels(str(kind), result, policy).inc()

    def removed(self, deleted: int, retained: int) -> None:
        """Count removals."""
        if deleted:
            self.removals.labels("deleted").inc(deleted)
        if retained:
            self.removals.labels("retained").inc(retained)

    def tenant(self, namespace: str, name: str, status: TenantStatus, *, ready: bool) -> None:
        """Show a tenant, or stop showing it."""
        key = (name, namespace)
        if ready and not self._every_tenant:
            self.forget(namespace, name)
            return
        if key not in self._shown and len(self._shown) >= self._cap and not self._every_tenant:
            self._waiting.add(key)
            self.hidden.set(len(self._waiting))
            return
        self._waiting.discard(key)
        self.hidden.set(len(self._waiting))
        self._shown.add(key)
        self.desired.labels(*key).set(status.desired_resources)
        self.ready.labels(*key).set(status.ready_resources)
        self.failed.labels(*key).set(status.failed_resources)
        self.conflicted.labels(*key).set(len(status.conflicted_resource_ids))
        for condition in status.conditions:
            self.condition.labels(*key, condition.type).set(_value(condition))
        self._conditions[key] = tuple(condition.type for condition in status.conditions)

    def forget(self, namespace: str, name: str) -> None:
        """Remove a tenant's series."""
        key = (name, namespace)
        if key in self._waiting:
            self._waiting.discard(key)
            self.hidden.set(len(self._waiting))
        if key not in self._shown:
            return
        self._shown.discard(key)
        for gauge in (self.desired, self.ready, self.failed, self.conflicted):
            gauge.remove(*key)
        for kind in self._conditions.pop(key, ()):
            self.condition.remove(*key, kind)

    def registry(self, namespace: str, name: str, status: TenantRegistryStatus) -> None:
        """Show a registry's counts."""
        self._registries.add((name, namespace))
        self.registry_desired.labels(name, namespace).set(status.desired)
        self.registry_ready.labels(name, namespace).set(status.ready)
        self.registry_failed.labels(name, namespace).set(status.failed)
        self.registry_removals.labels(name, namespace).set(status.removals_pending)
        for state in ROW_STATES:
            self.rows.labels(name, namespace, state).set(getattr(status.rows, state))
        shown = self._registry_conditions.setdefault((name, namespace), set())
        for condition in status.conditions:
            self.registry_condition.labels(name, namespace, condition.type).set(_value(condition))
        for gone in shown - {condition.type for condition in status.conditions}:
            _remove(self.registry_condition, name, namespace, gone)
        shown.clear()
        shown.update(condition.type for condition in status.conditions)
        waiting = status.waiting
        for reason in HoldReason:
            holds = waiting is not None and waiting.reason is reason
            changes = waiting.changes if waiting is not None and holds else 0
            self.registry_waiting.labels(name, namespace, reason.value).set(changes)

    def rollout(self, namespace: str, name: str, status: RolloutStatus | None) -> None:
        """Show where a template's rollout stands, or remove its series."""
        key = (name, namespace)
        self._show_checks(key, () if status is None else status.health_checks)
        if status is None:
            if key in self._rollouts:
                self._rollouts.discard(key)
                for state in ROLLOUT_STATES:
                    _remove(self.rollout_tenants, *key, state)
                _remove(self.rollout_halted, *key)
                for phase in RolloutPhase:
                    _remove(self.rollout_phase, *key, phase.value)
            return
        self._rollouts.add(key)
        for state in ROLLOUT_STATES:
            self.rollout_tenants.labels(*key, state).set(getattr(status, state))
        self.rollout_halted.labels(*key).set(status.phase is RolloutPhase.HALTED)
        for phase in RolloutPhase:
            self.rollout_phase.labels(*key, phase.value).set(phase is status.phase)

    def _show_checks(self, key: tuple[str, str], checks: Sequence[HealthCheckStatus]) -> None:
        names = {item.name for item in checks}
        for name in self._checks.pop(key, set()) - names:
            for state in HealthCheckState:
                _remove(self.rollout_checks, *key, name, state.value)
        if names:
            self._checks[key] = names
        for item in checks:
            for state in HealthCheckState:
                self.rollout_checks.labels(*key, item.name, state.value).set(state is item.state)

    def queried(self, namespace: str, name: str, result: str, seconds: float) -> None:
        """Note a query; `result` is success or error."""
        self._registries.add((name, namespace))
        self.query_seconds.labels(name, namespace, result).observe(seconds)

    def forget_registry(self, namespace: str, name: str) -> None:
        """Remove a registry's series."""
        if (name, namespace) not in self._registries:
            return
        self._registries.discard((name, namespace))
        for gauge in (
            self.registry_desired,
            self.registry_ready,
            self.registry_failed,
            self.registry_removals,
        ):
            _remove(gauge, name, namespace)
        for state in ROW_STATES:
            _remove(self.rows, name, namespace, state)
        for kind in self._registry_conditions.pop((name, namespace), ()):
            _remove(self.registry_condition, name, namespace, kind)
        for reason in HoldReason:
            _remove(self.registry_waiting, name, namespace, reason.value)
        for result in QUERY_RESULTS:
            _remove(self.query_seconds, name, namespace, result)


def _value(condition: Condition) -> int:
    return {"False": 0, "True": 1}.get(condition.status, 2)


def _remove(metric: Gauge | Histogram, *labels: str) -> None:
    with contextlib.suppress(KeyError):  # it may never have been shown
        metric.remove(*labels)

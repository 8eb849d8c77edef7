"""What is reported of tenants besides their status: events on trouble, and metrics.

No event is sent while all goes well. An event is sent when a resource gets into trouble, compared
with the stored status, so that a restart repeats none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from apis.tenancy import Tenant, TenantStatus
from ctrlruntime.api.conditions import find_condition, is_condition_true
from ctrlruntime.events import EventRecorder
from ctrlruntime.queue import Request
from internal.tenancy.metrics import TenancyMetrics
from internal.tenancy.outcome import Failure, Outcome, State
from internal.tenancy.removal import Removed
from internal.tenancy.removal_decisions import Action, Reason

_TROUBLE = {
    State.FAILED: ("ResourceFailed", "Apply"),
    State.CONFLICTED: ("ResourceConflict", "Apply"),
    State.SKIPPED: ("DependencySkipped", "Skip"),
}


@dataclass(slots=True)
class TenantReports:
    """Events and metrics of tenants."""

    recorder: EventRecorder
    metrics: TenancyMetrics
    _known: set[Request] = field(default_factory=set)

    def walked(self, tenant: Tenant, outcomes: Sequence[Outcome], status: TenantStatus) -> None:
        """After a pass: an event for each resource newly in trouble."""
        before = {
            State.FAILED: set(tenant.status.failed_resource_ids),
            State.CONFLICTED: set(tenant.status.conflicted_resource_ids),
            State.SKIPPED: set(tenant.status.skipped_resource_ids),
        }
        for outcome in outcomes:
            if outcome.state in _TROUBLE and outcome.id not in before[outcome.state]:
                reason, action = _TROUBLE[outcome.state]
                note = f"{outcome.id}: {outcome.message or 'a resource it depends on failed'}"
                self.recorder.event(tenant, "Warning", reason, action, note)
        self._count(tenant, status)

    def refused(self, tenant: Tenant, failure: Failure, status: TenantStatus) -> None:
        """After a pass that could do nothing: an event when that is news."""
        before = find_condition(tenant.status.conditions, "Ready")
        if before is None or before.reason != failure.reason:
            self.recorder.event(tenant, "Warning", failure.reason, "Build", failure.message)
        self._count(tenant, status)

    def removed(self, tenant: Tenant, removed: Removed) -> None:
        """After objects were deleted or released: events on released ones, and on new refusals."""
        if removed.retained:
            reasons = {item.reason.value for item in removed.done if item.action is Action.RELEASE}
            note = (
                f"{removed.retained} retained resources are orphans now "
                f"({', '.join(sorted(reasons))})"
            )
            self.recorder.event(tenant, "Normal", "ResourceRetained", "Retain", note)
        pruned = [str(item.key) for item in removed.done if item.reason is Reason.PRUNED]
        if pruned:
            note = (
                f"{len(pruned)} objects that no resource wants are deleted: {', '.join(pruned[:5])}"
            )
            self.recorder.event(tenant, "Normal", "ResourcePruned", "Prune", note)
        before = {(item.resource, item.reason) for item in tenant.status.pending_removals}
        for item in removed.pending:
            refused = item.reason is Reason.DELETION_REFUSED
            if refused and (str(item.key), item.reason.value) not in before:
                note = f"{item.key}: {item.message}"
                self.recorder.event(tenant, "Warning", "DeletionRefused", "Remove", note)
        self.metrics.removed(removed.deleted, removed.retained)

    def _count(self, tenant: Tenant, status: TenantStatus) -> None:
        self.metrics.tenant(
            tenant.metadata.namespace or "",
            tenant.metadata.name or "",
            status,
            ready=is_condition_true(status.conditions, "Ready"),
        )

    def gone(self, request: Request) -> None:
        """Remove the series of a tenant that is gone."""
        self.metrics.forget(request.namespace, request.name)

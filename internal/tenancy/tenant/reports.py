"""What is reported of tenants: their status, events on trouble, and metrics.

No event is sent while all goes well. An event is sent when a resource gets into trouble, compared
with the stored status, so that a restart repeats none.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from apis.tenancy import Tenant, TenantStatus
from apis.tenancy.places import report_places
from ctrlruntime.api.conditions import find_condition, is_condition_true
from ctrlruntime.cache.entry import Entry
from ctrlruntime.controller.annotations import requested
from ctrlruntime.events import EventRecorder
from ctrlruntime.lifecycle.remote import report_hub
from ctrlruntime.lifecycle.status import StatusWriter
from ctrlruntime.queue import Request
from internal.tenancy.objects.builder import Build
from internal.tenancy.shared.metrics import TenancyMetrics
from internal.tenancy.shared.missing_permissions import Grant, tell
from internal.tenancy.shared.outcome import (
    HOOK_FAILED,
    Failure,
    Outcome,
    State,
    is_unavailable,
    refuse,
    report_conversions,
    report_hook,
    report_removals,
    report_teardown,
    summarize,
)
from internal.tenancy.sync.change_progress import record_progress
from internal.tenancy.tenant.applier import ApplyResult
from internal.tenancy.tenant.hooks import Stopped
from internal.tenancy.tenant.removal import Removed
from internal.tenancy.tenant.removal_decisions import Action, Reason
from internal.tenancy.tenant.removal_view import pending_removals, remembered_ids, still_there

_TROUBLE = {
    State.FAILED: ("ResourceFailed", "Apply"),
    State.CONFLICTED: ("ResourceConflict", "Apply"),
    State.SKIPPED: ("DependencySkipped", "Skip"),
}


@dataclass(slots=True)
class TenantReports:
    """Writes the status of tenants, their events and metrics."""

    statuses: StatusWriter
    recorder: EventRecorder
    metrics: TenancyMetrics
    clock: Callable[[], datetime]

    async def applied(
        self,
        tenant: Tenant,
        entry: Entry,
        made: Build,
        walked: ApplyResult,
        removed: Removed,
        hooks: Sequence[str],
    ) -> None:
        """After a pass: write the status, and record an event for each resource newly in trouble."""
        now = self.clock()
        removals = pending_removals(tenant.status, removed.decisions, now)
        status = summarize(tenant.status, walked.outcomes, entry.generation, now, removals)
        report_removals(status, removals, entry.generation, now)
        report_conversions(status, made.lost(), entry.generation, now)
        doubts = [each.doubt for each in made.resources if each.doubt]
        report_places(status.conditions, doubts, entry.generation, now)
        status.applied_resources = sorted(
            {*status.applied_resources, *still_there(removed.decisions)}
        )
        status.retained_resource_ids = remembered_ids(tenant, removed.decisions)
        status.generated_values = sorted({*status.generated_values, *tenant.spec.generate})
        status.completed_hooks = sorted({*status.completed_hooks, *hooks})
        status.last_handled_reconcile = requested(entry.annotations)
        tell(status.conditions, walked.missing, entry.generation, now)
        report_hub(status.conditions, walked.troubles, entry.generation, now, used=walked.further)
        unavailable = is_unavailable(walked.outcomes)
        record_progress(tenant.status, status, entry, now, unavailable=unavailable)
        await self.statuses.write(Tenant.mapping(), entry, tenant.status, status)
        self._announce_troubles(tenant, walked.outcomes)
        self._count(tenant, status)

    async def refused(self, tenant: Tenant, entry: Entry, failure: Failure) -> None:
        """After a pass that could do nothing: write why, and record an event when that is new."""
        now = self.clock()
        status = refuse(tenant.status, failure, entry.generation, now)
        record_progress(tenant.status, status, entry, now, unavailable=False)
        status.last_handled_reconcile = requested(entry.annotations)
        await self.statuses.write(Tenant.mapping(), entry, tenant.status, status)
        self._announce_failure(tenant, failure)
        self._count(tenant, status)

    async def stopped(
        self, tenant: Tenant, entry: Entry, hook: Stopped, completed: Sequence[str]
    ) -> None:
        """Write which hook nothing goes on without, and record an event when one has newly failed."""
        now = self.clock()
        status = report_hook(tenant.status, hook.reason, hook.message, entry.generation, now)
        record_progress(tenant.status, status, entry, now, unavailable=False)
        status.completed_hooks = sorted({*status.completed_hooks, *completed})
        status.generated_values = sorted({*status.generated_values, *tenant.spec.generate})
        await self.statuses.write(Tenant.mapping(), entry, tenant.status, status)
        if hook.reason == HOOK_FAILED:
            self._announce_failure(tenant, Failure(hook.reason, hook.message))
            self._count(tenant, status)

    async def leaving(
        self,
        tenant: Tenant,
        entry: Entry,
        removed: Removed,
        grants: set[Grant],
        hooks: Sequence[str],
    ) -> None:
        """Write what keeps a deleted tenant, which rights are missing, and the hooks that have run."""
        now = self.clock()
        removals = pending_removals(tenant.status, removed.decisions, now)
        status = report_teardown(tenant.status, removals, entry.generation, now)
        status.completed_hooks = sorted({*status.completed_hooks, *hooks})
        tell(status.conditions, grants, entry.generation, now)
        report_hub(status.conditions, removed.troubles, entry.generation, now, used=False)
        await self.statuses.write(Tenant.mapping(), entry, tenant.status, status)

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

    def gone(self, request: Request) -> None:
        """Remove the series of a tenant that is gone."""
        self.metrics.forget(request.namespace, request.name)

    def _announce_troubles(self, tenant: Tenant, outcomes: Sequence[Outcome]) -> None:
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

    def _announce_failure(self, tenant: Tenant, failure: Failure) -> None:
        before = find_condition(tenant.status.conditions, "Ready")
        if before is None or before.reason != failure.reason:
            self.recorder.event(tenant, "Warning", failure.reason, "Build", failure.message)

    def _count(self, tenant: Tenant, status: TenantStatus) -> None:
        self.metrics.tenant(
            tenant.metadata.namespace or "",
            tenant.metadata.name or "",
            status,
            ready=is_condition_true(status.conditions, "Ready"),
        )

"""What is reported of a template: its status, events and metrics."""

from dataclasses import dataclass, field
from datetime import datetime

from apis.tenancy import TenantRegistry, TenantTemplate, TenantTemplateStatus
from ctrlruntime.api.conditions import (
    Condition,
    Conditions,
    find_condition,
    list_sentences,
    new_condition,
    set_condition,
)
from ctrlruntime.cache.entry import Entry
from ctrlruntime.controller.annotations import requested
from ctrlruntime.events import EventRecorder
from ctrlruntime.lifecycle.status import StatusWriter
from ctrlruntime.queue import Request
from internal.tenancy.shared.deps import Clocks, TenancyRecords
from internal.tenancy.shared.metrics import TenancyMetrics
from internal.tenancy.shared.missing_permissions import GRANTED, tell
from internal.tenancy.shared.tally import Counts
from internal.tenancy.template.compiled import Verdict, problems_with, variables_of
from internal.tenancy.template.rollout_status import (
    ROLLOUT_HALTED,
    health_events,
    report_rollout,
    rollout_event,
)


@dataclass(frozen=True, slots=True)
class RegistryProblem:
    """Why a template has no registry to be used with."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class TemplateStanding:
    """What is known of one template: whether it is usable, and its tenants."""

    verdict: Verdict
    registry: TenantRegistry | RegistryProblem
    counts: Counts
    unmanaged: int
    """Tenants that no registry made."""
    revision: str
    """Of its present content; empty if that cannot be used."""


@dataclass(slots=True)
class TemplateReports:
    """Writes the status of templates, their events and metrics."""

    statuses: StatusWriter
    records: TenancyRecords
    metrics: TenancyMetrics
    recorder: EventRecorder
    clocks: Clocks
    status_period: float
    """Seconds between two writes of one status, at least."""
    _written: dict[Request, float] = field(default_factory=dict, init=False)

    def remaining(self, request: Request) -> float:
        """Return the seconds until the status may be written again; zero or less: now."""
        written = self._written.get(request, float("-inf"))
        return written + self.status_period - self.clocks.monotonic()

    async def report(
        self, request: Request, template: TenantTemplate, entry: Entry, found: TemplateStanding
    ) -> None:
        """Write the status, and record events for what is new in it."""
        status = self._status(request, template, entry, found)
        self.metrics.rollout(request.namespace, request.name, status.rollout)
        self._announce(template, status)
        if await self.statuses.write(TenantTemplate.mapping(), entry, template.status, status):
            self._written[request] = self.clocks.monotonic()

    def forget(self, request: Request) -> None:
        """Forget a template that is gone, and remove its series."""
        self.metrics.rollout(request.namespace, request.name, None)
        self._written.pop(request, None)

    def _status(
        self, request: Request, template: TenantTemplate, entry: Entry, found: TemplateStanding
    ) -> TenantTemplateStatus:
        now, rollouts = self.clocks.now(), self.records.rollouts
        of_registry = Request(template.spec.registry_id, namespace=request.namespace)
        status = template_status(
            template.status,
            found.verdict,
            found.counts,
            missing=rollouts.missing(of_registry, request.name),
            unmanaged=found.unmanaged,
            registry=found.registry,
            generation=entry.generation,
            handled=requested(entry.annotations),
            now=now,
        )
        grants = self.records.grants.of_template(request)
        tell(status.conditions, grants, entry.generation, now)
        report_rollout(
            status,
            rollouts.decision(of_registry, request.name),
            rollouts.health(of_registry, request.name),
            staged=template.spec.rollout is not None,
            revision=found.revision,
            generation=entry.generation,
            now=now,
        )
        set_condition(status.conditions, usable(status.conditions, entry.generation), now)
        return status

    def _announce(self, template: TenantTemplate, status: TenantTemplateStatus) -> None:
        rolled = rollout_event(template.status.rollout, status.rollout)
        checked = health_events(template.status.rollout, status.rollout)
        for item in [*checked, *([] if rolled is None else [rolled])]:
            self.recorder.event(template, item.type, item.reason, "Rollout", item.message)
        before = find_condition(template.status.conditions, "Valid")
        after = find_condition(status.conditions, "Valid")
        if after is None or after.status == "True":
            return
        if before is None or (before.status, before.reason) != (after.status, after.reason):
            self.recorder.event(template, "Warning", after.reason, "Validate", after.message)


def template_status(
    previous: TenantTemplateStatus,
    verdict: Verdict,
    counts: Counts,
    *,
    missing: int | None,
    unmanaged: int = 0,
    registry: TenantRegistry | RegistryProblem,
    generation: int,
    handled: str,
    now: datetime,
) -> TenantTemplateStatus:
    """Return the status to write. Pure.

    `missing` tenants are to be made; it is None while the registry has not been read.
    """
    status = previous.model_copy(deep=True)
    status.observed_generation = generation
    status.total_tenants, status.ready_tenants = counts.total, counts.ready
    status.updated_tenants, status.unmanaged_tenants = counts.updated, unmanaged
    status.failed_tenants = counts.failed
    status.last_handled_reconcile = handled
    valid = _valid(verdict, registry)
    applied = _applied(counts, missing, was_applied=_was_applied(previous, generation))
    if valid.status == applied.status == "False":
        applied.message = valid.message  # what kubectl shows: it is why nothing is applied
    for condition in (valid, _known(verdict, registry), applied):
        if condition is not None:
            condition.observed_generation = generation
            set_condition(status.conditions, condition, now)
    return status


def usable(conditions: Conditions, generation: int) -> Condition:
    """Return the condition Ready: nothing in the others keeps the template from its tenants.

    How far they have it is Applied: a template is Ready with one tenant of a thousand that has failed.
    """
    for kind, wanted in (("Valid", "True"), (GRANTED, "True"), (ROLLOUT_HALTED, "False")):
        found = find_condition(conditions, kind)
        if found is not None and found.status != wanted:
            return new_condition("Ready", False, found.reason, found.message, generation=generation)
    message = "The template can be used. The condition Applied has how far its tenants are."
    return new_condition("Ready", True, "TemplateUsable", message, generation=generation)


def _valid(verdict: Verdict, registry: TenantRegistry | RegistryProblem) -> Condition:
    if verdict.problems:
        reason = "DependencyCycle" if verdict.cyclic else "ValidationFailed"
        if verdict.refused:
            reason = "PrivilegeRefused"
        return new_condition("Valid", False, reason, list_sentences("", verdict.problems))
    if isinstance(registry, RegistryProblem):
        return new_condition("Valid", False, registry.reason, registry.message)
    if bare := problems_with(verdict, registry):
        return new_condition("Valid", False, "ValidationFailed", list_sentences("", bare))
    return new_condition("Valid", True, "ValidationPassed", "The template can be used.")


def _known(verdict: Verdict, registry: TenantRegistry | RegistryProblem) -> Condition | None:
    if isinstance(registry, RegistryProblem):
        return None
    unknown = sorted(verdict.variables - variables_of(registry))
    if unknown:
        message = f"The registry maps no column to {', '.join(unknown)}, and there is no default."
        return new_condition("VariablesKnown", False, "UnknownVariables", message)
    return new_condition("VariablesKnown", True, "AllVariablesKnown", "Every variable is known.")


def _was_applied(previous: TenantTemplateStatus, generation: int) -> bool:
    """Whether this generation was applied before."""
    applied = find_condition(previous.conditions, "Applied")
    return (
        applied is not None
        and applied.status == "True"
        and applied.observed_generation == generation
    )


def _applied(counts: Counts, missing: int | None, *, was_applied: bool) -> Condition:
    """Return True if every tenant exists, has the present content and is ready.

    While the registry has not been read, a tenant may be missing: then the condition does not become
    True, and stays True if it was.
    """
    total = counts.total + (missing or 0)
    if total == 0:
        return new_condition("Applied", False, "NoTenants", "The template has no tenants.")
    if counts.updated < total:
        message = (
            f"{counts.updated} of {total} tenants have the template's present content. The conditions "
            "of the template and of its registry say what holds the others."
        )
        return new_condition("Applied", False, "NotRolledOut", message)
    if counts.ready < total:
        message = f"{counts.ready} of {total} tenants are ready."
        return new_condition("Applied", False, "NotAllTenantsReady", message)
    if missing is None and not was_applied:
        message = "The rows were not read yet. The registry's condition Ready has the reason."
        return new_condition("Applied", False, "RegistryNotRead", message)
    return new_condition("Applied", True, "AllTenantsReady", "All tenants are ready.")

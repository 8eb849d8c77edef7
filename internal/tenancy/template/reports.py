"""What is reported of a template: its status, events and metrics."""

from dataclasses import dataclass
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
from ctrlruntime.lifecycle import ObjectPass
from ctrlruntime.lifecycle.status import outdate
from ctrlruntime.queue import Request
from internal.tenancy.shared.deps import TenancyRecords
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
    """Reports on templates by their status, events and metrics."""

    records: TenancyRecords
    metrics: TenancyMetrics

    async def refuse(self, template: TenantTemplate, this: ObjectPass) -> None:
        """Report a template that cannot be read."""
        conditions, generation = template.status.conditions, this.entry.generation
        for kind in ("Ready", "Valid"):
            refused = new_condition(kind, False, "InvalidSpec", this.problem, generation=generation)
            set_condition(conditions, refused, this.now)
        outdate(conditions, "Applied", "InvalidSpec", generation, this.now)

    def report(self, template: TenantTemplate, this: ObjectPass, found: TemplateStanding) -> None:
        """Set the status, with events for what is new in it."""
        before, entry = template.status, this.entry
        template.status = self._status(template, this, found)
        self.metrics.rollout(entry.namespace, entry.name, template.status.rollout)
        _announce(before, template.status, this)

    def forget(self, request: Request) -> None:
        """Forget a template that is gone, and remove its series."""
        self.metrics.rollout(request.namespace, request.name, None)

    def _status(
        self, template: TenantTemplate, this: ObjectPass, found: TemplateStanding
    ) -> TenantTemplateStatus:
        request, entry, now = this.request, this.entry, this.now
        rollouts = self.records.rollouts
        of_registry = Request(template.spec.registry_id, namespace=request.namespace)
        status = template_status(
            template.status,
            found.verdict,
            found.counts,
            missing=rollouts.missing(of_registry, request.name),
            unmanaged=found.unmanaged,
            registry=found.registry,
            generation=entry.generation,
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


def _announce(before: TenantTemplateStatus, status: TenantTemplateStatus, this: ObjectPass) -> None:
    rolled = rollout_event(before.rollout, status.rollout)
    checked = health_events(before.rollout, status.rollout)
    for item in [*checked, *([] if rolled is None else [rolled])]:
        this.event(item.type, item.reason, "Rollout", item.message)
    known = find_condition(before.conditions, "Valid")
    after = find_condition(status.conditions, "Valid")
    if after is None or after.status == "True":
        return
    if known is None or (known.status, known.reason) != (after.status, after.reason):
        this.event("Warning", after.reason, "Validate", after.message)


def template_status(
    previous: TenantTemplateStatus,
    verdict: Verdict,
    counts: Counts,
    *,
    missing: int | None,
    unmanaged: int = 0,
    registry: TenantRegistry | RegistryProblem,
    generation: int,
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

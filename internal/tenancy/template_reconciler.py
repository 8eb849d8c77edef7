"""Reconciles one TenantTemplate: is it usable, and how far has it been carried out."""

from dataclasses import dataclass, field
from datetime import datetime

from pydantic import ValidationError

from apis.tenancy import TenantRegistry, TenantTemplate, TenantTemplateStatus
from ctrlruntime.api.conditions import (
    Condition,
    find_condition,
    list_sentences,
    new_condition,
    set_condition,
)
from ctrlruntime.cache.entry import Entry
from ctrlruntime.controller.annotations import is_paused, requested
from ctrlruntime.controller.reconcile import Result
from ctrlruntime.events import EventRecorder
from ctrlruntime.queue import Request
from internal.tenancy.compiled_templates import Blueprints, Verdict, problems_with, variables_of
from internal.tenancy.deps import Clocks, TenancyRecords, TenancyStores
from internal.tenancy.metrics import TenancyMetrics
from internal.tenancy.missing_permissions import tell
from internal.tenancy.rollout_status import health_events, report_rollout, rollout_event
from internal.tenancy.statuses import StatusWriter
from internal.tenancy.tally import Counts
from internal.tenancy.tenant_counts import group


@dataclass(frozen=True, slots=True)
class RegistryProblem:
    """Why a template has no registry to be used with."""

    reason: str
    message: str


@dataclass(slots=True)
class TemplateReconciler:
    """Checks templates and reports on them. It writes nothing but their status."""

    stores: TenancyStores
    statuses: StatusWriter
    blueprints: Blueprints
    records: TenancyRecords
    metrics: TenancyMetrics
    recorder: EventRecorder
    clocks: Clocks
    status_period: float
    """Seconds between two writes of one status, at least."""
    _written: dict[Request, float] = field(default_factory=dict)

    async def reconcile(self, request: Request) -> Result | None:
        """One pass. Raises the client's errors when the server gives no usable answer."""
        entry = self.stores.templates.get(request.name, namespace=request.namespace)
        if entry is None:
            self.blueprints.forget(request.namespace, request.name)
            self.metrics.rollout(request.namespace, request.name, None)
            self._written.pop(request, None)
            return None
        if entry.deletion_timestamp is not None:
            return None
        if is_paused(entry.annotations):
            await self.statuses.pause(TenantTemplate.mapping(), entry, only_of_now="Applied")
            return None
        try:
            template = entry.typed(TenantTemplate)
        except ValidationError as error:
            mapping = TenantTemplate.mapping()
            await self.statuses.refuse(mapping, entry, "Valid", error, only_of_now="Applied")
            return None
        wait = (
            self._written.get(request, float("-inf")) + self.status_period - self.clocks.monotonic()
        )
        if wait > 0:
            return Result(requeue_after=wait)
        registry = self._registry(request.namespace, template.spec.registry_id)
        blueprint = self.blueprints.of([entry]).get(request.name)
        counts = self.records.tally.counts(
            group("template", request.namespace, request.name),
            None if blueprint is None else blueprint.revision,
        )
        others = group("template", request.namespace, request.name, managed=False)
        of_registry = Request(template.spec.registry_id, namespace=request.namespace)
        verdict = await self.blueprints.verdict(entry)
        status = template_status(
            template.status,
            verdict,
            counts,
            missing=self.records.rollouts.missing(of_registry, request.name),
            unmanaged=self.records.tally.counts(others).total,
            registry=registry,
            generation=entry.generation,
            handled=requested(entry.annotations),
            now=self.clocks.now(),
        )
        tell(
            status.conditions,
            self.records.grants.of_template(request),
            entry.generation,
            self.clocks.now(),
        )
        report_rollout(
            status,
            self.records.rollouts.decision(of_registry, request.name),
            self.records.rollouts.health(of_registry, request.name),
            staged=template.spec.rollout is not None,
            revision="" if blueprint is None else blueprint.revision,
            generation=entry.generation,
            now=self.clocks.now(),
        )
        self.metrics.rollout(request.namespace, request.name, status.rollout)
        self._announce(template, status)
        if await self.statuses.write(TenantTemplate.mapping(), entry, template.status, status):
            self._written[request] = self.clocks.monotonic()
        return None

    def _registry(self, namespace: str, name: str) -> TenantRegistry | RegistryProblem:
        entry = self.stores.registries.get(name, namespace=namespace)
        if entry is None:
            message = f"There is no TenantRegistry {name!r} in this namespace."
            return RegistryProblem("RegistryNotFound", message)
        try:
            return entry.typed(TenantRegistry)
        except ValidationError:
            message = (
                f"The TenantRegistry {name!r} cannot be read; its condition Ready has the reason."
            )
            return RegistryProblem("RegistryInvalid", message)

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


def request_of(entry: Entry) -> Request:
    """Return the template that a tenant was made from."""
    spec = entry.field("spec") or {}
    return Request(str(spec.get("templateRef", "")), namespace=entry.namespace)

"""Reconciles one TenantTemplate: is it usable, and how far has it been carried out."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import ValidationError

from apis.tenancy import TenantRegistry, TenantTemplate, TenantTemplateStatus
from ctrlruntime.api.conditions import Condition, find_condition, set_condition
from ctrlruntime.cache.entry import Entry
from ctrlruntime.cache.store import Store
from ctrlruntime.controller.directives import is_paused, requested
from ctrlruntime.controller.reconcile import Result
from ctrlruntime.events import EventRecorder
from ctrlruntime.queue import Request
from internal.tenancy.blueprints import Blueprints, Verdict, variables_of
from internal.tenancy.grants import Grants, tell
from internal.tenancy.statuses import StatusWriter
from internal.tenancy.tally import Counts, Tally

LONGEST_MESSAGE = 1024


@dataclass(frozen=True, slots=True)
class RegistryProblem:
    """Why a template has no registry to be used with."""

    reason: str
    message: str


@dataclass(slots=True)
class TemplateReconciler:
    """Checks templates and reports on them. It writes nothing but their status."""

    templates: Store
    registries: Store
    blueprints: Blueprints
    statuses: StatusWriter
    tally: Tally
    grants: Grants
    recorder: EventRecorder
    clock: Callable[[], datetime]
    monotonic: Callable[[], float]
    status_period: float
    """Seconds between two writes of one status, at least."""
    _written: dict[Request, float] = field(default_factory=dict)

    async def reconcile(self, request: Request) -> Result | None:
        """One pass. Raises the client's errors when the server gives no usable answer."""
        entry = self.templates.get(request.namespace, request.name)
        if entry is None:
            self.blueprints.forget(request.namespace, request.name)
            self._written.pop(request, None)
            return None
        if entry.deletion_timestamp is not None:
            return None
        if is_paused(entry.annotations):
            await self.statuses.pause(TenantTemplate.mapping(), entry)
            return None
        try:
            template = entry.typed(TenantTemplate)
        except ValidationError as error:
            await self.statuses.refuse(TenantTemplate.mapping(), entry, "Valid", error)
            return None
        wait = self._written.get(request, float("-inf")) + self.status_period - self.monotonic()
        if wait > 0:
            return Result(requeue_after=wait)
        registry = self._registry(request.namespace, template.spec.registry_id)
        counts = self.tally.counts(("template", request.namespace, request.name))
        verdict = await self.blueprints.verdict(entry)
        status = template_status(
            template.status,
            verdict,
            counts,
            registry=registry,
            generation=entry.generation,
            handled=requested(entry.annotations),
            now=self.clock(),
        )
        tell(status.conditions, self.grants.of_template(request), entry.generation, self.clock())
        self._announce(template, status)
        if await self.statuses.write(TenantTemplate.mapping(), entry, template.status, status):
            self._written[request] = self.monotonic()
        return None

    def _registry(self, namespace: str, name: str) -> TenantRegistry | RegistryProblem:
        entry = self.registries.get(namespace, name)
        if entry is None:
            message = f"There is no TenantRegistry {name!r} in this namespace."
            return RegistryProblem("RegistryNotFound", message)
        try:
            return entry.typed(TenantRegistry)
        except ValidationError:
            message = f"The TenantRegistry {name!r} cannot be read; its condition Ready says why."
            return RegistryProblem("RegistryInvalid", message)

    def _announce(self, template: TenantTemplate, status: TenantTemplateStatus) -> None:
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
    registry: TenantRegistry | RegistryProblem,
    generation: int,
    handled: str,
    now: datetime,
) -> TenantTemplateStatus:
    """The status to write. Pure."""
    status = previous.model_copy(deep=True)
    status.observed_generation = generation
    status.total_tenants, status.ready_tenants = counts.total, counts.ready
    status.last_handled_reconcile = handled
    for condition in (
        _valid(verdict, registry),
        _known(verdict, registry),
        _applied(counts),
    ):
        if condition is not None:
            condition.observed_generation = generation
            set_condition(status.conditions, condition, now)
    return status


def _valid(verdict: Verdict, registry: TenantRegistry | RegistryProblem) -> Condition:
    if verdict.problems:
        reason = "DependencyCycle" if verdict.cyclic else "ValidationFailed"
        if verdict.refused:
            reason = "PrivilegeRefused"
        return _condition("Valid", False, reason, "; ".join(verdict.problems))
    if isinstance(registry, RegistryProblem):
        return _condition("Valid", False, registry.reason, registry.message)
    return _condition("Valid", True, "ValidationPassed", "The template can be used.")


def _known(verdict: Verdict, registry: TenantRegistry | RegistryProblem) -> Condition | None:
    if isinstance(registry, RegistryProblem):
        return None
    unknown = sorted(verdict.variables - variables_of(registry))
    if unknown:
        message = f"The registry maps no column to {', '.join(unknown)}, and there is no default."
        return _condition("VariablesKnown", False, "UnknownVariables", message)
    return _condition("VariablesKnown", True, "AllVariablesKnown", "Every variable is known.")


def _applied(counts: Counts) -> Condition:
    if counts.total == 0:
        return _condition("Applied", False, "NoTenants", "The template has no tenants.")
    if counts.ready == counts.total:
        return _condition("Applied", True, "AllTenantsReady", "All tenants are ready.")
    return _condition("Applied", False, "NotAllTenantsReady", "Not all tenants are ready.")


def _condition(kind: str, holds: bool, reason: str, message: str) -> Condition:
    return Condition.model_validate(
        {
            "type": kind,
            "status": "True" if holds else "False",
            "reason": reason,
            "message": message[:LONGEST_MESSAGE],
        }
    )


def request_of(entry: Entry) -> Request:
    """The template that a tenant was made from."""
    spec = entry.field("spec") or {}
    return Request(entry.namespace, str(spec.get("templateRef", "")))

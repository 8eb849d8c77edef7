"""Reconciles one TenantTemplate: is it usable, and how far has it been carried out."""

from dataclasses import dataclass

from pydantic import ValidationError

from apis.tenancy import TenantRegistry, TenantTemplate
from ctrlruntime.cache.entry import Entry
from ctrlruntime.controller.reconcile import Result
from ctrlruntime.lifecycle import Later, Lifecycle, ObjectPass, PausePolicy
from ctrlruntime.lifecycle.status import describe
from ctrlruntime.queue import Request
from internal.tenancy.rendering.worker import QUARANTINE_SECONDS
from internal.tenancy.shared.deps import TenancyStores
from internal.tenancy.shared.tally import Tally
from internal.tenancy.shared.tenant_counts import group
from internal.tenancy.template.compiled import Blueprints
from internal.tenancy.template.reports import RegistryProblem, TemplateReports, TemplateStanding


@dataclass(slots=True)
class TemplateReconciler:
    """Checks templates and reports on them. It writes nothing but their status."""

    stores: TenancyStores
    blueprints: Blueprints
    tally: Tally
    reports: TemplateReports
    status_period: float
    """Seconds between two writes of one status, at least."""

    @property
    def lifecycle(self) -> Lifecycle[TenantTemplate]:
        """Return the life of templates."""
        return Lifecycle(
            TenantTemplate,
            reconcile=self.reconcile,
            unreadable=self.reports.refuse,
            describe=describe,
            until_deleted=True,
            pause=PausePolicy(only_of_now="Applied"),
            memory=[self.blueprints, self.reports],
            status_period=self.status_period,
        )

    async def reconcile(self, template: TenantTemplate, this: ObjectPass) -> Result | None:
        """Make one pass. Raises the client's errors."""
        if this.wait > 0:
            return Later(requeue_after=this.wait)
        found = await self._standing(this.request, template, this.entry)
        self.reports.report(template, this, found)
        return None if found.verdict.lasting else Result(requeue_after=QUARANTINE_SECONDS)

    async def _standing(
        self, request: Request, template: TenantTemplate, entry: Entry
    ) -> TemplateStanding:
        blueprint = self.blueprints.of([entry]).get(request.name)
        revision = None if blueprint is None else blueprint.revision
        managed = group("template", request.namespace, request.name)
        others = group("template", request.namespace, request.name, managed=False)
        return TemplateStanding(
            verdict=await self.blueprints.verdict(entry),
            registry=self._registry(request.namespace, template.spec.registry_id),
            counts=self.tally.counts(managed, revision),
            unmanaged=self.tally.counts(others).total,
            revision=revision or "",
        )

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

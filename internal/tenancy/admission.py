"""What is rejected on admission when a registry or a template is written, instead of in its conditions later.

Every check here is one of the reconcilers'. Conditions remain: an object may have been let in while
no manager answered. See docs/decisions/webhooks.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from apis.tenancy import TenantRegistry, TenantTemplate, resource_lists
from apis.windows import windows_of
from ctrlruntime.api.conditions import shorten
from ctrlruntime.cache.store import Store
from ctrlruntime.rollout import BadWindow
from ctrlruntime.webhook import AdmissionOptions, Review, validates
from internal.tenancy.compiled_templates import Blueprints, problems_with, variables_of
from internal.tenancy.queries import interval_problem, missing_part
from internal.tenancy.rows import mapping_problems
from internal.tenancy.write_back import WRITE_BACK_COLUMN, write_back_problem

ADMISSION: Final = AdmissionOptions(failure_policy="Ignore", timeout_seconds=5)
"""Without a manager everything is let in: the conditions will tell. Deletions are never asked about."""

LONGEST_WARNING = 250


@dataclass(frozen=True, slots=True)
class TenancyAdmission:
    """Validates templates and registries. `registries` is the cache's store of them."""

    blueprints: Blueprints
    registries: Store

    @validates("create", "update")
    async def check_template(
        self, template: TenantTemplate, review: Review[TenantTemplate]
    ) -> None:
        """Refuse what could not be rolled out to any tenant."""
        if review.old is not None and review.old.spec == template.spec:
            return
        if not template.metadata.namespace:
            template.metadata.namespace = review.request.namespace
        verdict = await self.blueprints.examine(template)
        places = _places(template)
        for problem in verdict.found:
            place = places.get(problem.resource, "spec")
            review.invalid(place, problem.resource or template.metadata.name, problem.text)
        registry = self._registry_of(template)
        if registry is not None:
            for text in problems_with(verdict, registry):
                review.invalid("spec", template.metadata.name, text)
            self._warn_of_unknown(registry, verdict.variables, review)

    @validates("create", "update")
    def check_registry(self, registry: TenantRegistry, review: Review[TenantRegistry]) -> None:
        """Refuse what could never be queried."""
        spec = registry.spec
        if review.old is not None and review.old.spec == spec:
            return
        if part := missing_part(spec.source):
            review.required(part, f"type is {spec.source.type}")
        if problem := interval_problem(spec.source):
            review.invalid("spec.source.syncInterval", spec.source.sync_interval, problem)
        try:
            windows_of(spec.maintenance_windows, "spec.maintenanceWindows")
        except BadWindow as error:
            review.forbidden("spec.maintenanceWindows", str(error))
        for problem in mapping_problems(spec):
            review.forbidden("spec.extraValueMappings", problem)
        if problem := write_back_problem(spec):
            review.forbidden(WRITE_BACK_COLUMN, problem)

    def _registry_of(self, template: TenantTemplate) -> TenantRegistry | None:
        """Return the template's registry; None if it is not there yet or cannot be read."""
        entry = self.registries.get(
            template.spec.registry_id, namespace=template.metadata.namespace
        )
        try:
            return None if entry is None else entry.typed(TenantRegistry)
        except ValueError:
            return None

    def _warn_of_unknown(
        self,
        registry: TenantRegistry,
        variables: frozenset[str],
        review: Review[TenantTemplate],
    ) -> None:
        """Return a warning: the registry may still get the columns."""
        unknown = sorted(variables - variables_of(registry))
        if unknown:
            text = f"the registry {registry.metadata.name} maps no column to {', '.join(unknown)}"
            review.warn(shorten(text, LONGEST_WARNING))


def _places(template: TenantTemplate) -> dict[str, str]:
    """Return the field of each resource by its id; of two with one id the first."""
    places: dict[str, str] = {}
    numbers: dict[str, int] = {}
    for wire_name, resource in resource_lists(template.spec):
        number = numbers.get(wire_name, 0)
        numbers[wire_name] = number + 1
        places.setdefault(resource.id, f"spec.{wire_name}[{number}]")
    return places

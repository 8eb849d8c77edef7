"""What is told at once when a registry or a template is written, instead of in its conditions later.

Every check here is one of the reconcilers'. Conditions remain: an object may have been let in while
no manager answered. See docs/decisions/webhooks.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from apis.tenancy import TenantRegistry, TenantTemplate, resource_lists
from ctrlruntime.cache.store import Store
from ctrlruntime.webhook import AdmissionOptions, Review, validates
from internal.tenancy.blueprints import Blueprints, variables_of
from internal.tenancy.queries import interval_problem, missing_part
from internal.tenancy.rows import mapping_problems

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
        """Refuses what could not be rolled out to any tenant."""
        if review.old is not None and review.old.spec == template.spec:
            return
        if not template.metadata.namespace:
            template.metadata.namespace = review.request.namespace
        verdict = await self.blueprints.examine(template)
        places = _places(template)
        for problem in verdict.found:
            place = places.get(problem.resource, "spec")
            review.invalid(place, problem.resource or template.metadata.name, problem.text)
        self._warn_of_unknown(template, verdict.variables, review)

    @validates("create", "update")
    def check_registry(self, registry: TenantRegistry, review: Review[TenantRegistry]) -> None:
        """Refuses what could never be queried."""
        spec = registry.spec
        if review.old is not None and review.old.spec == spec:
            return
        if part := missing_part(spec.source):
            review.required(part, f"type is {spec.source.type}")
        if problem := interval_problem(spec.source):
            review.invalid("spec.source.syncInterval", spec.source.sync_interval, problem)
        for problem in mapping_problems(spec):
            review.forbidden("spec.extraValueMappings", problem)

    def _warn_of_unknown(
        self,
        template: TenantTemplate,
        variables: frozenset[str],
        review: Review[TenantTemplate],
    ) -> None:
        """The registry may still get the columns, or come later."""
        namespace, name = template.metadata.namespace, template.spec.registry_id
        entry = self.registries.get(namespace, name)
        if entry is None:
            return
        try:
            unknown = sorted(variables - variables_of(entry.typed(TenantRegistry)))
        except ValueError:
            return
        if unknown:
            text = f"the registry {name} maps no column to {', '.join(unknown)}"
            review.warn(text[:LONGEST_WARNING])


def _places(template: TenantTemplate) -> dict[str, str]:
    """The field of each resource by its id; of two with one id the first."""
    places: dict[str, str] = {}
    numbers: dict[str, int] = {}
    for wire_name, resource in resource_lists(template.spec):
        number = numbers.get(wire_name, 0)
        numbers[wire_name] = number + 1
        places.setdefault(resource.id, f"spec.{wire_name}[{number}]")
    return places

"""What is rejected on admission when a registry, a template or a tenant is written, instead of in its conditions later.

Every check here is one of the reconcilers', or one that the server makes when objects are applied.
Conditions remain: an object may have been let in while no manager answered. See
docs/decisions/webhooks.md and docs/decisions/template-bodies.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from apis.tenancy import (
    PatchStrategy,
    Tenant,
    TenantRegistry,
    TenantTemplate,
    TResource,
    resource_lists,
)
from apis.windows import windows_of
from ctrlruntime.api.conditions import shorten
from ctrlruntime.cache.store import Store
from ctrlruntime.rollout import BadWindow
from ctrlruntime.webhook import AdmissionOptions, Review, validates
from internal.tenancy.objects.body_review import BodyReview, label_problems, namespace_problem
from internal.tenancy.rows.mapped_columns import columns_hint, unknown_columns
from internal.tenancy.rows.row import mapping_problems
from internal.tenancy.shared.labels import REGISTRY
from internal.tenancy.shared.similar_names import similar_name
from internal.tenancy.sources.queries import interval_problem, missing_part
from internal.tenancy.sources.write_back import WRITE_BACK_COLUMN, write_back_problem
from internal.tenancy.sync.neighbours import REGISTRY_INDEX
from internal.tenancy.template.compiled import (
    ALWAYS_KNOWN,
    Blueprints,
    Verdict,
    bare_functions,
    problems_with,
    variables_of,
)

ADMISSION: Final = AdmissionOptions(failure_policy="Ignore", timeout_seconds=5)
"""Without a manager everything is let in: the conditions will tell. Deletions are never asked about."""

TENANT_ADMISSION: Final = replace(
    ADMISSION,
    object_selector={"matchExpressions": [{"key": REGISTRY, "operator": "DoesNotExist"}]},
)
"""Tenants that a registry makes are not reviewed: their template was, and 10,000 of them would cost a request each."""

LONGEST_WARNING = 250
MOST_WARNINGS = 10


@dataclass(frozen=True, slots=True)
class TenancyAdmission:
    """Validates registries, templates and tenants.

    `registries` and `templates` are the cache's stores of them; `bodies` checks manifests against
    the server's schemas.
    """

    blueprints: Blueprints
    registries: Store
    templates: Store | None = None
    """With the index REGISTRY_INDEX. None: a registry's templates are not looked at."""
    bodies: BodyReview | None = None

    @validates("create", "update")
    async def check_template(
        self, template: TenantTemplate, review: Review[TenantTemplate]
    ) -> None:
        """Refuse what could not be rolled out to any tenant."""
        if review.old is not None and review.old.spec == template.spec:
            return
        if not template.metadata.namespace:
            template.metadata.namespace = review.request.namespace
        verdict = await self._check_lists(template, review)
        registry = self._registry_of(template)
        if registry is not None:
            for text in problems_with(verdict, registry):
                review.invalid("spec", template.metadata.name, text)
            known = variables_of(registry)
            if unknown := verdict.variables - known:
                text = f"the registry {registry.metadata.name} maps no column to "
                text = f"{text}{_listed(unknown, known)}: add it to extraValueMappings"
                _warn(review, text + columns_hint(unknown, registry))

    @validates("create", "update")
    async def check_tenant(self, tenant: Tenant, review: Review[Tenant]) -> None:
        """Refuse what could never be rendered or applied, in a tenant that is written by hand."""
        spec = tenant.spec
        if review.old is not None and review.old.spec == spec:
            return
        if not tenant.metadata.namespace:
            tenant.metadata.namespace = review.request.namespace
        verdict = await self._check_lists(tenant, review)
        sensitive = spec.sensitive_variables.names if spec.sensitive_variables else []
        known = (ALWAYS_KNOWN - {"activate"}) | {*spec.variables, *sensitive, *spec.generate}
        for text in bare_functions(verdict.variables, known):
            review.invalid("spec", tenant.metadata.name, text)
        if unknown := verdict.variables - known:
            _warn(review, f"spec.variables has no {_listed(unknown, known)}: add it there")

    @validates("create", "update")
    async def check_registry(
        self, registry: TenantRegistry, review: Review[TenantRegistry]
    ) -> None:
        """Refuse what could never be queried."""
        spec = registry.spec
        if review.old is not None and review.old.spec == spec:
            return
        if part := missing_part(spec.source):
            review.required(part, f"type is {spec.source.type}; describe the source there")
        if problem := interval_problem(spec.source):
            detail = f"{problem}; write for example 30s"
            review.invalid("spec.source.syncInterval", spec.source.sync_interval, detail)
        try:
            windows_of(spec.maintenance_windows, "spec.maintenanceWindows")
        except BadWindow as error:
            review.forbidden("spec.maintenanceWindows", str(error))
        for problem in mapping_problems(spec):
            review.forbidden("spec.extraValueMappings", problem)
        if problem := write_back_problem(spec):
            review.forbidden(WRITE_BACK_COLUMN, problem)
        if review.old is not None and review.old.spec.source.described == spec.source.described:
            unknown = unknown_columns(registry, review.old.status.columns)
            for text in islice(unknown, MOST_WARNINGS):
                _warn(review, text)
        await self._warn_of_templates(registry, review)

    async def _check_lists(
        self, lists: TenantTemplate | Tenant, review: Review[TenantTemplate] | Review[Tenant]
    ) -> Verdict:
        """Add what is wrong with the resources and hooks, each with its field."""
        verdict = await self.blueprints.examine(lists)
        places = {} if verdict.too_large else _places(lists)
        for problem in verdict.found:
            place = places.get(problem.resource or problem.at, "spec")
            text = f"{problem.text}; {problem.fix}" if problem.fix else problem.text
            subject = problem.resource or problem.at or lists.metadata.name
            review.invalid(place, subject, text)
        for loss in verdict.lost:
            _warn(review, f"{places.get(loss.resource, 'spec')}.spec: {loss.text}")
        if verdict.too_large:
            return verdict
        for place, resource in _entries(lists):
            await self.blueprints.pace.maybe_yield()
            _check_names(place, resource, review)
            if self.bodies is not None:
                await _check_body(self.bodies, place, resource, review)
        return verdict

    async def _warn_of_templates(
        self, registry: TenantRegistry, review: Review[TenantRegistry]
    ) -> None:
        """Warn of templates that read what the registry does not give, or no longer."""
        if self.templates is None:
            return
        namespace = registry.metadata.namespace or review.request.namespace
        known = variables_of(registry)
        before = None if review.old is None else variables_of(review.old)
        key = f"{namespace}/{registry.metadata.name}"
        for entry in self.templates.by_index(REGISTRY_INDEX, key):
            unknown = (await self.blueprints.verdict(entry)).variables - known
            if before is not None:
                unknown &= before
            if unknown:
                text = f"the template {entry.name} reads {_listed(unknown, known)}"
                _warn(review, f"{text}, to which spec.extraValueMappings maps no column")

    def _registry_of(self, template: TenantTemplate) -> TenantRegistry | None:
        """Return the template's registry; None if it is not there yet or cannot be read."""
        entry = self.registries.get(
            template.spec.registry_id, namespace=template.metadata.namespace
        )
        try:
            return None if entry is None else entry.typed(TenantRegistry)
        except ValueError:
            return None


Reviewed = Review[TenantTemplate] | Review[Tenant] | Review[TenantRegistry]


async def _check_body(
    bodies: BodyReview, place: str, resource: TResource, review: Reviewed
) -> None:
    """Refuse a manifest that the server can never accept, and warn where that is not certain."""
    for finding in await bodies.findings(resource.spec, resource.patch_strategy):
        path, text = f"{place}.spec.{finding.problem.path}", finding.problem.text
        if finding.certain:
            review.invalid(path, resource.id, text)
        else:
            _warn(review, f"{path}: {resource.id}: {text}")


def _check_names(place: str, resource: TResource, review: Reviewed) -> None:
    """Refuse names of namespaces and labels that are written out and can never be used."""
    metadata = resource.spec.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    namespace, labels = metadata.get("namespace"), metadata.get("labels")
    for path, text in (
        ("targetNamespace", namespace_problem(resource.target_namespace)),
        (
            "spec.metadata.namespace",
            namespace_problem(namespace) if isinstance(namespace, str) else "",
        ),
        *(("labelsTemplate", text) for text in label_problems(resource.labels_template)),
        *(
            ("spec.metadata.labels", text)
            for text in label_problems(labels if isinstance(labels, dict) else None)
        ),
    ):
        if text:
            review.invalid(f"{place}.{path}", resource.id, text)


def _entries(lists: TenantTemplate | Tenant) -> Iterator[tuple[str, TResource]]:
    """Yield every resource and hook with its field."""
    numbers: dict[str, int] = {}
    for wire_name, resource in resource_lists(lists.spec):
        number = numbers.get(wire_name, 0)
        numbers[wire_name] = number + 1
        yield f"spec.{wire_name}[{number}]", resource
    for number, hook in enumerate(lists.spec.hooks):
        job = TResource(id="hook", spec=hook.spec, patch_strategy=PatchStrategy.APPLY)
        yield f"spec.hooks[{number}]", job.model_copy(update={"id": f"hooks.{hook.id}"})


def _places(lists: TenantTemplate | Tenant) -> dict[str, str]:
    """Return the field of each resource and hook by its id; of two with one id the first."""
    places: dict[str, str] = {}
    for place, resource in _entries(lists):
        places.setdefault(resource.id, place)
    return places


def _listed(unknown: frozenset[str], known: frozenset[str] | set[str]) -> str:
    """Return the names, the first of them with what may have been meant."""
    names = sorted(unknown)
    near = similar_name(names[0], known)
    meant = f" (did you mean {near}?)" if near else ""
    return f"{names[0]}{meant}" + "".join(f", {name}" for name in names[1:])


def _warn(review: Reviewed, text: str) -> None:
    if len(review.warnings) < MOST_WARNINGS:
        review.warn(shorten(text, LONGEST_WARNING))

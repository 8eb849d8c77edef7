"""Labels, annotations and finalizers of the tenancy system, besides those of policies."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from apis.tenancy import GROUP, Tenant, TenantTemplate, resource_lists
from ctrlruntime.api.kinds import GroupVersionKind

FIELD_MANAGER: Final = "tenant-operator"
"""Field manager of everything that is applied for a tenant."""

FINALIZER: Final = f"{GROUP}/finalizer"
"""On tenants and registries: their resources go, or are let go of, before they do."""

REGISTRY: Final = f"{GROUP}/registry"
"""Label of a tenant: its registry."""
TEMPLATE: Final = f"{GROUP}/template"
"""Label of a tenant: its template."""
VALUES: Final = f"{GROUP}/values"
"""Label of the Secrets that hold sensitive variables."""
RESOURCE_ID: Final = f"{GROUP}/resource-id"
"""Annotation of a resource: its id in the template."""
HOOK: Final = "hook:"
"""What the id of a hook begins with on its Job."""
REPLACED_BY: Final = f"{GROUP}/replaced-by"
"""Annotation of a tenant that goes: names of the tenants that may take its place."""
HANDS_OVER: Final = f"{GROUP}/hands-over"
"""Annotation of a tenant that goes once they are ready: `true`, that was decided."""
INHERITED_BY: Final = f"{GROUP}/inherited-by"
"""Annotation of such a tenant: names of those that take its objects and drawn values over. May also be set by hand."""
CHANGE: Final = f"{GROUP}/rollout-change"
"""Annotation of a tenant: the last change by a rollout of its template, as JSON."""
PREVIOUS_ROW: Final = f"{GROUP}/rollout-previous-row"
"""Annotation of a tenant: the variables of its row before that change, as JSON; sensitive ones are in no annotation."""
ADMITTED_ROW: Final = f"{GROUP}/rollout-row"
"""Annotation of a tenant whose rows take part in rollouts: what it was last written with, as JSON; no sensitive values."""
SOURCE_POSITION: Final = f"{GROUP}/source-position"
"""Annotation of a tenant: how far the rows had been read that it was written by; it outlives the registry."""
RESUMED_AT: Final = f"{GROUP}/rollout-resumed-at"
"""Annotation of a template: failures and rollbacks up to this time do not halt its rollout."""
DRAW_AGAIN: Final = f"{GROUP}/draw-again"
"""Annotation of a tenant: names of values, with commas between them, that may be drawn anew where they are lost."""
DRAWN_FOR: Final = f"{GROUP}/drawn-for"
"""Annotation of such a Secret: the UID of its tenant."""
SKIP_HOOKS: Final = f"{GROUP}/skip-hooks"
"""Annotation of a tenant: ids of hooks, with commas between them, without which it goes on; `all`: without any."""
KINDS: Final = f"{GROUP}/kinds"
"""Annotation of a tenant: every kind that may have been applied for it, so that none is forgotten
between an apply and the status that records it."""


def replaced_by(annotations: Mapping[str, str]) -> frozenset[str]:
    """Return the names that a tenant records as its replacements."""
    return frozenset(filter(None, annotations.get(REPLACED_BY, "").split(",")))


def hands_over(annotations: Mapping[str, str]) -> bool:
    """Whether it was decided that a tenant goes once its replacements are ready."""
    return annotations.get(HANDS_OVER) == "true"


def inherited_by(annotations: Mapping[str, str]) -> frozenset[str]:
    """Return the names that a tenant records as those that its objects and drawn values pass to."""
    return frozenset(filter(None, annotations.get(INHERITED_BY, "").split(",")))


def heirs(annotations: Mapping[str, str]) -> frozenset[str]:
    """Return the tenants that may take the tenant's objects over now."""
    return inherited_by(annotations) if hands_over(annotations) else frozenset()


def kinds_of(lists: Tenant | TenantTemplate) -> frozenset[GroupVersionKind]:
    """Return the kinds that the resource lists name; an entry without a usable kind names none."""
    found: set[GroupVersionKind] = set()
    for spec in manifests_of(lists):
        try:
            found.add(GroupVersionKind.of(spec))
        except ValueError:
            continue
    return frozenset(found)


def manifests_of(lists: Tenant | TenantTemplate) -> Iterator[Mapping[str, Any]]:
    """Yield what the resource lists and hooks specify, as it is before rendering."""
    yield from (each.spec for _, each in resource_lists(lists.spec))
    yield from _jobs(lists)


def _jobs(lists: Tenant | TenantTemplate) -> Iterable[Mapping[str, Any]]:
    return (hook.spec for hook in lists.spec.hooks)


def format_kinds(kinds: Iterable[GroupVersionKind]) -> str:
    """Return the value of the annotation KINDS: `apps/v1/Deployment,v1/ConfigMap`, sorted."""
    return ",".join(sorted(f"{kind.api_version}/{kind.kind}" for kind in kinds))


def parse_kinds(text: str) -> frozenset[GroupVersionKind]:
    """Return the kinds of an annotation KINDS; what cannot be read is left out."""
    found: set[GroupVersionKind] = set()
    for part in filter(None, text.split(",")):
        api_version, _, kind = part.rpartition("/")
        try:
            found.add(GroupVersionKind.parse(api_version, kind))
        except ValueError:
            continue
    return frozenset(found)

"""What a tenant's resources would be, without a cluster: one row and one template, by the reconcilers' own steps."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from apis.tenancy import HookMoment, Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api import BUILTIN, GroupVersionKind, Manifest, RESTMapping
from ctrlruntime.json import Json
from ctrlruntime.resources.field_changes import MASK, MASKED
from internal.tenancy.objects.builder import BuiltResource, Mappings, build, build_hook, hooks_of
from internal.tenancy.objects.variables import Variables, variables_of, with_placeholders
from internal.tenancy.rendering import Renderer
from internal.tenancy.rows.row import ActiveRow, Reading, Row, RowReader, columns, mapping_problems
from internal.tenancy.shared.naming import tenant_name
from internal.tenancy.shared.privileges import Privileges
from internal.tenancy.sync.plan_inputs import DesiredTenant, Template
from internal.tenancy.sync.tenants import Blueprint, TenantBuilder

IDENTITY = "name", "namespace"
HEAD = "apiVersion", "kind", "metadata"


class PreviewError(Exception):
    """There is nothing to render: the message names the input to correct."""


@dataclass(frozen=True, slots=True)
class HookPreview:
    """A hook, and its Job."""

    id: str
    moment: HookMoment
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Preview:
    """A tenant's manifests in the order of applying, and one sentence for each that cannot be rendered."""

    manifests: tuple[Manifest, ...]
    problems: tuple[str, ...]
    lost: tuple[str, ...] = ()
    """What conversions in the templates lost; nothing fails for it."""
    hooks: tuple[HookPreview, ...] = ()
    """In the order in which they run."""

    @classmethod
    def of(cls, resources: Iterable[BuiltResource], *, hidden: Mapping[str, str] | None) -> Preview:
        """`hidden`: sensitive variables, which are masked as the data of Secrets is; None masks nothing."""
        manifests: list[Manifest] = []
        problems: list[str] = []
        for item in resources:
            if item.desired is None:
                problems.append(f"resource {item.resource.id!r}: {item.problem}")
                continue
            manifest = with_metadata(item)
            manifests.append(manifest if hidden is None else masked(manifest, hidden))
        return cls(tuple(manifests), tuple(problems))


async def preview(
    tenant: Tenant,
    row: ActiveRow,
    renderer: Renderer,
    mappings: Mapping[GroupVersionKind, RESTMapping],
    privileges: Privileges,
    *,
    show_secrets: bool = False,
) -> Preview:
    """Return the tenant's manifests. Raises GraphError when they cannot be put in order.

    `mappings`: how custom kinds are served. Other kinds that Kubernetes does not have are taken to be
    namespaced.
    """

    def served(kind: GroupVersionKind) -> RESTMapping:
        plural = f"{kind.kind.lower()}s"
        return mappings.get(kind) or BUILTIN.get(kind) or RESTMapping(kind, plural, True)

    variables = variables_of(tenant, with_placeholders(tenant, row.sensitive))
    made = await build(tenant, variables, renderer, served, privileges)
    hidden = None if show_secrets else variables.hidden
    found = Preview.of(made.resources, hidden=hidden)
    hooks, problems = await _hooks(tenant, variables, renderer, served, privileges, hidden)
    return replace(
        found, lost=tuple(made.lost()), hooks=tuple(hooks), problems=(*found.problems, *problems)
    )


async def _hooks(
    tenant: Tenant,
    variables: Variables,
    renderer: Renderer,
    served: Mappings,
    privileges: Privileges,
    hidden: Mapping[str, str] | None,
) -> tuple[list[HookPreview], list[str]]:
    """Return the Jobs of the hooks in the order of their runs, and what is wrong with the others."""
    hooks: list[HookPreview] = []
    problems: list[str] = []
    for hook in (each for moment in HookMoment for each in hooks_of(tenant, {}, moment)):
        built = await build_hook(tenant, hook, variables, renderer, served, privileges)
        if built.desired is None:
            problems.append(f"hook {hook.id!r}: {built.problem}")
            continue
        manifest = with_metadata(built)
        shown = manifest if hidden is None else masked(manifest, hidden)
        hooks.append(HookPreview(hook.id, hook.moment, shown))
    return hooks, problems


def tenant_of(template: TenantTemplate, registry: TenantRegistry, row: ActiveRow) -> Tenant:
    """Return the Tenant that the registry's reconciler would write. Raises IllegalName."""
    name = template.metadata.name or ""
    blueprint = Blueprint.of(template)
    desired = DesiredTenant(tenant_name(row.uid, name), Template(name, blueprint.revision), row)
    manifest = TenantBuilder(registry, {name: blueprint}).tenant(desired, None, blueprint).manifest
    return Tenant.from_manifest(manifest)


def registry_for(template: TenantTemplate, namespace: str, names: Iterable[str]) -> TenantRegistry:
    """Return a registry whose columns are called as the variables are: `names`, uid among them."""
    extra = sorted(set(names) - {"uid", "activate", "hostOrUrl"})
    mappings = {"uid": "uid", "activate": "activate"}
    return TenantRegistry.from_manifest(
        {
            "apiVersion": TenantRegistry.gvk().api_version,
            "kind": TenantRegistry.gvk().kind,
            "metadata": {"name": template.spec.registry_id, "namespace": namespace},
            "spec": {
                "source": {"type": "sqlite", "sqlite": {"path": "rows.db", "table": "rows"}},
                "valueMappings": {**mappings, "hostOrUrl": "hostOrUrl"},
                "extraValueMappings": {name: name for name in extra},
            },
        }
    )


def choose_row(
    rows: Iterable[Mapping[str, str | None]], registry: TenantRegistry, uid: str | None
) -> ActiveRow:
    """Return the row of the uid, or the only one. Raises PreviewError for none, and for one in doubt."""
    if problems := mapping_problems(registry.spec):
        raise PreviewError("; ".join(problems))
    given = list(rows)
    reader = RowReader(registry.spec)
    for number, row in enumerate(given, start=1):
        missing = [name for name in columns(registry.spec) if name not in row]
        optional = registry.spec.value_mappings.host_or_url
        if missing := [name for name in missing if name != optional]:
            raise PreviewError(f"row {number} has no column {missing[0]!r}")
        reader.take(Row(row))
    reading = reader.reading()
    found = [row for row in reading.active if uid in {None, row.uid}]
    if len(found) == 1:
        return found[0]
    raise PreviewError(_why_not_one(reading, found, uid))


def _why_not_one(reading: Reading, found: list[ActiveRow], uid: str | None) -> str:
    if len(found) > 1:
        uids = ", ".join(row.uid for row in found[:10])
        return f"there are {len(found)} active rows; choose one by its uid: {uids}"
    if uid in reading.inactive or (uid is None and reading.inactive):
        return "the row is not active: it has no tenant"
    if problems := reading.problems(3):
        return "; ".join(problems)
    return f"there is no row with uid {uid!r}" if uid else "there are no rows"


def masked(manifest: Manifest, hidden: Mapping[str, str]) -> Manifest:
    """Return the manifest with `***` for the data of a Secret and for every sensitive value."""
    values = sorted({text for text in hidden.values() if text}, key=len, reverse=True)
    values += [base64.b64encode(text.encode()).decode() for text in values]
    secret = manifest.get("kind") == "Secret" and manifest.get("apiVersion") == "v1"
    data = {
        key: dict.fromkeys(manifest[key], MASK) for key in MASKED if secret and manifest.get(key)
    }
    shown: Manifest = _replaced({**manifest, **data}, values)
    # No sensitive variable is defined where these are rendered.
    shown |= {key: manifest[key] for key in ("apiVersion", "kind") if key in manifest}
    named = {key: manifest["metadata"][key] for key in IDENTITY if key in manifest["metadata"]}
    return {**shown, "metadata": {**shown["metadata"], **named}}


def _replaced(item: object, values: list[str]) -> Json:
    if isinstance(item, dict):
        return {_replaced(key, values): _replaced(value, values) for key, value in item.items()}
    if isinstance(item, list):
        return [_replaced(value, values) for value in item]
    if isinstance(item, str):
        for text in values:
            item = item.replace(text, MASK)
        return item
    return MASK if str(item) in values else item


def with_metadata(item: BuiltResource) -> Manifest:
    """Return the manifest with the labels and annotations that it is written with, but for its owner's."""
    if item.desired is None:
        raise ValueError("a resource with a problem has no manifest")
    desired, manifest = item.desired, dict(item.desired.manifest)
    metadata = dict(manifest["metadata"])
    for name, added in (("labels", desired.labels), ("annotations", desired.annotations)):
        if together := {**(metadata.get(name) or {}), **added}:
            metadata[name] = together
    manifest["metadata"] = metadata
    return {key: manifest[key] for key in HEAD} | manifest

"""The builder of Tenants: a row and a template to the desired Tenant, and back to what plans need."""

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Protocol

from apis.fleet.labels import MOVING_TO, ROW
from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api.kinds import GroupVersionKind, Manifest
from ctrlruntime.cache.entry import Entry, Key
from ctrlruntime.controller.annotations import is_paused
from ctrlruntime.memo import VersionMemo
from ctrlruntime.resources import (
    OWNER,
    OWNER_UID,
    REVISION,
    Desired,
    Owner,
    is_controlled,
    missing_leaves,
    revision,
)
from internal.tenancy.objects.children import OWNER_INDEX
from internal.tenancy.objects.values import SECRET, secret_name, values_secret
from internal.tenancy.rows.row import ActiveRow
from internal.tenancy.shared.labels import (
    ADMITTED_ROW,
    CHANGE,
    FINALIZER,
    KINDS,
    PREVIOUS_ROW,
    REGISTRY,
    SOURCE_POSITION,
    TEMPLATE,
    format_kinds,
    hands_over,
    inherited_by,
    kinds_of,
    parse_kinds,
    replaced_by,
)
from internal.tenancy.shared.naming import ResourceKey, label_value
from internal.tenancy.shared.tally import TenantState
from internal.tenancy.shared.tenant_counts import state_of
from internal.tenancy.sync.change_progress import Judgement, judge
from internal.tenancy.sync.plan_inputs import DesiredTenant, ExistingTenant
from internal.tenancy.sync.rollout_changes import format_change, parse_change, ready_changed_at
from internal.tenancy.sync.row_rollouts import (
    format_admitted,
    format_row,
    parse_admitted,
    parse_row,
)

LISTS_EXCLUDED = frozenset({"registryId", "rollout"})


@dataclass(frozen=True, slots=True)
class Blueprint:
    """A template's content, prepared once for all its tenants."""

    name: str
    generation: int
    lists: Manifest
    kinds: frozenset[GroupVersionKind]
    revision: str

    @classmethod
    def of(cls, template: TenantTemplate) -> "Blueprint":
        """From a template as it stands."""
        spec = template.spec.to_wire()
        lists = {name: items for name, items in spec.items() if name not in LISTS_EXCLUDED}
        name, generation = template.metadata.name or "", template.metadata.generation or 0
        return cls(name, generation, lists, kinds_of(template), revision(lists))


@dataclass(slots=True)
class TenantBuilder:
    """Builds the objects of one registry."""

    registry: TenantRegistry
    blueprints: Mapping[str, Blueprint]
    earlier: Mapping[tuple[str, str], Blueprint] = field(default_factory=dict)
    """Earlier content of templates, by name and version."""
    position: str = ""
    """How far the rows were read; empty if that is unknown."""
    staging_rows: Set[str] = frozenset()
    """The templates whose changed rows take part in their rollouts: what their tenants are written with is recorded."""

    @property
    def namespace(self) -> str:
        return self.registry.metadata.namespace or ""

    def version(self, template: str) -> str:
        """Return the revision of a template; empty if it cannot be read."""
        blueprint = self.blueprints.get(template)
        return "" if blueprint is None else blueprint.revision

    def blueprint(self, tenant: DesiredTenant) -> Blueprint | None:
        """Return the content that a tenant is built from; None if it is an earlier one that is not known."""
        present = self.blueprints[tenant.template.name]
        if tenant.version in {"", present.revision}:
            return present
        return self.earlier.get((tenant.template.name, tenant.version))

    def labels(self, tenant: DesiredTenant) -> dict[str, str]:
        """Labels of a tenant and its Secret."""
        return {
            REGISTRY: label_value(self.registry.metadata.name or ""),
            TEMPLATE: label_value(tenant.template.name),
        }

    def tenant(self, tenant: DesiredTenant, before: Entry | None, blueprint: Blueprint) -> Desired:
        """Return the desired Tenant. `before` is what exists: kinds it may still use are not forgotten."""
        spec: Manifest = {
            "uid": tenant.row.uid,
            "templateRef": tenant.template.name,
            "registryId": self.registry.metadata.name,
            "templateRevision": blueprint.revision,
            "variables": dict(tenant.row.variables),
            **blueprint.lists,
        }
        if tenant.row.sensitive:
            spec["sensitiveVariables"] = {
                "secretName": secret_name(tenant.name),
                "names": sorted(tenant.row.sensitive),
            }
        manifest: Manifest = {
            "apiVersion": Tenant.gvk().api_version,
            "kind": Tenant.gvk().kind,
            "metadata": {
                "name": tenant.name,
                "namespace": self.namespace,
                "labels": self.labels(tenant),
                "finalizers": [FINALIZER],
            },
            "spec": spec,
        }
        kinds = format_kinds(blueprint.kinds | _still_used(before, blueprint.kinds))
        annotations = {KINDS: kinds, **_change_annotation(tenant, before)}
        if position := self.position or _position_of(before):
            annotations[SOURCE_POSITION] = position
        if tenant.template.name in self.staging_rows and (
            admitted := format_admitted(blueprint.revision, tenant.row)
        ):
            annotations[ADMITTED_ROW] = admitted
        return Desired(
            mapping=Tenant.mapping(),
            manifest=manifest,
            force_own_fields=True,
            annotations=annotations,
        )

    def secret(self, name: str, labels: Mapping[str, str], row: ActiveRow) -> Desired:
        """Return the Secret with the row's sensitive variables."""
        manifest = values_secret(self.namespace, name, labels, row.sensitive)
        return Desired(mapping=SECRET, manifest=manifest, force_own_fields=True)


def _change_annotation(tenant: DesiredTenant, before: Entry | None) -> dict[str, str]:
    """Return the record of a change by a rollout: the new one, or the one that is there."""
    if tenant.change is None:
        there: Mapping[str, str] = {} if before is None else before.annotations
        return {name: text for name in (CHANGE, PREVIOUS_ROW) if (text := there.get(name))}
    made = {CHANGE: format_change(tenant.change)}
    if tenant.previous_row is not None:
        made[PREVIOUS_ROW] = format_row(tenant.previous_row)
    return made


class _Tenants(Protocol):
    """Tenants as the cache has them."""

    def by_index(self, index: str, value: str) -> Iterable[Entry]: ...


def positions_in(tenants: _Tenants) -> Callable[[TenantRegistry], Iterable[str]]:
    """Return what finds the positions that the tenants of a registry were written at: also of one that was made again."""

    def positions(registry: TenantRegistry) -> set[str]:
        found = tenants.by_index(OWNER_INDEX, Owner.of(registry).key)
        return {_position_of(item) for item in found} - {""}

    return positions


def _position_of(entry: Entry | None) -> str:
    return "" if entry is None else entry.annotations.get(SOURCE_POSITION, "")


def _still_used(
    before: Entry | None, wanted: frozenset[GroupVersionKind]
) -> frozenset[GroupVersionKind]:
    """Kinds on record for a tenant that its last status does not show to be gone.

    Another version of a wanted kind is not needed: it is the same objects.
    """
    if before is None:
        return frozenset()
    recorded = parse_kinds(before.annotations.get(KINDS, ""))
    status = before.field("status") or {}
    if status.get("observedGeneration") != before.generation:
        return recorded  # its resources may be half way
    applied = set()
    for key in status.get("appliedResources") or ():
        try:
            applied.add(ResourceKey.parse(key).kind)
        except ValueError:
            return recorded
    applied -= {kind.group_kind for kind in wanted}
    return frozenset(kind for kind in recorded if kind.group_kind in applied)


@dataclass(slots=True)
class ExistingTenants:
    """Tenants in the cluster as plans see them; each is decoded once per resourceVersion."""

    held_values: dict[Key, Mapping[str, str]] = field(default_factory=dict)
    """What the Secrets of tenants whose rows take part in rollouts held when they were last as they were written."""
    _known: VersionMemo[Key, ExistingTenant] = field(default_factory=VersionMemo)
    _intact: dict[tuple[frozenset[str], bytes, str], bool] = field(default_factory=dict)

    def of(self, entry: Entry, owner: Owner) -> ExistingTenant:
        """Return what a plan needs of one tenant. Its Secret is not looked at here."""
        seen = (owner.uid, entry.uid, entry.resource_version)
        known = self._known.get(entry.key, seen)
        if known is not None:
            return known
        spec = entry.field("spec") or {}
        variables = spec.get("variables") or {}
        state = state_of(entry)
        is_ready = state is TenantState.READY
        version = str(spec.get("templateRevision", ""))
        admitted = parse_admitted(entry.annotations.get(ADMITTED_ROW, ""))
        edited = admitted is not None and (version, variables) != (
            admitted.content,
            admitted.variables,
        )
        if admitted is not None and edited:
            version, variables = admitted.content, admitted.variables
        tenant = ExistingTenant(
            name=entry.name,
            uid=str(spec.get("uid", "")),
            template=str(spec.get("templateRef", "")),
            version=version,
            variables=variables,
            object_uid=entry.uid,
            intact=not edited and self._is_intact(entry, spec, owner),
            deleting=entry.deletion_timestamp is not None,
            created=entry.creation_timestamp,
            state=state,
            replaced_by=replaced_by(entry.annotations),
            inherited_by=inherited_by(entry.annotations),
            handing_over=hands_over(entry.annotations),
            moving_to=entry.annotations.get(MOVING_TO, ""),
            row=entry.annotations.get(ROW, ""),
            paused=is_paused(entry.annotations),
            protected=spec.get("deletionProtection") is not False,
            labels=entry.labels,
            change=(change := parse_change(entry.annotations.get(CHANGE, ""))),
            previous_row=parse_row(entry.annotations.get(PREVIOUS_ROW, "")),
            admitted=admitted,
            health_since=ready_changed_at(entry) if change or not is_ready else None,
            judgement=Judgement() if is_ready else judge(entry, change),
        )
        return self._known.put(entry.key, seen, tenant)

    def forget(self, namespace: str, name: str) -> None:
        """Forget a tenant that is gone."""
        self._known.forget((namespace, name))
        self.held_values.pop((namespace, name), None)

    def _is_intact(self, entry: Entry, spec: Manifest, owner: Owner) -> bool:
        """Whether every field we applied is still owned by us. Tenants of one template share the answer."""
        if entry.annotations.get(OWNER_UID) != owner.uid or entry.owned is None:
            return False
        if not is_controlled(entry, owner):
            return False
        shared = {name: item for name, item in spec.items() if name not in {"uid", "variables"}}
        if named := shared.get("sensitiveVariables"):
            shared["sensitiveVariables"] = {**named, "secretName": ""}
        key = (frozenset(spec.get("variables") or ()), entry.owned, revision(shared))
        known = self._intact.get(key)
        if known is None:
            applied = {
                "metadata": {
                    "labels": {REGISTRY: "", TEMPLATE: ""},
                    "finalizers": [FINALIZER],
                    "annotations": dict.fromkeys((KINDS, OWNER, OWNER_UID, REVISION), ""),
                },
                "spec": spec,
            }
            known = not missing_leaves(applied, entry.owned)
            if len(self._intact) > 4096:
                self._intact.clear()
            self._intact[key] = known
        return known

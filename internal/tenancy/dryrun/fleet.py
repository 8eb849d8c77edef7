"""Plans the next sync of a registry, or a changed template, for all of its tenants. Writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pydantic import ValidationError

from apis.tenancy import Tenant, TenantRegistry
from ctrlruntime.api.kinds import Manifest
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.errors import APIError
from ctrlruntime.clock import new_uid
from ctrlruntime.controller.annotations import is_paused
from ctrlruntime.resources import Desired, Operation, Owner, Ownership, PlannedWrite, Reason
from ctrlruntime.resources.change_plan import (
    ChangePlan,
    Context,
    Group,
    Grouping,
    PlanError,
    Verb,
    Wording,
)
from ctrlruntime.resources.field_changes import FieldChange, field_changes
from ctrlruntime.resources.lost_fields import lost_fields
from ctrlruntime.rollout import Waiting
from internal.tenancy.dryrun.tenant import PlannedTenant, TenantPlanner
from internal.tenancy.objects.children import OWNER_INDEX
from internal.tenancy.objects.values import SECRET, SensitiveValues, secret_name
from internal.tenancy.registry.held_changes import window_hold, without_held
from internal.tenancy.registry.sync_planner import Sync, SyncPlanner
from internal.tenancy.rows.row import ActiveRow, Reading
from internal.tenancy.shared.naming import LOCAL
from internal.tenancy.shared.outcome import refusal
from internal.tenancy.sync.neighbours import taking_over
from internal.tenancy.sync.plan import Plan
from internal.tenancy.sync.plan_inputs import DesiredTenant, ExistingTenant
from internal.tenancy.sync.tenants import TenantBuilder
from internal.tenancy.template.compiled import Blueprints
from internal.tenancy.tenant.removal_decisions import Place
from internal.tenancy.tenant.replacement_marks import predecessors_of

WORDING: Final = Wording(
    subject="Registry", unit="row", owner="tenant", key="uid", failing="Rows that fail"
)
NAMED = 10
"""Rows that a sentence on rows in doubt names."""
_OF_THE_ROW = ("uid", "templateRef", "registryId", "variables", "sensitiveVariables")


@dataclass(slots=True)
class FleetPlanner:
    """Plans the tenants of one registry."""

    sync: SyncPlanner
    tenants: TenantPlanner
    blueprints: Blueprints
    values: SensitiveValues
    grouping: Grouping
    hold: Callable[[Entry], Waiting | None] = lambda _entry: None
    """What holds changes of a registry's tenants from outside: a freeze."""

    async def plan(self, entry: Entry, reading: Reading | None, template: str = "") -> ChangePlan:
        """Return the plan of a registry, or of one template of it.

        `reading`: the rows of its source; None takes those of the existing tenants. Raises PlanError.
        """
        registry = _typed(entry)
        rows = reading if reading is not None else await self._rows_of_tenants(entry)
        found = ChangePlan(
            wording=WORDING, name=entry.name, namespace=entry.namespace, total=rows.total
        )
        decided = await self.sync.decide(registry, entry, rows, self.sync.guard(registry, entry))
        made, lost = await self.sync.without_lost_templates(decided.plan, entry)
        made, paused = self.sync.without_paused(made, decided.paused, entry.namespace)
        for message in (*lost, *paused, *self.sync.waiting(made, entry.namespace)):
            self.grouping.hold_all(message, 0)
        if reading is not None:
            for sentence in reading.problems(NAMED):
                self.grouping.hold_all(f"rows in doubt: {sentence}", reading.invalid_rows)
        if made.held is not None:
            self.grouping.hold_all(f"{made.held.reason}: {made.held.message}", made.held.tenants)
        found.notes += [*decided.moved_troubles, *made.problems, *self._rollouts(decided)]
        found.notes += self._waits(registry, entry, made, template)
        refused = await self.blueprints.invalid(decided.templates, registry)
        await self._carry_out(decided, made, refused, template)
        self.grouping.into(found)
        return found

    # -- the rows --------------------------------------------------------------------------------

    async def _rows_of_tenants(self, entry: Entry) -> Reading:
        """Return the rows that the existing tenants were made from."""
        rows: dict[str, ActiveRow] = {}
        for item in self._tenants_of(entry):
            try:
                tenant = item.typed(Tenant)
            except ValidationError:
                continue
            sensitive = await self._sensitive(tenant)
            rows[tenant.spec.uid] = ActiveRow(
                tenant.spec.uid, tenant.spec.variables, sensitive or {}
            )
        return Reading(active=tuple(rows[uid] for uid in sorted(rows)), total=len(rows))

    def _tenants_of(self, entry: Entry) -> Iterable[Entry]:
        owner = Owner.of(entry)
        found = self.sync.tenants.by_index(OWNER_INDEX, owner.key)
        return [item for item in found if item.deletion_timestamp is None]

    def _rollouts(self, decided: Sync) -> list[str]:
        """Return which templates change their tenants in stages."""
        staged = (self.blueprints.strategy(item) for item in decided.templates)
        return [
            f"template {item.name!r} has a rollout: its tenants change in stages, not all at once"
            for item, strategy in zip(decided.templates, staged, strict=True)
            if strategy is not None
        ]

    def _waits(
        self, registry: TenantRegistry, entry: Entry, made: Plan, template: str
    ) -> list[str]:
        """Return why planned changes of tenants would wait, and how many of them."""
        hold = self.hold(entry) or window_hold(registry, self.sync.clock())
        if hold is None:
            return []
        planned = made if not template else _of_template(made, template)
        changes = without_held(planned, hold, {}).changes
        if not changes:
            return []
        tenants = "1 tenant" if changes == 1 else f"{changes:,} tenants"
        return [f"changes of {tenants} wait: {hold.message}. New tenants are created all the same"]

    # -- the tenants -----------------------------------------------------------------------------

    async def _carry_out(
        self, decided: Sync, made: Plan, refused: Mapping[str, str], template: str
    ) -> None:
        """Plan every tenant, those that are not changed among them: their objects may have drifted."""
        builder, owner = decided.builder, decided.owner
        writes = [*made.creates, *(item.tenant for item in made.updates)]
        for item in writes:
            if item.template.name in refused:
                why = f"the template is not rolled out: {refused[item.template.name]}"
                self.grouping.fail(_context(item), "", why)
        updates = {item.name: item for item in writes if item.template.name not in refused}
        going = {item.name for item in made.deletes} | {item.tenant for item in made.replaced}
        heirs = _heirs(made, {item.name: item for item in decided.existing}, self._uid_of(owner))
        for name in sorted(updates):
            if template in {"", updates[name].template.name}:
                await self._written(updates[name], builder, owner, heirs.get(name, frozenset()))
        for tenant in sorted(decided.existing, key=lambda each: each.name):
            unchanged = tenant.name not in updates and tenant.name not in going
            if template not in {"", tenant.template} or tenant.deleting or tenant.paused:
                continue
            if unchanged:
                await self._unchanged(tenant, owner)
            elif tenant.name in going:
                await self._going(tenant, made, owner)

    def _uid_of(self, owner: Owner) -> Callable[[str], str]:
        def uid(name: str) -> str:
            entry = self._entry(name, owner)
            return "" if entry is None else entry.uid

        return uid

    def _entry(self, name: str, owner: Owner) -> Entry | None:
        return self.sync.tenants.get(name, namespace=owner.namespace)

    async def _written(
        self,
        wanted: DesiredTenant,
        builder: TenantBuilder,
        owner: Owner,
        predecessors: frozenset[str],
    ) -> None:
        """Plan a tenant that the registry writes."""
        before = self._entry(wanted.name, owner)
        blueprint = builder.blueprint(wanted)
        if blueprint is None:
            return
        owner = taking_over(wanted, owner, before)
        old, old_values = await self._live(before)
        context = _context(wanted)
        if wanted.row.sensitive:
            secret = builder.secret(wanted.name, builder.labels(wanted), wanted.row)
            await self._ensure(secret, owner, context, _secret_before(wanted, builder, old_values))
        desired = builder.tenant(wanted, before, blueprint)
        if not await self._ensure(desired, owner, context, _of_row(before), lists=blueprint.lists):
            return
        tenant = _with(desired, before)
        if is_paused(tenant.metadata.annotations or {}):
            return
        itself = _owner(before, desired)
        if before is not None:
            predecessors |= predecessors_of(before, self.sync.tenants)
        await self.tenants.living(
            PlannedTenant(
                tenant=tenant,
                owner=replace(itself, predecessors=predecessors),
                annotations=tenant.metadata.annotations or {},
                sensitive=dict(wanted.row.sensitive) or None,
                before=old,
                sensitive_before=old_values,
            )
        )

    async def _ensure(
        self,
        desired: Desired,
        owner: Owner,
        context: Context,
        before: Manifest | None,
        *,
        lists: Mapping[str, object] | None = None,
    ) -> bool:
        """Plan an object of the registry itself. Returns whether it can be written."""
        control, writes = self.tenants.control, self.tenants.writes
        entry = control.look(desired)
        if entry is not None:
            verdict = control.judge(entry, owner)
            if verdict.standing is Ownership.FOREIGN:
                self.grouping.fail(context, "", f"{desired.name!r} belongs to {verdict.holder}")
                return False
        writes.clear()
        await control.ensure(desired, owner)
        for write in writes:
            after = _shown(desired.manifest, lists or {})
            changes = _changes(write, before, after)
            reason = "" if write.reason is None else write.reason.value
            self.grouping.add(context, _VERBS[write.operation], write, changes, reason=reason)
        writes.clear()
        return True

    async def _unchanged(self, tenant: ExistingTenant, owner: Owner) -> None:
        """Plan a tenant that the registry does not write."""
        planned = await self._planned(tenant.name, owner)
        if planned is not None:
            await self.tenants.living(planned)

    async def _planned(self, name: str, owner: Owner) -> PlannedTenant | None:
        entry = self._entry(name, owner)
        if entry is None:
            return None
        live, sensitive = await self._live(entry)
        if live is None:
            return None
        itself = Owner.of(entry)
        return PlannedTenant(
            tenant=live,
            owner=replace(itself, predecessors=predecessors_of(entry, self.sync.tenants)),
            annotations=entry.annotations,
            sensitive=sensitive,
            before=live,
            sensitive_before=sensitive,
        )

    async def _going(self, tenant: ExistingTenant, made: Plan, owner: Owner) -> None:
        """Plan a tenant that is deleted, at once or after its replacements are ready."""
        entry, planned = self._entry(tenant.name, owner), await self._planned(tenant.name, owner)
        if entry is None or planned is None:
            return
        replaced = {item.tenant: item.reason for item in made.replaced}
        reasons = {item.name: item.reason for item in made.deletes} | replaced
        verb = Verb.REPLACE if tenant.name in replaced else Verb.DELETE
        context = Context(
            owner=tenant.name,
            unit=tenant.uid,
            template=tenant.template,
            values={**tenant.variables, "uid": tenant.uid},
        )
        self.grouping.add(
            context, verb, _deletion(entry, owner), (), reason=reasons[tenant.name].value
        )
        if planned.tenant.spec.sensitive_variables is not None:
            self._values_removed(planned, context, owner)
        await self.tenants.going(planned, entry, verb, self._taken_over())

    def _values_removed(self, planned: PlannedTenant, context: Context, owner: Owner) -> None:
        name = secret_name(planned.owner.name)
        entry = self.tenants.kinds.targets.local.kinds.get(
            SECRET.gvk, name, namespace=owner.namespace
        )
        if entry is not None:
            write = PlannedWrite(
                operation=Operation.DELETE,
                mapping=SECRET,
                namespace=owner.namespace,
                name=name,
                owner=owner,
                entry=entry,
            )
            self.grouping.add(context, Verb.DELETE, write, (), reason="TenantDeleted")

    def _taken_over(self) -> frozenset[Place]:
        """Return the objects that other tenants adopt by this plan."""
        return frozenset((*each, LOCAL) for each in self.grouping.adopted)

    async def _live(self, entry: Entry | None) -> tuple[Tenant | None, Mapping[str, str] | None]:
        """Return a tenant as it exists, with its sensitive values."""
        if entry is None:
            return None, None
        try:
            tenant = entry.typed(Tenant)
        except ValidationError:
            return None, None
        return tenant, await self._sensitive(tenant)

    async def _sensitive(self, tenant: Tenant) -> Mapping[str, str] | None:
        named = tenant.spec.sensitive_variables
        entry = named and self.values.informer.store.get(
            named.secret_name, namespace=tenant.metadata.namespace or ""
        )
        return await self.values.of(tenant) if entry else None

    # -- confirmation ----------------------------------------------------------------------------

    async def confirm(self, found: ChangePlan) -> None:
        """Send the first change of each group as a dry run, and record the answer."""
        made = {
            (group.kind, member.namespace, member.name)
            for group in found.groups
            if group.verb is Verb.CREATE and group.kind.kind == "Namespace"
            for member in group.members
        }
        places = {name for _, _, name in made}
        for group in found.groups:
            if group.example is not None and group.example.namespace not in places:
                await self._confirm(group, group.example)

    async def _confirm(self, group: Group, write: PlannedWrite) -> None:
        if write.operation is Operation.RELEASE:
            return
        try:
            group.refusal = await self.tenants.control.confirm(write)
        except APIError as error:
            group.refusal = refusal(error, dict(group.hidden))
        group.confirmed = not group.refusal


_VERBS = {Operation.CREATE: Verb.CREATE, Operation.UPDATE: Verb.UPDATE}


def _of_template(made: Plan, template: str) -> Plan:
    """Return the changes of a plan to tenants of one template."""
    return replace(
        made,
        updates=tuple(item for item in made.updates if item.tenant.template.name == template),
        deletes=(),
        replacements=(),
    )


def _typed(entry: Entry) -> TenantRegistry:
    if entry.deletion_timestamp is not None:
        raise PlanError(f"the registry {entry.name!r} is being deleted")
    if is_paused(entry.annotations):
        raise PlanError(f"the registry {entry.name!r} is paused: nothing is synced")
    try:
        return entry.typed(TenantRegistry)
    except ValidationError as error:
        raise PlanError(f"the registry {entry.name!r} cannot be read: {error}") from error


def _heirs(
    made: Plan, existing: Mapping[str, ExistingTenant], uid_of: Callable[[str], str]
) -> dict[str, frozenset[str]]:
    """Return the UIDs of the tenants whose objects each replacement takes over, by its name."""
    found: dict[str, set[str]] = {}
    for item in made.replaced:
        for name in item.heirs:
            if item.tenant in existing:
                found.setdefault(name, set()).add(uid_of(item.tenant))
    return {name: frozenset(filter(None, uids)) for name, uids in found.items()}


def _context(wanted: DesiredTenant) -> Context:
    row = wanted.row
    return Context(
        owner=wanted.name,
        unit=row.uid,
        template=wanted.template.name,
        values={**row.variables, **row.sensitive, "tenant": wanted.name, "uid": row.uid},
        hidden=row.sensitive,
    )


def _with(desired: Desired, before: Entry | None) -> Tenant:
    """Return the Tenant as the registry's write would leave it."""
    manifest = {**desired.manifest}
    metadata = {**manifest["metadata"]}
    annotations = {**(before.annotations if before else {}), **desired.annotations}
    metadata["annotations"] = annotations
    if before is not None:
        metadata |= {"uid": before.uid, "generation": before.generation + 1}
        manifest["status"] = before.field("status") or {}
    return Tenant.from_manifest({**manifest, "metadata": metadata})


def _owner(before: Entry | None, desired: Desired) -> Owner:
    """Return the Tenant as an owner; one that does not exist yet has a UID of no other object."""
    if before is not None:
        return Owner.of(before)
    return Owner(
        gvk=Tenant.gvk(),
        namespace=desired.namespace,
        name=desired.name,
        uid=new_uid(),
    )


def _deletion(entry: Entry, owner: Owner) -> PlannedWrite:
    return PlannedWrite(
        operation=Operation.DELETE,
        mapping=Tenant.mapping(),
        namespace=entry.namespace,
        name=entry.name,
        owner=owner,
        entry=entry,
    )


def _of_row(before: Entry | None) -> Manifest | None:
    """Return what a Tenant has of its row; the template's lists are shown by their objects."""
    if before is None:
        return None
    spec = before.field("spec") or {}
    return {"spec": {name: spec[name] for name in _OF_THE_ROW if name in spec}}


def _shown(manifest: Manifest, lists: Mapping[str, object]) -> Manifest:
    if not lists:
        return manifest
    spec = {name: manifest["spec"][name] for name in _OF_THE_ROW if name in manifest["spec"]}
    return {"spec": spec}


def _secret_before(
    wanted: DesiredTenant, builder: TenantBuilder, values: Mapping[str, str] | None
) -> Manifest | None:
    """Return the Secret with the values of now."""
    if values is None:
        return None
    row = replace(wanted.row, sensitive=values)
    return builder.secret(wanted.name, builder.labels(wanted), row).manifest


def _changes(
    write: PlannedWrite, before: Manifest | None, after: Manifest
) -> Sequence[FieldChange]:
    if write.operation is Operation.CREATE:
        return [FieldChange("", None, after)]
    found = [] if before is None else field_changes(before, after)
    if found or write.reason is Reason.REVISION:
        return found
    # Lists of a template may have Secrets in them: their values are not shown.
    return [replace(item, after=None) for item in lost_fields(write)]

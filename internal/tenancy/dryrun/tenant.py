"""What a pass over one tenant would do: the reconciler's own steps with a control that does not write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from structlog.typing import FilteringBoundLogger

from apis.tenancy import HookMoment, Tenant
from ctrlruntime.api.kinds import Manifest
from ctrlruntime.cache.entry import Entry
from ctrlruntime.queue import Request
from ctrlruntime.resources import Definitions, DryRunControl, Operation, Owner, PlannedWrite, Reason
from ctrlruntime.resources.change_plan import Context, Grouping, Verb
from ctrlruntime.resources.field_changes import FieldChange, field_changes
from ctrlruntime.resources.lost_fields import lost_fields
from internal.tenancy.dryrun.preview import with_metadata
from internal.tenancy.objects.builder import Build, build, build_hook, hooks_of
from internal.tenancy.objects.graph import GraphError
from internal.tenancy.objects.target_clusters import KindMappings, any_mapping
from internal.tenancy.objects.variables import (
    Variables,
    VariablesError,
    variables_of,
    with_placeholders,
)
from internal.tenancy.registry.sync_planner import Objects
from internal.tenancy.rendering import Renderer
from internal.tenancy.shared.labels import RESOURCE_ID, hands_over
from internal.tenancy.shared.missing_permissions import impersonated
from internal.tenancy.shared.naming import LOCAL
from internal.tenancy.shared.outcome import State
from internal.tenancy.shared.policies import APPROVE_DELETION, OrphanReason
from internal.tenancy.tenant.applier import Applier, ApplyResult
from internal.tenancy.tenant.kinds import TenantKinds, explained
from internal.tenancy.tenant.pruning_holds import PruningHolds
from internal.tenancy.tenant.removal import Found, Removed, Remover, Scope, owned_objects
from internal.tenancy.tenant.removal_decisions import Action, Intent, Place, Wanted, place_of
from internal.tenancy.tenant.removal_decisions import Reason as RemovalReason
from internal.tenancy.tenant.removal_view import applied_keys, wanted_by_deleted, wanted_by_living

_VERBS = {Operation.CREATE: Verb.CREATE, Operation.UPDATE: Verb.UPDATE}


@dataclass(slots=True)
class PlannedTenant:
    """A tenant as it would be. `before` is what its objects were rendered from, None if it is new.

    `annotations` are those of the Tenant; `sensitive` the values that it would read.
    """

    tenant: Tenant
    owner: Owner
    annotations: Mapping[str, str]
    sensitive: Mapping[str, str] | None = field(default=None, repr=False)
    before: Tenant | None = None
    sensitive_before: Mapping[str, str] | None = field(default=None, repr=False)

    @property
    def request(self) -> Request:
        """The tenant's key."""
        return Request(self.owner.name, namespace=self.owner.namespace)


@dataclass(slots=True)
class TenantPlanner:
    """Plans the objects of tenants, one tenant after the other."""

    control: DryRunControl
    applier: Applier
    remover: Remover
    kinds: TenantKinds
    renderer: Renderer
    templates: Objects
    definitions: Definitions
    grouping: Grouping
    logger: FilteringBoundLogger
    pruning: PruningHolds
    generated: Callable[[Tenant], Mapping[str, str]] = lambda _tenant: {}
    """Returns the values that were drawn for a tenant."""
    writes: list[PlannedWrite] = field(default_factory=list)
    """What the control passed on since it was emptied last."""
    _intent: Intent | None = None

    async def living(self, planned: PlannedTenant) -> None:
        """Plan a tenant that stays or is to be made."""
        tenant = planned.tenant
        context = context_of(tenant, self._values(tenant, planned.sensitive))
        mappings = await self.kinds.mappings(tenant, planned.annotations, planned.request)
        try:
            made, variables = await self._build(tenant, planned.sensitive, mappings)
        except (VariablesError, GraphError) as error:
            self.grouping.fail(context, "", str(error))
            return
        if not tenant.status.applied_resources:
            await self._hooks(planned, HookMoment.BEFORE_CREATE, variables, mappings, context)
        self.writes.clear()
        walked = await self.applier.walk(
            tenant, planned.owner, made, hidden=variables.hidden, logger=self.logger
        )
        await self._applied(planned, made, mappings, context)
        self._explain(made, walked, planned.owner, context)
        await self._remove(
            planned,
            wanted_by_living(
                tenant, self._template(tenant), made, walked.outcomes, self.pruning.why(tenant)
            ),
            OrphanReason.REMOVED_FROM_TEMPLATE,
            context,
        )

    async def going(
        self, planned: PlannedTenant, entry: Entry, verb: Verb, kept: frozenset[Place]
    ) -> None:
        """Plan the objects of a tenant that goes, by `verb`; `kept` are taken over by others."""
        tenant = planned.tenant
        context = context_of(tenant, self._values(tenant, planned.sensitive))
        mappings = await self.kinds.mappings(tenant, planned.annotations, planned.request)
        if self._intent is None:
            definition = await self.definitions.of(Tenant.mapping())
            removed = definition.removes(APPROVE_DELETION)
            self._intent = Intent.UNINSTALL if removed else Intent.DELETE
        replaced = verb is Verb.REPLACE or hands_over(planned.annotations)
        if self._intent is Intent.DELETE and not replaced:
            await self._removal_hooks(planned, mappings, context)
        wanted = wanted_by_deleted(tenant, entry, self._template(tenant), self._intent)
        result = await self._remove(
            planned, wanted, OrphanReason.TENANT_DELETED, context, kept, delete=verb
        )
        if self._intent is Intent.DELETE and replaced and (result.deleted or result.pending):
            await self._removal_hooks(planned, mappings, context)

    # -- hooks -----------------------------------------------------------------------------------

    async def _removal_hooks(
        self, planned: PlannedTenant, mappings: KindMappings, context: Context
    ) -> None:
        """Plan the Jobs of the hooks of a tenant that goes."""
        tenant = planned.tenant
        try:
            variables = variables_of(tenant, self._values(tenant, planned.sensitive))
        except VariablesError as error:
            if tenant.spec.hooks:
                self.grouping.fail(context, "", str(error))
            return
        for moment in (HookMoment.BEFORE_DELETE, HookMoment.AFTER_DELETE):
            await self._hooks(planned, moment, variables, mappings, context)

    async def _hooks(
        self,
        planned: PlannedTenant,
        moment: HookMoment,
        variables: Variables,
        mappings: KindMappings,
        context: Context,
    ) -> None:
        """Plan the Jobs of the hooks of a moment that have not run, and are not there."""
        tenant, lookup = planned.tenant, partial(any_mapping, mappings)
        for hook in hooks_of(tenant, planned.annotations, moment):
            if hook.id in tenant.status.completed_hooks:
                continue
            built = await build_hook(
                tenant, hook, variables, self.renderer, lookup, self.kinds.privileges
            )
            resource = built.resource.id
            if built.desired is None:
                self.grouping.fail(context, resource, built.problem)
            elif self.control.look(built.desired) is None:
                self.writes.clear()
                await self.control.ensure(built.desired, planned.owner)
                job = [FieldChange("", None, with_metadata(built))]
                for write in self.writes:
                    self.grouping.add(
                        context, Verb.CREATE, write, job, resource=resource, reason=moment.value
                    )
        self.writes.clear()

    def _template(self, tenant: Tenant) -> Entry | None:
        return self.templates.get(
            tenant.spec.template_ref, namespace=tenant.metadata.namespace or ""
        )

    def _values(
        self, tenant: Tenant, sensitive: Mapping[str, str] | None
    ) -> Mapping[str, str] | None:
        """Return the sensitive values of a tenant with those that are drawn for it."""
        if not tenant.spec.generate:
            return sensitive
        return with_placeholders(tenant, {**self.generated(tenant), **(sensitive or {})})

    async def _build(
        self,
        tenant: Tenant,
        sensitive: Mapping[str, str] | None,
        mappings: KindMappings,
    ) -> tuple[Build, Variables]:
        variables = variables_of(tenant, self._values(tenant, sensitive))
        lookup = partial(any_mapping, mappings)
        made = await build(tenant, variables, self.renderer, lookup, self.kinds.privileges)
        return explained(made, self.kinds.targets), variables

    # -- what is applied -------------------------------------------------------------------------

    async def _applied(
        self,
        planned: PlannedTenant,
        made: Build,
        mappings: KindMappings,
        context: Context,
    ) -> None:
        now = _manifests(made)
        before: dict[str, Manifest] | None = None
        for write in self.writes:
            resource = write.desired.annotations.get(RESOURCE_ID, "") if write.desired else ""
            manifest = now.get(resource, {})
            if write.operation is Operation.CREATE:
                changes = [FieldChange("", None, manifest)]
            elif write.reason in {Reason.DRIFT, Reason.TRACKING}:
                changes = lost_fields(write)
            else:
                if before is None:
                    before = await self._manifests_before(planned, mappings)
                old = before.get(resource)
                changes = [] if old is None else field_changes(old, manifest)
            reason = "" if write.reason is None else write.reason.value
            verb = _VERBS[write.operation]
            self.grouping.add(context, verb, write, changes, resource=resource, reason=reason)
        self.writes.clear()

    async def _manifests_before(
        self, planned: PlannedTenant, mappings: KindMappings
    ) -> dict[str, Manifest]:
        """Return the manifests that the tenant's present spec makes, by resource."""
        if planned.before is None:
            return {}
        try:
            made, _ = await self._build(planned.before, planned.sensitive_before, mappings)
        except (VariablesError, GraphError):
            return {}
        return _manifests(made)

    def _explain(self, made: Build, walked: ApplyResult, owner: Owner, context: Context) -> None:
        """Record what is not applied, and why."""
        items = {item.resource.id: item for item in made.resources}
        for outcome in walked.outcomes:
            desired = items[outcome.id].desired
            if outcome.state in {State.BLOCKED, State.SKIPPED}:
                why = outcome.message or "what it depends on is not ready"
                self.grouping.hold(context, outcome.id, f"{outcome.state.value}: {why}")
            elif (
                outcome.state is State.CONFLICTED
                or desired is None
                or (outcome.state is State.FAILED and self.control.pending(desired, owner))
            ):
                self.grouping.fail(context, outcome.id, outcome.message)

    # -- what is removed -------------------------------------------------------------------------

    async def _remove(
        self,
        planned: PlannedTenant,
        wanted: Wanted,
        reason: OrphanReason,
        context: Context,
        kept: frozenset[Place] = frozenset(),
        delete: Verb = Verb.DELETE,
    ) -> Removed:
        self.writes.clear()
        removed = await self.remover.remove(
            wanted,
            Scope(
                owner=planned.owner,
                applied=applied_keys(planned.tenant.status),
                reason=reason,
                user=impersonated(planned.tenant, self.kinds.privileges),
                hidden=context.hidden,
            ),
            observe=lambda: self._remaining(planned.owner, kept),
        )
        decided = {place_of(item.key): item for item in removed.done}
        for write in self.writes:
            item = decided[_place(write)]
            verb = Verb.RELEASE
            if write.operation is Operation.DELETE:
                verb = Verb.REPLACE if item.reason is RemovalReason.REPLACED else delete
            self.grouping.add(
                context, verb, write, (), resource=item.key.id, reason=item.reason.value
            )
        for item in removed.decisions:
            if item.action is Action.WAIT:
                self.grouping.hold(context, item.key.id, f"{item.reason}: {item.message}")
        self.writes.clear()
        return removed

    def _remaining(self, owner: Owner, kept: frozenset[Place]) -> list[Found]:
        """Return the owner's objects but for those that the plan has removed."""
        gone = {_place(each) for each in self.writes}
        found = owned_objects(self.kinds.targets, owner)
        return [each for each in found if each.place not in gone and each.place not in kept]


def _place(write: PlannedWrite) -> Place:
    """Return which object a write is to."""
    return write.mapping.gvk.group_kind, write.namespace, write.name, LOCAL


def context_of(tenant: Tenant, sensitive: Mapping[str, str] | None) -> Context:
    """Return what groups need of a tenant."""
    name, hidden = tenant.metadata.name or "", dict(sensitive or {})
    values = {**tenant.spec.variables, **hidden, "tenant": name, "uid": tenant.spec.uid}
    return Context(
        owner=name,
        unit=values["uid"],
        template=tenant.spec.template_ref,
        values=values,
        hidden=hidden,
    )


def _manifests(made: Build) -> dict[str, Manifest]:
    """Return what is written for each resource, by its id, but for the record of the owner."""
    return {item.resource.id: with_metadata(item) for item in made.resources if item.desired}

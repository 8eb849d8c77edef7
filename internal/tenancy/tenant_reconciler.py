"""Reconciles one Tenant: render, remove what is no longer wanted, apply, wait, report."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from pydantic import ValidationError

from apis.tenancy import Tenant
from ctrlruntime.api.kinds import GroupKind, GroupVersionKind, RESTMapping
from ctrlruntime.cache.entry import Entry
from ctrlruntime.controller.directives import is_paused, requested
from ctrlruntime.controller.reconcile import Result, current
from ctrlruntime.queue import Request
from ctrlruntime.queue.limiters import ItemExponential
from ctrlruntime.resources import Owner
from internal.tenancy.builder import Build, Variables, VariablesError, build, graph_of, variables_of
from internal.tenancy.children import ChildKinds, Trouble
from internal.tenancy.claims import Claims
from internal.tenancy.grants import Grant, Grants, missing, tell, user_of
from internal.tenancy.graph import GraphError
from internal.tenancy.live import LiveObjects
from internal.tenancy.marks import FINALIZER, KINDS, kinds_of, parse_kinds
from internal.tenancy.naming import ResourceKey
from internal.tenancy.outcome import (
    DEPENDENCY_ERROR,
    VARIABLES_ERROR,
    Failure,
    refuse,
    summarize,
)
from internal.tenancy.patience import Patience
from internal.tenancy.policies import OrphanReason
from internal.tenancy.privileges import Privileges
from internal.tenancy.readiness import ReadinessTimers
from internal.tenancy.removal import Found, Removed, Remover, resource_id
from internal.tenancy.rendering import Renderer
from internal.tenancy.reports import TenantReports
from internal.tenancy.statuses import StatusWriter
from internal.tenancy.values import SensitiveValues
from internal.tenancy.walk import Walked, Walker

FIRST_RETRY = 2.0
LAST_RETRY = 300.0


class Tenants(Protocol):
    """The tenants as the cache has them."""

    def get(self, namespace: str, name: str) -> Entry | None: ...


@dataclass(slots=True)
class TenantReconciler:
    """Makes a tenant's resources exist as its template says.

    Everything is read from the cache; a tenant that is as desired costs no request.
    """

    tenants: Tenants
    mapping: RESTMapping
    children: ChildKinds
    walker: Walker
    remover: Remover
    renderer: Renderer
    values: SensitiveValues
    statuses: StatusWriter
    live: LiveObjects
    claims: Claims
    reports: TenantReports
    timers: ReadinessTimers
    patience: Patience
    grants: Grants
    privileges: Privileges
    clock: Callable[[], datetime]
    remembered: int = 2000
    """Builds kept, so that an event of a child renders nothing anew."""
    retries: ItemExponential = field(
        default_factory=lambda: ItemExponential(FIRST_RETRY, LAST_RETRY)
    )
    _builds: OrderedDict[tuple[str, str], tuple[object, Build, Variables]] = field(
        default_factory=OrderedDict
    )

    async def reconcile(self, request: Request) -> Result | None:
        """One pass. Raises the client's errors when the server gives no usable answer."""
        entry = self.tenants.get(request.namespace, request.name)
        if entry is None:
            self._forget(request)
            return None
        if is_paused(entry.annotations):
            self.grants.forget(request)
            await self.statuses.pause(self.mapping, entry)
            return None
        deleting = entry.deletion_timestamp is not None
        try:
            tenant = entry.typed(Tenant)
        except ValidationError as error:
            if not deleting:
                self.grants.forget(request)
                await self.statuses.refuse(self.mapping, entry, "Ready", error)
                return None
            tenant = bare(entry)
        owner = Owner(
            gvk=self.mapping.gvk, namespace=entry.namespace, name=entry.name, uid=entry.uid
        )
        if deleting:
            return await self._tear_down(tenant, owner, entry, request)
        if FINALIZER not in entry.finalizers:
            await self.live.add_finalizer(self.mapping, entry, FINALIZER)
            return None  # the answer is in the cache and brings us back
        return await self._bring_about(tenant, owner, entry, request)

    async def _bring_about(
        self, tenant: Tenant, owner: Owner, entry: Entry, request: Request
    ) -> Result | None:
        try:
            mappings = await self._mappings(tenant, entry, request)
            made, variables = await self._build(tenant, entry, mappings)
        except VariablesError as error:
            self.grants.forget(request)
            await self._refuse(tenant, entry, Failure(VARIABLES_ERROR, str(error)))
            return Result(requeue_after=self.retries.when(request))
        except GraphError as error:
            self.grants.forget(request)
            degraded = "DependencyCycle" if error.cyclic else DEPENDENCY_ERROR
            await self._refuse(tenant, entry, Failure(DEPENDENCY_ERROR, str(error), degraded))
            return None
        removed = await self._remove_unwanted(tenant, owner, made)
        walked = await self.walker.walk(
            tenant, owner, made, hidden=variables.hidden, logger=current().logger
        )
        walked.missing |= denied(tenant, removed)
        wait = self.patience.left(request, walked.outcomes)
        if wait <= 0:
            await self._report(tenant, entry, walked, removed.going)
        return self._next(tenant, request, walked, wait)

    async def _build(
        self, tenant: Tenant, entry: Entry, mappings: Mapping[GroupVersionKind, RESTMapping | None]
    ) -> tuple[Build, Variables]:
        """The tenant's desired objects, rendered once per content of the tenant."""
        sensitive = await self.values.of(tenant)
        served = tuple(gvk for gvk, mapping in mappings.items() if mapping is not None)
        version = (entry.uid, entry.generation, self.values.version(tenant), frozenset(served))
        known = self._builds.get(entry.key)
        if known is not None and known[0] == version:
            self._builds.move_to_end(entry.key)
            return known[1], known[2]
        variables = variables_of(tenant, sensitive)
        made = self._explained(
            await build(tenant, variables, self.renderer, mappings.get, self.privileges)
        )
        unexplained = [item for item in made.resources if item.missing_kind is not None]
        if not unexplained and not any(item.transient for item in made.resources):
            self._builds[entry.key] = (version, made, variables)
            if len(self._builds) > self.remembered:
                self._builds.popitem(last=False)
        return made, variables

    def _explained(self, made: Build) -> Build:
        """Problems with kinds that are served but cannot be read, said as what they are."""
        items = [
            replace(item, problem=trouble.message, grant=trouble.grant)
            if item.missing_kind is not None
            and (trouble := self.children.trouble(item.missing_kind)) is not None
            else item
            for item in made.resources
        ]
        return Build(tuple(items), made.graph)

    async def _mappings(
        self, tenant: Tenant, entry: Entry, request: Request
    ) -> dict[GroupVersionKind, RESTMapping | None]:
        """How the kinds of the tenant are served, each watched and its first list here."""
        applied = applied_kinds(tenant)
        kinds = frozenset(
            gvk
            for gvk in kinds_of(tenant) | parse_kinds(entry.annotations.get(KINDS, ""))
            if self.privileges.allows(gvk.group_kind) or gvk.group_kind in applied
        )
        self.children.use(request, kinds)
        await self.children.release_unused()
        return {gvk: await self._mapping(gvk, request, applied) for gvk in sorted(kinds)}

    async def _mapping(
        self, gvk: GroupVersionKind, request: Request, applied: frozenset[GroupKind]
    ) -> RESTMapping | None:
        """A kind that is refused for its scope is not watched: nothing of it will be written."""
        served = await self.children.served(gvk, request)
        if served is None:
            return None
        allowed = self.privileges.allows(gvk.group_kind, namespaced=served.namespaced)
        if not allowed and gvk.group_kind not in applied:
            return served
        return await self.children.mapping(gvk, request)

    # -- what is no longer wanted ------------------------------------------------------------

    async def _remove_unwanted(self, tenant: Tenant, owner: Owner, made: Build) -> Removed:
        """Delete or let go of what left the template."""
        wanted = {item.desired.key for item in made.resources if item.desired is not None}
        # A resource that cannot be rendered has no name now, but it may have had one before.
        unknown = {item.resource.id for item in made.resources if item.desired is None}
        surplus = [
            (mapping, entry)
            for mapping, entry in self._written(tenant, owner)
            if (mapping.gvk.group_kind, entry.namespace, entry.name) not in wanted
            and resource_id(entry) not in unknown
        ]
        if not surplus:
            return Removed()
        removed = await self.remover.remove(
            surplus,
            owner,
            made.graph.level_of(),
            OrphanReason.REMOVED_FROM_TEMPLATE,
            user=impersonated(tenant),
        )
        self.reports.removed(tenant, removed, OrphanReason.REMOVED_FROM_TEMPLATE)
        return removed

    def _written(self, tenant: Tenant, owner: Owner) -> list[Found]:
        """What records the tenant as its owner and was written for it.

        A copy of such an object under another name carries the same marks: it has no managed fields
        of ours, and no status tells of it.
        """
        applied = frozenset(tenant.status.applied_resources)
        return [
            (mapping, entry)
            for mapping, entry in self.children.owned_by(owner.key)
            if entry.owned is not None or str(key_of(mapping, entry)) in applied
        ]

    async def _tear_down(
        self, tenant: Tenant, owner: Owner, entry: Entry, request: Request
    ) -> Result | None:
        """Remove everything in reverse order, then let the tenant go."""
        if FINALIZER not in entry.finalizers:
            return None
        await self._mappings(tenant, entry, request)
        removed = await self.remover.remove(
            self._written(tenant, owner),
            owner,
            levels_of(tenant),
            OrphanReason.TENANT_DELETED,
            user=impersonated(tenant),
        )
        self.reports.removed(tenant, removed, OrphanReason.TENANT_DELETED)
        out_of_sight = self._out_of_sight(tenant)
        unseen = {trouble.grant for trouble in out_of_sight if trouble.grant is not None}
        grants = unseen | denied(tenant, removed)
        again = self.grants.report(request, template_of(tenant), grants, unseen=unseen)
        if grants:
            return await self._wait_for_grants(tenant, entry, grants, again)
        if removed.going or out_of_sight:
            return None  # the next to go brings us back
        await self.live.remove_finalizer(self.mapping, entry, FINALIZER)
        return None

    def _out_of_sight(self, tenant: Tenant) -> list[Trouble]:
        """Why kinds that something was applied of cannot be read: what is left of it is not known."""
        applied = applied_kinds(tenant)
        kinds = self.children.unreadable()
        return [trouble for gvk, trouble in kinds.items() if gvk.group_kind in applied]

    async def _wait_for_grants(
        self, tenant: Tenant, entry: Entry, grants: set[Grant], again: float | None
    ) -> Result | None:
        """The tenant cannot go yet: it says which rights that takes."""
        status = tenant.status.model_copy(deep=True)
        tell(status.conditions, grants, entry.generation, self.clock())
        await self.statuses.write(self.mapping, entry, tenant.status, status)
        return None if again is None else Result(requeue_after=again)

    # -- telling ---------------------------------------------------------------------------

    async def _refuse(self, tenant: Tenant, entry: Entry, failure: Failure) -> None:
        """Nothing could be done for the tenant: say why."""
        status = refuse(tenant.status, failure, entry.generation, self.clock())
        status.last_handled_reconcile = requested(entry.annotations)
        await self.statuses.write(self.mapping, entry, tenant.status, status)
        self.reports.refused(tenant, failure, status)

    async def _report(
        self, tenant: Tenant, entry: Entry, walked: Walked, going: list[Found]
    ) -> None:
        status = summarize(tenant.status, walked.outcomes, entry.generation, self.clock())
        leaving = [str(key_of(mapping, entry)) for mapping, entry in going]
        status.applied_resources = sorted({*status.applied_resources, *leaving})
        status.last_handled_reconcile = requested(entry.annotations)
        tell(status.conditions, walked.missing, entry.generation, self.clock())
        await self.statuses.write(self.mapping, entry, tenant.status, status)
        self.reports.walked(tenant, walked.outcomes, status)

    def _next(self, tenant: Tenant, request: Request, walked: Walked, wait: float) -> Result | None:
        self.claims.set(request, walked.conflicts)
        delays = [wait] if wait > 0 else []
        again = self.grants.report(
            request, template_of(tenant), walked.missing, unseen=walked.unseen
        )
        if again is not None:
            delays.append(again)
        if walked.look_again is not None:
            delays.append(walked.look_again.total_seconds())
        if walked.retry:
            delays.append(self.retries.when(request))
        else:
            self.retries.forget(request)
        return Result(requeue_after=max(0.05, min(delays))) if delays else None

    def _forget(self, request: Request) -> None:
        known = self._builds.pop((request.namespace, request.name), None)
        if known is not None:
            for item in known[1].resources:
                self.timers.forget((known[0][0], item.resource.id))  # type: ignore[index]
        self.claims.set(request, [])
        self.retries.forget(request)
        self.patience.forget(request)
        self.children.leave(request)
        self.grants.forget(request)
        self.reports.gone(request)


def bare(entry: Entry) -> Tenant:
    """A tenant whose spec or status cannot be read, without them: enough to let it go."""
    manifest = entry.decode()
    unknown = {"uid": "unknown", "templateRef": "unknown"}
    return Tenant.from_manifest({**manifest, "spec": unknown, "status": {}})


def template_of(tenant: Tenant) -> Request:
    """The template that a tenant was made from."""
    return Request(tenant.metadata.namespace or "", tenant.spec.template_ref)


def impersonated(tenant: Tenant) -> str | None:
    """Whom to act for when the tenant's resources are written; None for nobody."""
    account = tenant.spec.service_account_name
    return None if account is None else user_of(tenant.metadata.namespace or "", account)


def denied(tenant: Tenant, removed: Removed) -> set[Grant]:
    """The rights whose lack kept something from going. Raises a refusal that no right would mend."""
    account = tenant.spec.service_account_name
    owner = "" if account is None else f"{tenant.metadata.namespace}/{account}"
    found: set[Grant] = set()
    for mapping, namespace, error in removed.refused:
        grant = missing(error, mapping, account=owner, namespace=namespace)
        if grant is None:
            raise error
        found.add(grant)
    return found


def applied_kinds(tenant: Tenant) -> frozenset[GroupKind]:
    """The kinds that the status tells of."""
    found: set[GroupKind] = set()
    for key in tenant.status.applied_resources:
        try:
            found.add(ResourceKey.parse(key).kind)
        except ValueError:
            continue
    return frozenset(found)


def key_of(mapping: RESTMapping, entry: Entry) -> ResourceKey:
    """The key of an object as statuses tell of it."""
    return ResourceKey(mapping.gvk.group_kind, entry.namespace, entry.name, resource_id(entry))


def levels_of(tenant: Tenant) -> dict[str, int]:
    """The level of each resource id; empty when the resources form no graph."""
    try:
        return graph_of(tenant).level_of()
    except GraphError:
        return {}

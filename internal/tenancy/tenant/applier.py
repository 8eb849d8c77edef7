"""One pass over a tenant's resources: level by level, each applied when it may be, then judged."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from structlog.typing import FilteringBoundLogger

from apis.tenancy import OnImmutable, Tenant, TResource
from ctrlruntime.api import GroupKind, GroupVersionKind, RESTMapping, find_condition
from ctrlruntime.cache import Entry, OutsideCache
from ctrlruntime.client.client import Propagation
from ctrlruntime.client.errors import APIError, Invalid, NotFound, TooManyRequests, TransportError
from ctrlruntime.gate import Cause
from ctrlruntime.lifecycle.remote import ClusterTrouble
from ctrlruntime.queue import Request
from ctrlruntime.resources import OWNER, REVISION, Action, Desired, Owner, Reason, owner_key
from ctrlruntime.resources.outcome import Outcome as Written
from ctrlruntime.resources.readiness import EXISTENCE, READY, Phase, Readiness, assess
from internal.tenancy.objects.builder import Build, BuiltResource, not_served
from internal.tenancy.objects.children import ChildKinds
from internal.tenancy.objects.ignore_fields import preserve_beside
from internal.tenancy.objects.path_errors import IgnoreFieldError
from internal.tenancy.objects.ready_when import as_object, narrow
from internal.tenancy.objects.recreation import HOW_TO_RECREATE, keeps_pods, takes_along
from internal.tenancy.objects.target_clusters import TargetCluster, TargetClusters
from internal.tenancy.shared.labels import heirs
from internal.tenancy.shared.missing_permissions import (
    GRANTED,
    Grant,
    Grants,
    account_of,
    impersonation,
    missing,
    needed,
    user_of,
)
from internal.tenancy.shared.naming import entry_id
from internal.tenancy.shared.outcome import (
    MOST_NAMED,
    Outcome,
    State,
    is_untroubled,
    redact,
    refusal,
    was_ready,
)
from internal.tenancy.shared.policies import adoption_patch, is_orphaned
from internal.tenancy.shared.pools import Job, WorkerPools
from internal.tenancy.shared.privileges import Privileges
from internal.tenancy.tenant.awaited_namespaces import NAMESPACE, lacks_namespace
from internal.tenancy.tenant.own_events import OwnEvents, PassEvents
from internal.tenancy.tenant.readiness import ReadinessTimers

KIND_UNREADABLE = "KindUnreadable"
"""Reason: another cluster's objects of a kind cannot be read."""

OUT_OF_SIGHT = timedelta(seconds=30)
"""How often a tenant looks again at an object in its way that the caches do not have."""

_SATISFIED = frozenset({State.READY})
_FAILED = frozenset({State.FAILED, State.CONFLICTED, State.SKIPPED})


@dataclass(slots=True)
class ApplyResult:
    """What a pass found: an outcome for each resource, and when to look again at the latest."""

    outcomes: list[Outcome] = field(default_factory=list)
    look_again: timedelta | None = None
    retry: bool = False
    """Whether a resource was refused in a way that another attempt may mend."""
    conflicts: list[tuple[RESTMapping, str, str]] = field(default_factory=list)
    """Objects that are in the way, and Namespaces that are not there: mapping, namespace, name."""
    missing: set[Grant] = field(default_factory=set)
    """Rights that were denied."""
    unseen: set[Grant] = field(default_factory=set)
    """Those of them to watch a kind."""
    troubles: list[ClusterTrouble] = field(default_factory=list)
    """Why another cluster has not got an object."""
    further: bool = False
    """Whether an object belongs in another cluster."""


@dataclass(slots=True)
class Applier:
    """Applies the resources of tenants. Shared by all tenants of a process."""

    targets: TargetClusters
    pools: WorkerPools
    timers: ReadinessTimers
    grants: Grants
    privileges: Privileges
    namespaces: Callable[[str], Entry | None]
    """Returns the Namespace object of a name; None if there is none."""
    clock: Callable[[], datetime]
    on_apply: Callable[[GroupKind, Action | None, str], None] = lambda _kind, _action, _policy: None
    """Receives every write: its kind, what was done or None if it was refused, the conflict policy."""
    events: OwnEvents = field(default_factory=OwnEvents)

    async def walk(
        self,
        tenant: Tenant,
        owner: Owner,
        build: Build,
        *,
        hidden: Mapping[str, str],
        logger: FilteringBoundLogger,
    ) -> ApplyResult:
        """Go through all levels. Raises TypeIsSlow, and what stops the whole pass (no answer from the server).

        `hidden`: sensitive variables, kept out of every message.
        """
        with self.events.of(tenant) as events:
            walk = _Pass(self, tenant, owner, build, hidden, logger, events)
            with self.pools.taking_part(walk.types_to_write()):
                return await walk.run()


class _Pass:
    """The state of one pass over one tenant."""

    def __init__(
        self,
        walker: Applier,
        tenant: Tenant,
        owner: Owner,
        build: Build,
        hidden: Mapping[str, str],
        logger: FilteringBoundLogger,
        events: PassEvents,
    ) -> None:
        self._walker = walker
        self._events = events
        self._tenant = tenant
        self._owner = owner
        self._build = build
        self._hidden = hidden
        self._logger = logger
        self._applied_before = frozenset(tenant.status.applied_resources)
        self._was_complete = _was_complete(tenant)
        status, generation = tenant.status, tenant.metadata.generation or 0
        self._was_ready = was_ready(status, generation)
        current = status.observed_generation == tenant.metadata.generation
        self._failed_before = frozenset(status.failed_resource_ids if current else ())
        self._states: dict[str, list[State]] = {}
        """Of the resources of each entry of the template."""
        self._found = ApplyResult()
        self._request = Request(
            tenant.metadata.name or "", namespace=tenant.metadata.namespace or ""
        )
        self._targets, self._account = walker.targets, ""
        namespace, account = tenant.metadata.namespace or "", account_of(tenant, walker.privileges)
        if account:
            self._account = f"{namespace}/{account}"
            self._targets = self._targets.impersonating(user_of(namespace, account))

    def types_to_write(self) -> set[GroupKind]:
        """Return the slow types of which this pass has something new."""
        slow, found = self._walker.pools.slow_types(), set[GroupKind]()
        for item in self._build.resources if slow else ():
            kind = None if item.desired is None else item.desired.mapping.gvk.group_kind
            if item.desired is not None and kind in slow - found:
                with suppress(OutsideCache):  # not written either
                    found |= set() if self._is_as_rendered(item, item.desired) else {kind}
        return found

    async def run(self) -> ApplyResult:
        for level in self._build.levels():
            jobs: list[Job[Outcome]] = []
            for item in level:
                settled = (
                    self._unreadable_there(item)
                    or self._out_of_reach(item)
                    or self._without_applying(item)
                )
                if settled is not None:
                    self._take(settled)
                elif item.desired is not None:
                    jobs.append(self._job(item, item.desired))
            for result in await self._walker.pools.run(jobs):
                if isinstance(result, Exception):
                    raise result
                self._take(result)
        self._events.settled = is_untroubled(self._found.outcomes)
        return self._found

    def _take(self, outcome: Outcome) -> None:
        self._states.setdefault(entry_id(outcome.id), []).append(outcome.state)
        self._found.outcomes.append(outcome)

    def _job(self, item: BuiltResource, desired: Desired) -> Job[Outcome]:
        return Job(desired.mapping.gvk.group_kind, lambda: self._apply(item, desired))

    # -- before applying ---------------------------------------------------------------------

    def _unreadable_there(self, item: BuiltResource) -> Outcome | None:
        """Return the outcome of a resource whose kind cannot be read in another cluster that gets it."""
        if item.desired is None:
            return None
        kind = item.desired.mapping.gvk
        for target in self._of(item):
            if target.is_local:
                continue
            self._found.further = True
            if target.kinds.readable(kind) is None:
                trouble = target.unreachable() or ClusterTrouble(
                    KIND_UNREADABLE, unreadable_message(target.name, kind, target.kinds)
                )
                return self._troubled(item, trouble)
        return None

    def _of(self, item: BuiltResource) -> list[TargetCluster]:
        """Return the clusters that get a resource."""
        return [self._targets[name] for name in item.clusters]

    def _entries(self, item: BuiltResource, desired: Desired) -> list[Entry | None]:
        """Return the objects of a resource as the caches have them, one for each cluster that gets it."""
        return [target.control.look(desired) for target in self._of(item)]

    def _troubled(self, item: BuiltResource, trouble: ClusterTrouble) -> Outcome:
        """Another cluster does not take the object: record why, and retry later."""
        self._found.troubles.append(trouble)
        self._found.retry = True
        name = item.resource.id
        self._logger.warning(
            "Object not placed", resource=name, reason=trouble.reason, message=trouble.message
        )
        return Outcome(name, State.FAILED, self._known_key(name), trouble.message, unavailable=True)

    def _out_of_reach(self, item: BuiltResource) -> Outcome | None:
        """Return the outcome of a resource in a namespace that this manager does not watch."""
        if item.desired is None:
            return None
        try:
            self._entries(item, item.desired)
        except OutsideCache as error:
            for target in self._of(item):
                trouble = target.explain(error, item.desired.namespace)
                if trouble is not None:
                    return self._troubled(item, trouble)
            message = (
                f"namespace {item.desired.namespace!r} is not watched; add it to the manager's "
                "--namespace options"
            )
            return Outcome(item.resource.id, State.FAILED, "", message)
        return self._outside_own(item.resource, item.desired)

    def _outside_own(self, resource: TResource, desired: Desired) -> Outcome | None:
        """Return the outcome of a resource in a namespace that has to be the tenant's, and is not."""
        place, home = desired.namespace, self._tenant.metadata.namespace or ""
        if not self._walker.privileges.must_own(place, home):
            return None
        found = self._walker.namespaces(place)
        if found is not None and self._targets.local.control.holds(found, self._owner):
            return None
        key = self._known_key(resource.id)
        if found is None or self._is_handed_over(found):
            why = "does not exist yet" if found is None else "was handed over to another tenant"
            message = f"the namespace {place!r} {why}"
            return Outcome(resource.id, State.WAITING, key, message, pending=True)
        message = f"the namespace {place!r} is not owned by this tenant; nothing is written to it"
        return Outcome(resource.id, State.FAILED, key, message)

    def _without_applying(self, item: BuiltResource) -> Outcome | None:
        """Return the outcome of a resource that is not applied in this pass; None if it is to be."""
        resource = item.resource
        if item.desired is None:
            self._found.retry |= item.transient
            if item.grant is not None:
                self._found.missing.add(item.grant)
                self._found.unseen.add(item.grant)
            return Outcome(resource.id, State.FAILED, self._known_key(resource.id), item.problem)
        states = [
            state
            for name in self._build.graph.dependencies(item.entry)
            for state in self._states.get(name, ())
        ]
        if all(state in _SATISFIED for state in states) or self._is_as_rendered(item, item.desired):
            return None
        if any(state in _FAILED for state in states) and resource.skip_on_dependency_failure:
            paths = self._failed_ancestors(item.entry)
            message = "; ".join(f"{path[-1]} {why} ({' -> '.join(path)})" for path, why in paths)
            ids = tuple(path[-1] for path, _ in paths)
            key = self._known_key(resource.id)
            return Outcome(resource.id, State.SKIPPED, key, message, waits_for=ids)
        if any(state not in _SATISFIED | _FAILED for state in states):
            key = self._known_key(resource.id)
            return Outcome(resource.id, State.BLOCKED, key, waits_for=self._unready(item.entry))
        return None

    def _unready(self, name: str) -> tuple[str, ...]:
        """Return the entries that an entry depends on and that are not ready."""
        return tuple(
            other
            for other in self._build.graph.dependencies(name)
            if not _SATISFIED.issuperset(self._states.get(other, ()))
        )

    def _failed_ancestors(self, name: str) -> list[tuple[tuple[str, ...], State]]:
        """Return the paths to the failed entries for which an entry is skipped, and what became of each."""
        skipped = [each for each, states in self._states.items() if State.SKIPPED in states]
        failed = {
            each: state
            for each, states in self._states.items()
            for state in states
            if _has_failed(state)
        }
        paths = self._build.graph.paths_to(name, failed, through=skipped)[:MOST_NAMED]
        return [(path, failed[path[-1]]) for path in paths]

    def _is_as_rendered(self, item: BuiltResource, desired: Desired) -> bool:
        """Whether this content was applied before: then it is kept up whatever its dependencies do."""
        return all(
            entry is not None and entry.annotations.get(REVISION) == desired.revision
            for entry in self._entries(item, desired)
        )

    def _known_key(self, resource_id: str) -> str:
        suffix = f"@{resource_id}"
        return min((key for key in self._applied_before if key.endswith(suffix)), default="")

    # -- applying ------------------------------------------------------------------------------

    async def _apply(self, item: BuiltResource, desired: Desired) -> Outcome:
        """Apply to one cluster after the other, until one has not got the object."""
        outcome = Outcome(item.resource.id, State.FAILED)
        keys = [str(item.key_in(name)) for name in item.clusters]
        further = tuple(key for key in keys if key in self._applied_before)
        for target in self._of(item):
            mapping = target.kinds.readable(desired.mapping.gvk) or desired.mapping
            there = target.desired(desired, mapping)
            key = str(item.key_in(target.name))
            try:
                outcome = await self._apply_to(target, item, there, key)
            except IgnoreFieldError as error:  # only the live object shows how much is to be kept
                known = self._known_key(item.resource.id)
                outcome = Outcome(item.resource.id, State.FAILED, known, str(error))
            if outcome.state is not State.READY:
                break
            further = (*further, outcome.key)
        return replace(outcome, further=further) if len(item.clusters) > 1 else outcome

    async def _apply_to(
        self, target: TargetCluster, item: BuiltResource, desired: Desired, key: str
    ) -> Outcome:
        resource = item.resource
        target.check(desired.mapping.gvk.group_kind)
        trouble = target.unreachable()
        if trouble is not None:
            return self._troubled(item, trouble)
        denied = self._known_to_be_denied(desired) if target.is_local else None
        if denied is not None and self._is_pending(target, desired, key):
            return self._denied(item, denied)
        try:
            written = await self._ensure(target, item, desired, key)
        except (APIError, TransportError, OutsideCache) as error:
            trouble = target.explain(error, desired.namespace)
            if trouble is not None:
                return self._troubled(item, trouble)
            if not isinstance(error, APIError):
                raise
            self._count(desired, resource, None)
            denied = missing(
                error, desired.mapping, account=self._account, namespace=desired.namespace
            )
            if denied is not None:
                return self._denied(item, denied)
            if (
                isinstance(error, NotFound) and not error.details
            ):  # not of an object, of the address
                return self._not_served(item, desired)
            if isinstance(error, Invalid) and resource.on_immutable is OnImmutable.RECREATE:
                return await self._recreate(target, item, desired, key, error)
            return self._refused(item, error)
        self._events.took(desired, written.entry)
        self._count(desired, resource, written.action)
        if written.action is Action.CONFLICT:
            self._found.conflicts.append((desired.mapping, desired.namespace, desired.name))
            if target.is_local and target.control.look(desired) is None:
                self._look_again(OUT_OF_SIGHT)  # of a tenant of another process: no event comes
            if self._is_handed_over(written.entry):
                return _handed_over(resource, written.entry)
            # What holds it in another cluster may be out of sight, and so is its end.
            self._found.retry |= not target.is_local
            key = key if key in self._applied_before else ""
            message = redact(written.conflict, self._hidden)
            return Outcome(resource.id, State.CONFLICTED, key, message)
        return self._judge(item, desired, written, key)

    def _is_handed_over(self, entry: Entry | None) -> bool:
        """Whether an object was taken over by a tenant that takes the place of this one."""
        annotations = self._tenant.metadata.annotations or {}
        if entry is None or not heirs(annotations):
            return False
        kind, namespace = self._owner.gvk, self._owner.namespace
        takers = {owner_key(kind, name, namespace=namespace) for name in heirs(annotations)}
        return entry.annotations.get(OWNER, "").partition("@")[0] in takers

    async def _ensure(
        self, target: TargetCluster, item: BuiltResource, desired: Desired, key: str
    ) -> Written:
        control, owner = target.control, target.owner(self._owner)
        wrote = key in self._applied_before
        current = wrote and self._was_complete
        self._events.begin(desired)
        try:
            entry = control.look(desired)
            known = entry is not None and (desired.force or control.holds(entry, owner))
            if entry is not None and known and is_orphaned(entry.labels):
                await target.patcher.patch_metadata(
                    desired.mapping,
                    entry,
                    adoption_patch()["metadata"],
                    metadata_only=target.objects.metadata_only(desired.mapping),
                )
            elif entry is not None and item.resource.ignore_fields:
                if not control.pending(desired, owner, wrote=wrote, current=current):
                    return Written(Action.UNCHANGED, entry)
                live = await target.objects.read(desired.mapping, entry)
                if live is not None:
                    paths = item.resource.ignore_fields
                    manifest = await preserve_beside(desired.manifest, live, paths)
                    desired = replace(desired, manifest=manifest, revision=desired.revision)
            return await control.ensure(desired, owner, wrote=wrote, current=current)
        finally:
            self._events.end(desired)

    async def _recreate(
        self, target: TargetCluster, item: BuiltResource, desired: Desired, key: str, error: Invalid
    ) -> Outcome:
        """Delete an object whose change the server refuses, if it would take the content as a new one.

        The event of its end brings the tenant back, and the next pass creates it.
        """
        owner, entry = target.owner(self._owner), target.control.look(desired)
        if entry is None or not target.control.holds(entry, owner):
            return self._refused(item, error)
        if why_not := takes_along(desired, entry):
            return self._refused(item, error, why_not)
        if await target.control.refuses_new(desired, owner) is not None:
            return self._refused(item, error)
        why = refusal(error, self._hidden)
        self._logger.info("Resource recreated", resource=item.resource.id, reason=why)
        propagation: Propagation = "Orphan" if keeps_pods(desired, entry) else "Background"
        deleted = await target.control.remove(
            desired.mapping,
            entry,
            owner,
            Cause.REPLACED,
            wrote=key in self._applied_before,
            propagation=propagation,
        )
        self._found.retry |= not deleted
        message = f"it is being recreated, since the server refused to change it: {why}"
        return Outcome(item.resource.id, State.WAITING, key, message, pending=True)

    def _refused(self, item: BuiltResource, error: APIError, why_not: str = "") -> Outcome:
        """Return the outcome of a refusal: the tenant reports why, and retries later.

        `why_not` is why the object was not recreated instead.
        """
        message = refusal(error, self._hidden)
        if why_not:
            message = f"{message}; {why_not}"
        elif isinstance(error, Invalid) and "immutable" in error.message:
            message = f"{message}; {HOW_TO_RECREATE}"
        self._found.retry = True
        if item.desired is not None and lacks_namespace(error):
            self._found.conflicts.append((NAMESPACE, "", item.desired.namespace))
        self._logger.warning(
            "Resource refused", resource=item.resource.id, reason=error.reason, message=message
        )
        key = self._known_key(item.resource.id)
        unavailable = error.code >= 500 or isinstance(error, TooManyRequests)
        return Outcome(item.resource.id, State.FAILED, key, message, unavailable=unavailable)

    def _not_served(self, item: BuiltResource, desired: Desired) -> Outcome:
        """Return the outcome where the CRD was deleted just now: the informer reports that, and wakes the tenant."""
        self._found.retry = True
        key = self._known_key(item.resource.id)
        return Outcome(item.resource.id, State.FAILED, key, not_served(desired.mapping.gvk))

    def _is_pending(self, target: TargetCluster, desired: Desired, key: str) -> bool:
        wrote = key in self._applied_before
        current = wrote and self._was_complete
        owner = target.owner(self._owner)
        return target.control.pending(desired, owner, wrote=wrote, current=current)

    def _known_to_be_denied(self, desired: Desired) -> Grant | None:
        """Return the right that another tenant found missing and tries for again."""
        if not self._walker.grants.denies_any:
            return None
        wanted = [needed(desired.mapping, account=self._account, namespace=desired.namespace)]
        if self._account:
            wanted.append(impersonation(self._account))
        return self._walker.grants.denied(self._request, *wanted)

    def _denied(self, item: BuiltResource, grant: Grant) -> Outcome:
        """Return the outcome where a right is missing: the tenant reports which, and is requeued once it may have been granted."""
        self._found.missing.add(grant)
        message = f"{grant.summary}; the condition {GRANTED} shows how to allow it"
        self._logger.warning("Right missing", resource=item.resource.id, message=grant.summary)
        return Outcome(item.resource.id, State.FAILED, self._known_key(item.resource.id), message)

    # -- after applying --------------------------------------------------------------------

    def _judge(self, item: BuiltResource, desired: Desired, written: Written, key: str) -> Outcome:
        resource, now = item.resource, self._walker.clock()
        timer = (self._owner.uid, resource.id)
        if written.action is Action.TERMINATING:
            message = _terminating(written.entry)
            return Outcome(resource.id, State.WAITING, key, message, pending=True)
        if written.action is Action.CREATED or written.reason is Reason.REVISION:
            self._walker.timers.applied(timer, desired.revision, now)
        if not resource.wait_for_ready or written.entry is None:
            return Outcome(resource.id, State.READY, key)
        readiness, left = self._walker.timers.observe(
            timer,
            desired.revision,
            _assess(resource, written.entry, desired.mapping.gvk.group_kind),
            timedelta(seconds=resource.timeout_seconds),
            now,
            failed_before=resource.id in self._failed_before,
            ready_before=self._was_ready,
        )
        if left is not None:
            self._look_again(left)
        state = {
            Phase.READY: State.READY,
            Phase.NOT_READY: State.WAITING,
            Phase.FAILED: State.FAILED,
        }[readiness.phase]
        return Outcome(resource.id, state, key, readiness.reason)

    def _look_again(self, after: timedelta) -> None:
        """Look again after so long, or sooner."""
        known = self._found.look_again
        self._found.look_again = after if known is None else min(after, known)

    def _count(self, desired: Desired, resource: TResource, action: Action | None) -> None:
        if action is Action.UNCHANGED:
            return
        kind = desired.mapping.gvk.group_kind
        self._walker.on_apply(kind, action, resource.conflict_policy.value)


def unreadable_message(cluster: str, kind: GroupVersionKind, kinds: ChildKinds) -> str:
    """Say that a kind cannot be read in another cluster, and why."""
    trouble = kinds.trouble(kind)
    why = trouble.message if trouble is not None else f"{kind.kind} is not served"
    return f"{cluster}: {why}"


def _handed_over(resource: TResource, entry: Entry | None) -> Outcome:
    """Return the outcome of an object that the tenant's replacement took over and keeps up now."""
    assessed = None if entry is None else _assess(resource, entry, entry.gvk.group_kind)
    ready = not resource.wait_for_ready or (assessed is not None and assessed.phase is Phase.READY)
    message = "" if ready else "the tenant that took it over has not made it ready yet"
    return Outcome(resource.id, State.READY if ready else State.WAITING, "", message)


def _has_failed(state: State) -> bool:
    """Whether a resource failed by itself, rather than for what it depends on."""
    return state in _FAILED - {State.SKIPPED}


def _terminating(entry: Entry | None) -> str:
    """Return what holds an object that is being deleted and will be created again."""
    message = "an object of that name is still being deleted"
    if entry is None:
        return message
    held = f"; finalizers remaining: {', '.join(entry.finalizers)}" if entry.finalizers else ""
    return f"{message} since {entry.deletion_timestamp}{held}"


def _was_complete(tenant: Tenant) -> bool:
    """Whether every resource was in place for the tenant as it is now, by its own status."""
    ready = find_condition(tenant.status.conditions, "Ready")
    observed = tenant.status.observed_generation == tenant.metadata.generation
    return observed and ready is not None and ready.status == "True"


def _assess(resource: TResource, entry: Entry, kind: GroupKind) -> Readiness:
    """Return the readiness of a live object: by its kind's rule, and by the template's."""
    if kind in EXISTENCE and entry.deletion_timestamp is None and not resource.ready_when:
        return READY
    return narrow(assess(as_object(entry)), resource.ready_when, entry)

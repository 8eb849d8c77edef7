"""Reconciles the objects of one subresource: whose they are, whether they may be worked on, and then ``ensure``."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

from pydantic import ValidationError

from apis.cloud import Instance, Phase, PlanApproval, TaskStatus, TerraformRuns, WaitingReason
from ctrlruntime.api import Resource, set_condition
from ctrlruntime.api.conditions import new_condition
from ctrlruntime.cache.entry import Entry
from ctrlruntime.controller.reconcile import Result
from ctrlruntime.lifecycle.remote import ClusterTrouble, report_hub
from ctrlruntime.queue import Request
from ctrlruntime.resources import REVISION, Control, Definitions
from ctrlruntime.rollout import ChangeHolds, NoHolds
from ctrlruntime.schedule import BadSchedule
from internal.cloud.change_holds import is_deployed, window_hold
from internal.cloud.hub_instances import HUB_ERRORS, HubInstances
from internal.cloud.instance.order import is_orphaning, is_protected
from internal.cloud.instance.reading import read
from internal.cloud.instance.upgrades import Upgrade, left_for
from internal.cloud.labels import (
    APPROVE_DELETION,
    DELETION_PROTECTION,
    RUNS_FINALIZER,
    TEARDOWN_APPROVED,
    is_extracted,
    is_paused,
    pausing_annotation,
)
from internal.cloud.priorities import priority_of
from internal.cloud.subresource import Subresource, Upstream
from internal.cloud.taskdriver import EnsureOptions, Tools, ensure
from internal.cloud.taskdriver.context import Hold, Leaving
from internal.cloud.taskdriver.drift_checks import DriftCheck, drift_check_of
from internal.cloud.taskdriver.inputs import (
    READY,
    instance_name,
    instance_reference,
    spec_revision,
    typed,
    was_built,
)
from internal.cloud.taskdriver.record import is_live, owner_of
from internal.cloud.taskdriver.writes import keep_outputs_metadata, write_status
from internal.cloud.tasks.task import TaskDefinition

R = TypeVar("R", bound=Resource[Any, TaskStatus])

AT_ONCE = 0.01
UNREAD: Final = 1.0
"""Seconds until an object is looked at again while it is not known yet what the hub has."""
SPEC_CHANGED: Final = "SpecChanged"
"""Reason: the spec is not the one that the instance gave to the object."""


async def _at_once() -> None:
    return


async def _no_drift(_resource: object) -> str:
    return ""


def _as_it_is(entry: Entry) -> Entry:
    return entry


def _no_status(_instance: Entry) -> TaskStatus | None:
    return None


def _no_upgrades(_instance: Entry, _version: str) -> Sequence[Upgrade]:
    return ()


@dataclass(frozen=True, slots=True)
class TaskReads(Generic[R]):
    """What a pass reads besides the object and its instance."""

    definitions: Definitions
    """Which CRDs are being deleted."""
    task: Callable[[], TaskDefinition] | None = None
    """The definition of the task to use now; None: the subresource's own."""
    config_map: Callable[[str, str], Mapping[str, str] | None] = lambda _namespace, _name: None
    """The texts of a ConfigMap by namespace and name; None if there is none."""
    instance: Callable[[Entry], Entry] = _as_it_is
    """Return an instance as far as it counts."""
    counted: Callable[[Entry], Entry] = _as_it_is
    """Return the object with the approvals that count."""
    drift: Callable[[R], Awaitable[str]] = _no_drift
    """Return what differs from what the last run left; empty: nothing."""
    upgrades: Callable[[Entry, str], Sequence[Upgrade]] = _no_upgrades
    """Return the upgrades of an instance; none is needed where none began at the version."""
    last: Callable[[Entry], TaskStatus | None] = _no_status
    """Return the status of the subresource of an instance that comes after all others; None if there is none."""


@dataclass(slots=True)
class SubresourceReconciler(Generic[R]):
    """Drives the task of each object of one kind. Reads the object and its instance from the cache."""

    subresource: Subresource[R]
    tools: Tools
    reads: TaskReads[R]
    ready: Callable[[], Awaitable[object]] = _at_once
    """Waited for before anything is granted: the limiter has counted the runs."""
    holds: ChangeHolds = field(default_factory=NoHolds)
    """What holds changes from outside."""
    control: Control | None = None
    """Restores the metadata of Secrets with outputs; None: they are left as they are."""
    hub: HubInstances | None = None
    """Where runs are, if the objects are on a data plane."""

    async def reconcile(self, request: Request) -> Result | None:
        """One pass. With a hub, nothing is decided while it is not known what it has.

        Raises what `_reconcile` raises, but for what the hub answers.
        """
        if self.hub is None:
            return await self._reconcile(request)
        if self.hub.is_unknown():
            return Result(requeue_after=UNREAD)
        trouble = self.hub.trouble()
        if trouble is not None:
            return await self._wait_for_hub(request, trouble)
        try:
            return await self._reconcile(request)
        except HUB_ERRORS as error:
            trouble = self.hub.explain(error, request.namespace)
            if trouble is None:
                raise
            return await self._wait_for_hub(request, trouble)

    def _typed(self, entry: Entry) -> R:
        """Return the object as its kind. Raises ValidationError for a spec that cannot be read."""
        manifest = entry.decode()
        kind = self.subresource.kind
        return typed(kind, manifest) or kind.from_manifest({**manifest, "status": {}})

    async def _wait_for_hub(self, request: Request, trouble: ClusterTrouble) -> Result | None:
        """Report that runs cannot be started or followed, and change nothing else."""
        kind, cache = self.subresource.kind, self.tools.client.cache
        entry = cache.entry(kind, request.name, namespace=request.namespace)
        if entry is None:
            self.holds.record(request, 0)
            return None
        resource = self._typed(entry)
        instance = self._instance_of(resource, self._named(resource))
        if instance is not None and is_extracted(instance.annotations):
            return self._leave_alone(resource)
        status = lose_hub(resource, trouble, self.tools.clock())
        written = await write_status(self.tools.patcher, cache, resource, status)
        return Result(requeue_after=self.tools.pace.hub if written else AT_ONCE)

    async def _reconcile(self, request: Request) -> Result | None:
        """One pass.

        Raises the errors of the API server and of the provider of runs, and pydantic's ValidationError for an
        object that cannot be read as its kind.
        """
        kind = self.subresource.kind
        cache = self.tools.client.cache
        entry = cache.entry(kind, request.name, namespace=request.namespace)
        if entry is None:
            self.holds.record(request, 0)
            return None
        entry = self.reads.counted(entry)
        resource = self._typed(entry)
        named = self._named(resource)
        hold = ownership_hold(resource, named)
        instance = self._instance_of(resource, named)
        deleting = entry.deletion_timestamp is not None
        if deleting and RUNS_FINALIZER not in entry.finalizers:
            return None
        if instance is not None and is_extracted(instance.annotations):
            return self._leave_alone(resource)
        if RUNS_FINALIZER not in entry.finalizers and hold is None:
            await self.tools.patcher.add_finalizer(kind.mapping(), entry, RUNS_FINALIZER)
            return Result(requeue_after=AT_ONCE)
        await self.ready()
        leaving = await self._leaving(resource, instance)
        drift = "" if deleting else await self.reads.drift(resource)
        options = replace(self._options(resource, instance, hold, leaving), drift=drift)
        if (hub := self.hub) is not None:
            options = replace(
                options, is_explained=lambda e: hub.explain(e, request.namespace) is not None
            )
        if self.control is not None and resource.status.outputs_secret_name and not deleting:
            await keep_outputs_metadata(self.control, resource, options.instance)
        progress = await ensure(self.tools, options)
        waiting = progress.status.waiting
        frozen = waiting is not None and waiting.reason is WaitingReason.FROZEN
        self.holds.record(request, int(frozen and not progress.gone))
        return progress.result

    def _leave_alone(self, resource: R) -> Result | None:
        """Nothing is written while the instance is out of management.

        A run that was under way keeps its place with the limiter until its deadline, since no reconcile
        follows it.
        """
        run, now = resource.status.run, self.tools.clock()
        left = 0.0
        if run is not None and is_live(run) and run.deadline is not None:
            left = (run.deadline - now).total_seconds()
        if left > 0:
            return Result(requeue_after=left)
        self.tools.limiter.release(owner_of(resource))
        return None

    def _options(
        self, resource: R, instance: Entry | None, hold: Hold | None, leaving: Leaving
    ) -> EnsureOptions[R]:
        sub, metadata = self.subresource, resource.metadata
        request = Request(metadata.name or "", namespace=metadata.namespace or "")
        check, bad_schedule = self._drift_check(instance)
        frozen = self.holds.waiting(request, instance)
        return EnsureOptions(
            definition=sub.definition if self.reads.task is None else self.reads.task(),
            resource=resource,
            instance=instance.name if instance is not None else instance_name(resource),
            instance_uid=_instance_uid(resource, instance),
            protected=is_guarded(resource, instance),
            orphaned=instance is None,
            secrets=sub.secrets(resource),
            config_maps=self._config_maps(resource),
            period=sub.period(resource),
            paused_by="" if instance is None else pausing_annotation(instance.annotations),
            leaving=leaving,
            held=ending_hold(resource, instance)
            or hold
            or edited_hold(resource)
            or self._version_hold(resource, instance)
            or self._name_hold(instance),
            version_hold=lambda: self._version_hold(resource, instance),
            on_hub=self.hub is not None,
            hold=frozen or window_hold(instance, self.tools.clock()),
            deployed=is_deployed(instance) or self._was_deployed(instance),
            terraform_runs=terraform_runs_of(instance) if sub.plans else None,
            priority=priority_of(sub, resource, instance),
            record=self._recorded(instance, sub.kind),
            shared_record=self._recorded(instance, sub.record_of),
            drift_check=check,
            bad_schedule=bad_schedule,
        )

    def _was_deployed(self, instance: Entry | None) -> bool:
        """Return whether the last subresource was carried out once: with the instance's status the version that runs may be lost."""
        last = None if instance is None else self.reads.last(instance)
        return last is not None and was_built(last)

    def _recorded(
        self, instance: Entry | None, kind: type[Resource[Any, TaskStatus]] | None
    ) -> dict[str, str]:
        """Return what the object of a kind has on record, or else what the Instance has of it."""
        if instance is None or kind is None:
            return {}
        cache = self.tools.client.cache
        keeper = cache.entry(kind, instance.name, namespace=instance.namespace)
        kept = {} if keeper is None else keeper.field("status") or {}
        records = (instance.field("status") or {}).get("records") or {}
        found = kept.get("record") or records.get(kind.gvk().kind) or {}
        return {str(name): str(text) for name, text in found.items()}

    def _version_hold(self, resource: R, instance: Entry | None) -> Hold | None:
        """Return why no run may roll a version out again that an upgrade has led the data away from.

        The instance gives the object the newer one once what comes before it is ready, which may take long: a retry, a
        repair or a requested run must not come first.
        """
        version = self.subresource.version(resource) if self.subresource.deploys_version else None
        if instance is None or version is None:
            return None
        recorded = str((instance.field("status") or {}).get("version") or "")
        has = left_for(version, recorded, self.reads.upgrades(instance, version))
        if not has:
            return None
        message = (
            f"No run is started: the data were upgraded to {has}, and this object still has {version}. "
            "It gets the newer version once what comes before it is ready."
        )
        return Hold(reason=VERSION_LEFT, message=message)

    def _name_hold(self, instance: Entry | None) -> Hold | None:
        """Return why no run may start for an instance whose name on the hub is not its own."""
        if self.hub is None or instance is None or self.hub.holds_name(instance):
            return None
        message = (
            f"No run is started: the hub does not keep the name for Instance {instance.namespace}/"
            f"{instance.name}. The condition HubReady there names the cause."
        )
        return Hold(reason=NAME_NOT_HELD, message=message)

    def _drift_check(self, instance: Entry | None) -> tuple[DriftCheck | None, str]:
        """Return when runs look for drift, and why none does if the schedule cannot be read."""
        if not self.subresource.checks_drift:
            return None, ""
        try:
            return drift_check_of(instance), ""
        except BadSchedule as error:
            return None, str(error)

    async def _leaving(self, resource: R, instance: Entry | None) -> Leaving:
        """Under deletion protection nothing is torn down, whoever deletes the object.

        Nor while the CRD of the object or that of instances is going without approval: the server then
        deletes every object, which no person decided on. Raises the client's errors if that cannot be read.

        What the instance still wants is made anew and finds what its predecessor made; what it no
        longer wants stays, since its results would not be recorded.
        """
        if resource.metadata.deletion_timestamp is None:
            return Leaving.TEAR_DOWN
        kinds = (self.subresource.kind.mapping(), Instance.mapping())
        if await self.reads.definitions.any_removes(kinds, APPROVE_DELETION):
            return Leaving.RELEASE
        if instance is None:
            return self._leaving_without_instance(resource)
        if is_orphaning(instance):
            return Leaving.RELEASE
        if not is_guarded(resource, instance):
            return Leaving.TEAR_DOWN
        return Leaving.KEEP if self._is_wanted(instance) else Leaving.HOLD

    def _leaving_without_instance(self, resource: R) -> Leaving:
        """Return what a deletion means for an object whose instance is missing.

        An instance goes after its subresources, so one that is missing was removed by force: the
        object holds until its teardown is approved, or an instance of that name wants it again.
        """
        if is_teardown_approved(resource):
            return Leaving.TEAR_DOWN
        successor = self._named(resource)
        if successor is None or is_extracted(successor.annotations):
            return Leaving.HOLD
        return Leaving.KEEP if self._is_wanted(successor) else Leaving.HOLD

    def _is_wanted(self, entry: Entry) -> bool:
        if entry.deletion_timestamp is not None:
            return False
        instance, flaw = read(entry)
        upstream = Upstream(version=instance.status.version or instance.spec.wanted_version)
        return flaw is None and self.subresource.desired(instance, upstream) is not None

    def _config_maps(self, resource: R) -> dict[str, Mapping[str, str]]:
        """Those that there are; the task reports which it misses."""
        namespace = resource.metadata.namespace or ""
        names = self.subresource.config_maps(resource)
        found = {name: self.reads.config_map(namespace, name) for name in names}
        return {name: texts for name, texts in found.items() if texts is not None}

    def _named(self, resource: R) -> Entry | None:
        """Return the Instance that the object names, from the cache, or None."""
        found = self.tools.client.cache.entry(
            Instance, instance_name(resource), namespace=resource.metadata.namespace
        )
        return None if found is None else self.reads.instance(found)

    def _instance_of(self, resource: R, named: Entry | None) -> Entry | None:
        """Return the named instance; None if it is not there, or is another one of that name."""
        reference = instance_reference(resource)
        if named is None or (reference is not None and reference.uid != named.uid):
            return None
        return named


def terraform_runs_of(instance: Entry | None) -> TerraformRuns | None:
    """Return what an Instance requests of plans. What cannot be read has every plan wait."""
    spec: Mapping[str, Any] = {} if instance is None else instance.field("spec") or {}
    given = spec.get("terraformRuns")
    if given is None:
        return None
    try:
        return TerraformRuns.model_validate(given)
    except ValidationError:
        return TerraformRuns(approval=PlanApproval.MANUAL)


def is_teardown_approved(resource: Resource[Any, TaskStatus]) -> bool:
    """Whether the teardown of this very object was approved on it."""
    given = (resource.metadata.annotations or {}).get(TEARDOWN_APPROVED, "")
    return bool(given) and given == resource.metadata.uid


def is_guarded(resource: Resource[Any, TaskStatus], instance: Entry | None) -> bool:
    """Whether runs of an object may destroy nothing by themselves.

    Without the instance what the object recorded counts, and what is not recorded is protected.
    """
    if instance is not None:
        approved = instance.deletion_timestamp is not None and is_teardown_approved(resource)
        return is_protected(instance) and not approved
    recorded = (resource.metadata.annotations or {}).get(DELETION_PROTECTION, "")
    return recorded != "false" and not is_teardown_approved(resource)


def _instance_uid(resource: Resource[Any, TaskStatus], instance: Entry | None) -> str:
    reference = instance_reference(resource)
    if reference is not None:
        return reference.uid
    return "" if instance is None else instance.uid


def edited_hold(resource: Resource[Any, TaskStatus]) -> Hold | None:
    """Why no run is started for an object whose spec is not the one that its instance gave it."""
    recorded = (resource.metadata.annotations or {}).get(REVISION)
    if recorded is None or recorded == spec_revision(resource.spec):
        return None
    message = (
        "The spec was changed by hand. No run is started for it: the instance puts it back. "
        "Change the Instance instead."
    )
    return Hold(reason=SPEC_CHANGED, message=message)


VERSION_LEFT: Final = "VersionLeft"
"""Reason: the data were upgraded from the version that the object has."""
INSTANCE_DELETED: Final = "InstanceDeleted"
"""Reason: the Instance is being torn down, and the object goes with it later."""


def ending_hold(resource: Resource[Any, TaskStatus], instance: Entry | None) -> Hold | None:
    """Return why no run is started for an object that has yet to go with its instance; None if it may be.

    Kinds go one after the other, and the runs of an instance exclude each other: a run that hangs in a kind whose turn
    comes later would keep the teardown of the first from starting.
    """
    if instance is None or instance.deletion_timestamp is None:
        return None
    if resource.metadata.deletion_timestamp is not None or is_paused(instance.annotations):
        return None
    if is_guarded(resource, instance) and not is_orphaning(instance):
        return None
    message = "Its Instance is being deleted: no run is started, and it goes in its turn."
    return Hold(reason=INSTANCE_DELETED, message=message, interrupts=True)


NAME_NOT_HELD: Final = "NameNotHeld"
"""Reason: the hub does not keep the name of the instance, on a data plane."""


def lose_hub(
    resource: Resource[Any, TaskStatus], trouble: ClusterTrouble, now: datetime
) -> TaskStatus:
    """Return the status of an object whose runs are unknown: what is recorded of them stays."""
    status, generation = resource.status.model_copy(deep=True), resource.metadata.generation or 0
    status.observed_generation, status.message = generation, f"{trouble.message}."
    if resource.metadata.deletion_timestamp is None and not is_live(status.run):
        status.phase = Phase.PENDING
    ready = new_condition(READY, False, trouble.reason, status.message, generation=generation)
    set_condition(status.conditions, ready, now)
    report_hub(status.conditions, [trouble], generation, now, used=True)
    return status


INSTANCE_UNKNOWN: Final = "InstanceUnknown"
"""Reason: there is no Instance of the name that the object gives."""
NOT_OWNED: Final = "NotOwned"
"""Reason: the Instance is not the controlling owner of the object."""


def ownership_hold(resource: Resource[Any, TaskStatus], named: Entry | None) -> Hold | None:
    """Return why no run may start for the object, or None if its Instance owns it.

    `named` is the Instance that the object names, from the cache. Only an Instance creates
    subresources; what merely carries its name is reported and never run.
    """
    place = f"{resource.metadata.namespace}/{instance_name(resource)}"
    kind = type(resource).gvk().kind
    if named is None:
        return Hold(
            reason=INSTANCE_UNKNOWN,
            message=(
                f"No run is started: Instance {place} does not exist. Create it, or delete this {kind}."
            ),
        )
    reference = instance_reference(resource)
    if reference is not None and reference.uid == named.uid:
        return None
    found = "has no owner reference to it" if reference is None else "belongs to another UID"
    return Hold(
        reason=NOT_OWNED,
        message=(
            f"No run is started: this {kind} names Instance {place} but {found}. Change the "
            f"{Instance.gvk().kind}'s spec instead, and delete this {kind}."
        ),
    )

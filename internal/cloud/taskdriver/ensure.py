"""``ensure``: the task of one object, brought one step on. The only part with I/O.

A pass looks at the provider, decides, writes the status (once, if it differs) and only then performs
effects outside: what is started was recorded before. Calling it again is always right.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, TypeGuard, TypeVar

import structlog
from structlog.typing import FilteringBoundLogger

from apis.cloud import (
    TaskPriority,
    TaskRun,
    TaskState,
    TaskStatus,
    TerraformRuns,
    WaitingReason,
)
from apis.cloud import Waiting as TaskWaiting
from apis.references import SecretKeyRef
from ctrlruntime.api import Resource
from ctrlruntime.controller.reconcile import Result
from ctrlruntime.lifecycle.remote import report_hub
from ctrlruntime.rollout import Waiting
from internal.cloud.change_holds import waits_for_people
from internal.cloud.concurrency import Claim, Denial
from internal.cloud.concurrency.grants import is_requested
from internal.cloud.labels import (
    CANCEL,
    RECONCILE,
    RETRY,
    RUNS_FINALIZER,
    is_superseded_upgrade,
    pausing_annotation,
)
from internal.cloud.runs import EarlierPlan, Run, RunInput, RunName, RunRefused, RunRequest
from internal.cloud.taskdriver.context import CleanUp, Decision, Hold, Leaving, Rest, Situation
from internal.cloud.taskdriver.decision import (
    begin,
    clean_up,
    deny,
    follow,
    hold_back,
    not_kept,
    refuse,
    rest,
    resume,
)
from internal.cloud.taskdriver.deps import Opened, Tools, opening
from internal.cloud.taskdriver.drift_checks import DriftCheck
from internal.cloud.taskdriver.inputs import inputs_of, trusted, was_built
from internal.cloud.taskdriver.plan_approval import plan_policy, summary_of
from internal.cloud.taskdriver.record import Identity, has_built, is_live, owner_of, proof_of
from internal.cloud.taskdriver.reports import (
    report_drift,
    report_end,
    report_hold,
    report_plan,
    report_repair,
    report_steps,
)
from internal.cloud.taskdriver.scheduling import is_held_change, next_run
from internal.cloud.taskdriver.state_locks import orphaned_lock
from internal.cloud.taskdriver.summary import summarize
from internal.cloud.taskdriver.unavailable import (
    PROVIDER_FAILED,
    Unavailable,
    keep_failure,
    next_try,
    provided,
    record_unavailable,
)
from internal.cloud.taskdriver.writes import (
    OutputsRefused,
    has_outputs,
    keep_outputs,
    remove_finalizer,
    remove_outputs,
    write_status,
)
from internal.cloud.tasks.task import Supersede, TaskDefinition
from internal.named_secrets import NamedKey, SecretRefused, read_named

R = TypeVar("R", bound=Resource[Any, TaskStatus])
T = TypeVar("T")

NOT_LABELLED: Final = "SecretNotLabelled"
"""Reason of a hold: a Secret has no label of the purpose."""
_log: FilteringBoundLogger = structlog.get_logger("cloud.taskdriver")


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsureOptions(Generic[R]):
    """The object, and what its task needs."""

    definition: TaskDefinition
    resource: R
    """As the cache has it."""
    instance: str
    """Name of its instance, in the same namespace."""
    instance_uid: str = ""
    """UID of its instance; empty if it is not known."""
    protected: bool = True
    """Whether its instance is protected from deletion; missing information counts as protected."""
    orphaned: bool = False
    """Whether its instance is missing."""
    secrets: Sequence[NamedKey] = ()
    """Keys of Secrets that the task may read as they are when its run starts, and what for."""
    config_maps: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Texts of the ConfigMaps that the task may read, by name and key."""
    period: float | None = None
    """Seconds of the period; None: the definition's."""
    paused_by: str = ""
    """Annotation of the instance that pauses the object; its own are read from the object."""
    leaving: Leaving = Leaving.TEAR_DOWN
    """What it means if the object is being deleted."""
    held: Hold | None = None
    """Why no run is started for now; None: nothing is in the way."""
    version_hold: Callable[[], Hold | None] = lambda: None
    """Returns why no run may start after all, once a place was granted: an upgrade may have ended meanwhile."""
    hold: Waiting | None = None
    """The freeze or window for which changes wait."""
    drift_check: DriftCheck | None = None
    """When a run looks for drift; None: never."""
    bad_schedule: str = ""
    """Why no run looks for drift although one should."""
    drift: str = ""
    """What differs from what the last run left; empty: nothing."""
    terraform_runs: TerraformRuns | None = None
    """What comes between a plan and its application; None: as by default."""
    deployed: bool = True
    """Whether a version of the instance runs, which a run may change."""
    priority: TaskPriority = TaskPriority.NORMAL
    """How early the next run gets a place."""
    on_hub: bool = False
    """Whether runs are on a hub, which takes them: the status shows it once there is one."""
    is_explained: Callable[[Exception], bool] = lambda _error: False
    """Whether the caller shows what is wrong with the provider, if a request raises that error."""
    shared_record: Mapping[str, str] = field(default_factory=dict)
    """The record of an object of another kind, for a task that works on the same."""
    record: Mapping[str, str] = field(default_factory=dict)
    """What the instance recorded of what an earlier object of the kind left behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where the object stands after a pass. The status is written."""

    status: TaskStatus
    requeue_after: float | None = None
    """Seconds until the next pass, whatever happens; None: when something happens."""
    gone: bool = False
    """The finalizer was taken off."""

    @property
    def finished(self) -> TaskRun | None:
        """The last run if it has ended; None while one is under way or has never been."""
        run = self.status.run
        return run if run is not None and run.state is TaskState.DONE else None

    @property
    def result(self) -> Result:
        """For the controller."""
        return Result(requeue_after=self.requeue_after)


async def ensure(tools: Tools, options: EnsureOptions[R]) -> Progress:
    """Bring the task of an object one step on.

    Raises the errors of the API server; the next pass repeats what is open. What the provider refuses, or does not
    answer, is shown in the status and tried again.
    """
    s = _situation(tools, options)
    async with opening(tools.open_runs, s.owner) as runs:
        return await _Pass(tools, options, s, runs).run()


def claim_of(s: Situation) -> Claim:
    """Return what the limiter receives of an object."""
    waiting = s.status.waiting
    return Claim(
        task=s.definition.name,
        owner=s.owner,
        instance=s.instance,
        since=s.now if not _is_queued(waiting) else min(waiting.since, s.now),
        concurrency=s.definition.concurrency,
        priority=s.priority,
        recorded=waiting,
        live=is_live(s.status.run),
    )


def _is_queued(waiting: TaskWaiting | None) -> TypeGuard[TaskWaiting]:
    """Return whether an object waits for anything but a person's approval."""
    return waiting is not None and waiting.reason is not WaitingReason.APPROVAL


def _situation(tools: Tools, options: EnsureOptions[R]) -> Situation:
    resource, definition, now = options.resource, options.definition, tools.clock()
    annotations = resource.metadata.annotations or {}
    inputs, owner = inputs_of(resource), owner_of(resource)
    status = trusted(resource.status, owner, definition, now)
    first = status.run
    if definition.once and first is not None and first.inputs_version:
        inputs = replace(inputs, version=first.inputs_version, hash=first.inputs_hash)
    return Situation(
        definition=definition,
        owner=owner,
        instance=options.instance,
        inputs=inputs,
        generation=resource.metadata.generation or 0,
        status=status,
        now=now,
        deleting=resource.metadata.deletion_timestamp is not None,
        leaving=options.leaving,
        orphaned=options.orphaned,
        pause=_pause_of(annotations, options.paused_by),
        superseded=definition.once and is_superseded_upgrade(annotations),
        held=options.held,
        hold=options.hold,
        deployed=options.deployed,
        priority=options.priority,
        retry=annotations.get(RETRY, ""),
        reconcile=annotations.get(RECONCILE, ""),
        cancel=annotations.get(CANCEL, ""),
        drift_check=options.drift_check,
        bad_schedule=options.bad_schedule,
        drift=options.drift,
        plans=plan_policy(options.terraform_runs, annotations),
        period=options.period if options.period is not None else definition.period,
        told=tools.told,
        pace=tools.pace,
    )


def _pause_of(annotations: Mapping[str, str], of_instance: str) -> str:
    """Return what pauses the object; its Instance's annotation first, which only people set."""
    return f"{of_instance} of its instance" if of_instance else pausing_annotation(annotations)


class _Pass(Generic[R]):
    """One pass over one object."""

    def __init__(self, tools: Tools, options: EnsureOptions[R], s: Situation, runs: Opened) -> None:
        self.tools = tools
        self.options = options
        self.s = s
        self.runs = runs
        self.claim = claim_of(s)
        self._seen: Sequence[Run] = ()
        self._keys: tuple[SecretKeyRef, ...] | None = None

    async def run(self) -> Progress:
        """Look, decide, write, act."""
        keeps = is_live(self.s.status.run)
        try:
            decision = await self._keep_outputs(await self._decide())
            await self._delete(decision.discard)
            summarize(self.s, decision.status)
            if self.s.deleting and decision.delete:
                keep_failure(self.s, decision.status)  # until they are gone
            self._summarize_hub(decision.status)
            written = await write_status(
                self.tools.patcher,
                self.tools.client.cache,
                self.options.resource,
                decision.status,
            )
            keeps = self._keeps_place(decision, written=written, recorded=keeps)
        except Unavailable as error:
            return await self._show_unavailable(error, self.s.status)
        finally:
            if not keeps:
                self.tools.limiter.release(self.s.owner)
        if not written:
            return Progress(status=self.s.status, requeue_after=self.s.pace.at_once)
        self._report(decision)
        try:
            requeue = await self._act(decision)
        except Unavailable as error:
            if self.s.deleting and error.what == "delete":
                return await self._show_unavailable(error, decision.status)
            if self.options.is_explained(error.cause):
                raise error.cause from error
            _log.warning("Provider", failed=str(error), object=f"{self.s.owner}")
            requeue = next_try(self.s, decision.status)  # where it fails again it is shown
        return Progress(status=decision.status, requeue_after=requeue, gone=decision.let_go)

    async def _show_unavailable(self, error: Unavailable, known: TaskStatus) -> Progress:
        """Record what the provider refused or did not answer, with one event for each text."""
        s, resource = self.s, self.options.resource
        if self.options.is_explained(error.cause):
            raise error.cause from error
        status = known.model_copy(deep=True)
        summarize(s, status)
        record_unavailable(s, status, error)
        client = self.tools.client
        written = await write_status(self.tools.patcher, client.cache, resource, status)
        if not written:
            return Progress(status=s.status, requeue_after=s.pace.at_once)
        if status.message != resource.status.message:
            self.tools.recorder.event(
                resource, "Warning", PROVIDER_FAILED, error.what.capitalize(), status.message
            )
        return Progress(status=status, requeue_after=next_try(s, status))

    def _keeps_place(self, decision: Decision, *, written: bool, recorded: bool) -> bool:
        """Whether the owner stays with the limiter: as a holder, or in its queue."""
        waiting = decision.status.waiting
        if waiting is not None:
            return not waits_for_people(waiting)
        if decision.holds and (written or recorded):
            self.tools.limiter.hold(self.claim)
            return True
        return False

    def _summarize_hub(self, status: TaskStatus) -> None:
        if self.options.on_hub:
            used = status.run is not None
            report_hub(status.conditions, (), self.s.generation, self.s.now, used=used)

    # -- looking and deciding ----------------------------------------------------------------------

    async def _decide(self) -> Decision:
        s = self.s
        run = s.status.run
        if run is not None and is_live(run):
            provider = await self.runs()
            decision = follow(s, await provided("get", provider.get(s.owner, run.run_id)))
            return await self._start_again(decision) if decision.start else decision
        if s.deleting:
            return await self._leave()
        step = next_run(s, s.status)
        if isinstance(step, Rest):
            return rest(s, step.until)
        if isinstance(step, CleanUp):
            return await self._leave()
        if s.hold is not None and is_held_change(s, s.status):
            return hold_back(s, s.hold)
        denied = await self._hindered()
        if denied is not None:
            return denied
        return await self._begin(step.identity, await self._all())

    async def _leave(self) -> Decision:
        """Clean up after an object that goes: a teardown, if one is needed, then its runs."""
        s, found = self.s, await self._all()
        step = next_run(s, s.status, made_something=bool(found))
        if isinstance(step, CleanUp) and not found and await self._is_built():
            step = next_run(s, s.status, made_something=True)  # the status is lost, and its runs
        live = any(not run.state.finished for run in found)
        if isinstance(step, CleanUp) and not (live and s.definition.supersede is Supersede.AWAIT):
            return clean_up(s, found)
        if isinstance(step, Rest):
            return rest(s, step.until)
        if s.hold is not None and not isinstance(step, CleanUp):
            return hold_back(s, s.hold)
        identity = s.first_attempt() if isinstance(step, CleanUp) else step.identity
        if not live:
            denied = await self._hindered()
            if denied is not None:
                return denied
        return await self._begin(identity, found)

    async def _begin(self, identity: Identity, found: Sequence[Run]) -> Decision:
        """Begin a run, unless a Secret that the object names is not for that."""
        refused = await self._refused_secret()
        return refused or begin(self.s, identity, found, self.tools.tracing.carrier())

    async def _refused_secret(self) -> Decision | None:
        """Return that the object is looked at again, since a Secret that it names is not for that; None: all are."""
        try:
            await self._secrets()
        except SecretRefused as error:
            self.s = replace(self.s, held=Hold(reason=NOT_LABELLED, message=str(error)))
            return replace(rest(self.s, None), requeue=self.s.pace.poll_most)
        return None

    async def _hindered(self) -> Decision | None:
        """Return why no run may begin now; None: one may. What could not begin requests no place: it would give it back each time."""
        waits = is_requested(self.s.status.waiting)
        refused = None if waits else await self._refused_secret()
        return refused or self._denied()

    async def _start_again(self, decision: Decision) -> Decision:
        """Start a run whose intent is on record and which is not there: the process ended in between, or the provider did not take it."""
        denied = self._denied()
        if denied is not None:
            return denied
        resumed = resume(self.s, await self._all())
        if not resumed.start:
            return resumed
        try:
            decision = follow(self.s, await self._start(decision.status))
        except RunRefused as error:
            decision = refuse(self.s, str(error))
        return replace(decision, delete=[*decision.delete, *resumed.delete])

    def _denied(self) -> Decision | None:
        verdict = self.tools.limiter.acquire(self.claim)
        if isinstance(verdict, Denial):
            return deny(self.s, verdict)
        # An upgrade releases its place once its end is on record: no await comes between this look and the start.
        held = self.options.version_hold()
        if held is None:
            return None
        self.tools.limiter.release(self.s.owner)
        self.s = replace(self.s, held=held)
        return rest(self.s, None)

    async def _all(self) -> Sequence[Run]:
        provider = await self.runs()
        self._seen = await provided("list", provider.list(self.s.owner))
        return self._seen

    async def _keep_outputs(self, decision: Decision) -> Decision:
        """Write outputs that must not be seen to their Secret, before the status shows it."""
        outputs = decision.secret_outputs
        before = decision.status.outputs_secret_name
        if outputs is None or (not outputs and not before):
            return decision
        try:
            name = await keep_outputs(
                self.tools.runs, self.options.resource, self.s.instance, outputs
            )
        except OutputsRefused as error:
            return not_kept(self.s, str(error))
        decision.status.outputs_secret_name = name
        return decision

    # -- effects -----------------------------------------------------------------------------------

    async def _act(self, decision: Decision) -> float | None:
        """Perform what was decided. Returns the seconds until the next pass."""
        s = self.s
        if decision.cancel or decision.delete:
            provider = await self.runs()
            for run_id in decision.cancel:
                await self._effect("cancel", run_id, provider.cancel(s.owner, run_id))
            await self._delete(decision.delete)
        if decision.start and not is_live(s.status.run):
            try:
                started = await self._start(decision.status)
            except RunRefused:
                return s.pace.at_once  # it is refused again, and recorded
            if started.state.finished:
                return s.pace.at_once  # no change of it will be reported any more
        if decision.let_go:
            await remove_outputs(self.tools.runs, self.options.resource)
            self.tools.limiter.release(s.owner)
            self.tools.metrics.forget(s.definition.name, s.owner.uid)
            await remove_finalizer(
                self.tools.patcher, self.tools.client.cache, self.options.resource, RUNS_FINALIZER
            )
        return decision.requeue

    async def _delete(self, runs: Sequence[RunName]) -> None:
        for run_id in runs:
            provider = await self.runs()
            await self._effect("delete", run_id, provider.delete(self.s.owner, run_id))

    async def _start(self, status: TaskStatus) -> Run:
        run, s = status.run, self.s
        if run is None:
            raise ValueError("no run is recorded")
        try:
            request = await self._request(run, status)
        except SecretRefused as error:
            raise RunRefused(str(error)) from error
        provider = await self.runs()
        started = await self._effect("start", run.run_id, provider.start(request))
        self.tools.metrics.started(s.definition.name, run)
        return started

    async def _effect(self, what: str, run_id: str, effect: Awaitable[T]) -> T:
        """One call that changes something outside the API server, made only while this process leads."""
        try:
            self.tools.fence()
        except BaseException:
            _discard(effect)
            raise
        s, name = self.s, self.s.definition.name
        _log.debug(
            "Effect",
            effect=what,
            task=name,
            run_id=run_id,
            inputs_version=s.inputs.version,
            instance=f"{s.owner.namespace}/{s.instance}",
        )
        with self.tools.tracing.request(
            f"task {what}", {"task": name, "run_id": run_id, "instance": s.instance}
        ) as span:
            try:
                return await provided(what, effect)
            except Exception as error:
                self.tools.tracing.failed(span, error)
                raise

    async def _secrets(self) -> tuple[SecretKeyRef, ...]:
        """Return every key that there is of what the task may read. Raises SecretRefused."""
        if self._keys is None:
            client, namespace = self.tools.runs.client, self.s.owner.namespace
            found = await read_named(client, namespace, self.options.secrets)
            self._keys = tuple(SecretKeyRef(name=name, key=key) for name, key in sorted(found))
        return self._keys

    async def _is_built(self) -> bool:
        """Whether a run succeeded before, by whatever shows it: a status may be lost, a Secret and runs may not."""
        s, options = self.s, self.options
        if not s.definition.teardown or was_built(s.status):
            return s.definition.teardown
        if proof_of(options.record) or any(has_built(run) for run in self._seen):
            return True
        return await has_outputs(self.tools.runs, options.resource)

    async def _request(self, run: TaskRun, status: TaskStatus) -> RunRequest:
        s, options = self.s, self.options
        task_input = RunInput(
            task=s.definition.name,
            run_id=run.run_id,
            inputs_version=run.inputs_version,
            attempt=run.attempt,
            slot=run.slot,
            operation=run.operation,
            owner=s.owner,
            instance=s.instance,
            instance_uid=options.instance_uid,
            protected=options.protected,
            spec=options.resource.spec.to_wire(),
            annotations=s.inputs.annotations,
            outputs=s.status.outputs,
            built=await self._is_built(),
            record={**options.shared_record, **(s.status.record or options.record)},
            config_maps=options.config_maps,
            traceparent=run.traceparent,
            approval=s.plans.approval,
            plan=_earlier_plan(run, status),
            unlock=orphaned_lock(status, options.resource.metadata.annotations or {}),
            data_plane=self.tools.runs.data_plane,
        )
        return RunRequest(
            run_id=run.run_id,
            input=task_input,
            timeout=s.definition.timeout,
            secrets=await self._secrets(),
        )

    # -- telling -----------------------------------------------------------------------------------

    def _report(self, decision: Decision) -> None:
        s, metrics, task = self.s, self.tools.metrics, self.s.definition.name
        report_steps(self.tools, s, self.options.resource, decision.steps)
        report_hold(self.tools, s.held, self.options.resource, decision.status)
        report_drift(self.tools, self.options.resource, decision.status)
        report_plan(self.tools, self.options.resource, decision.status)
        report_repair(self.tools, s, self.options.resource, decision)
        if decision.ended is not None:
            report_end(self.tools, s, decision.ended)
        waited = s.status.waiting
        if _is_queued(waited) and decision.status.waiting is None and decision.start:
            metrics.granted(task, waited.since, s.now)
        metrics.show(task, s.owner.uid, decision.status)


def _earlier_plan(run: TaskRun, status: TaskStatus) -> EarlierPlan | None:
    """Return the plan that a run takes up, with what was decided when it was recorded."""
    plan = status.plan
    if plan is None or plan.digest != run.plan_digest:
        return None
    return EarlierPlan(
        run_id=plan.run_id,
        content=plan.content,
        summary=summary_of(plan),
        decision=run.plan_decision,
    )


def _discard(effect: Awaitable[object]) -> None:
    """Discard a call that was prepared and is not made."""
    if isinstance(effect, Coroutine):
        effect.close()

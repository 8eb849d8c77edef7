"""The infrastructure of an instance by HCP Terraform, where it names an organization: apply, teardown, looking on."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from apis.cloud import InstanceTerraformSpec, TaskOperation, TerraformSettings
from ctrlruntime.clock import utc_now
from ctrlruntime.outbound_http import outbound_session
from internal.cloud.runs import EarlierPlan, RunInput
from internal.cloud.tasks.plans import MadePlan, is_rejected, plan_output, waits_for_approval
from internal.cloud.tasks.task import DESTROYED, INTERRUPTIBLE, TaskError, TaskRejected, TaskResult
from internal.cloud.tasks.terraform.backends import (
    TerraformOrder,
    drift_result,
    made_plan,
    rejected_result,
    waiting_result,
)
from internal.cloud.tasks.terraform.configuration import Configuration, archive, configuration
from internal.cloud.tasks.terraform.events import Summary
from internal.cloud.tasks.terraform.hcp.api import HCP, RETRIES, segment
from internal.cloud.tasks.terraform.hcp.following import Permit, Runs
from internal.cloud.tasks.terraform.hcp.runs import (
    STOPPED_BY_PEOPLE,
    SUCCEEDED,
    Run,
    failure,
    message_of,
    outputs,
    outputs_of,
    planned_destructions,
)
from internal.cloud.tasks.terraform.hcp.workspaces import (
    Foreign,
    Settings,
    Workspace,
    Workspaces,
    upload,
)
from internal.cloud.tasks.terraform.inputs import PLACE
from internal.cloud.tasks.terraform.prior_state import (
    RESOURCES,
    WORKSPACE,
    StateFacts,
    check_state,
    is_built,
)
from internal.cloud.tasks.terraform.protection import refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be done, for whom."""

    input: RunInput
    spec: InstanceTerraformSpec
    settings: TerraformSettings
    say: Callable[[str], None]
    keep: Callable[[str, str], None] = lambda _name, _value: None
    """See :class:`TaskContext`."""

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.input.annotations

    def configuration(self) -> Configuration:
        """Raise TaskRejected."""
        given = self.input
        return configuration(given.owner.namespace, given.instance, self.spec, self.annotations)


class Engine:
    """One order, carried out with one API."""

    def __init__(self, api: HCP, order: Order, *, now: Callable[[], datetime] = utc_now) -> None:
        settings = order.settings
        self._api = api
        self._order = order
        self._now = now
        self._organization = settings.organization or ""
        owner = order.input.owner
        self._settings = Settings(
            organization=self._organization,
            name=settings.workspace or order.input.key,
            project=settings.project_id,
            terraform_version=settings.terraform_version,
            instance=f"{owner.namespace}/{order.input.instance}",
            uid=order.input.instance_uid,
        )
        self._workspaces = Workspaces(api, self._settings)

    async def apply(self) -> TaskResult:
        """Bring the infrastructure about. Raises TaskError, TaskRejected."""
        wanted = self._order.configuration()
        await self._refuse_to_build_twice()
        if is_built(self._order.input):
            self._check(await self._workspaces.find(), teardown=False)
        workspace = await self._workspaces.ensure()
        if workspace.connected:
            raise TaskRejected(
                f"workspace {workspace.name} takes its configuration from a repository: set"
                " spec.debug.tfcRunsMode to vcs, or disconnect it"
            )
        if is_rejected(self._order.input.plan):
            return await self._reject(workspace)
        try:
            run = await self._run(workspace, wanted, destroy=False)
        except _NotApplied as ended:
            return ended.result
        if self._looks_for_drift and run.status == "planned_and_finished":
            return await self._only_planned(run, workspace)
        self._order.say("reading the outputs")
        found = await outputs_of(self._api, workspace.identity, wanted)
        return TaskResult(
            message=self._done(run),
            outputs={**found.plain, PLACE: f"{self._organization}/{workspace.name}"},
            secret_outputs=found.secret,
            record=await self._record(workspace),
        )

    def _check(self, workspace: Workspace | None, *, teardown: bool) -> bool:
        """Compare the workspace with the recorded one. Returns whether the run goes on with it. Raises TaskRejected."""
        given = self._order.input
        place = f"workspace {self._organization}/{self._settings.name}"
        return check_state(given, _facts(workspace, given.record), place, teardown=teardown)

    async def _record(self, before: Workspace) -> dict[str, str]:
        """Return what identifies the state of a workspace after a run."""
        after = await self._workspaces.read()
        found = before if after is None or after.identity != before.identity else after
        facts = StateFacts(resources=found.resources, workspace=found.identity)
        record = facts.record(f"workspace {self._organization}/{found.name}")
        if not found.resources:
            del record[RESOURCES]  # it is counted some time after a run
        return record

    async def teardown(self) -> TaskResult:
        """Destroy everything, then the workspace. What is gone already is no error."""
        try:
            workspace = await self._workspaces.find()
        except Foreign as error:
            if self._built_in == (self._organization, self._settings.name):
                raise
            if not self._check(None, teardown=True):
                return TaskResult(message=FORGOTTEN)
            return TaskResult(message=f"nothing was ever built: {error}")
        if not self._check(workspace, teardown=True):
            return TaskResult(message=FORGOTTEN)
        if workspace is None:
            return TaskResult(message="there is no workspace (any more)")
        if workspace.connected:
            raise TaskRejected(
                f"workspace {workspace.name} takes its configuration from a repository: remove it there"
            )
        said = "nothing was ever built"
        if workspace.stateful or workspace.current_run is not None:
            run = await self._run(workspace, self._order.configuration(), destroy=True)
            said = self._done(run)
        self._order.keep(DESTROYED, "true")  # without it the next attempt would miss the workspace
        await self._workspaces.delete(workspace)
        return TaskResult(message=f"{said}; workspace {workspace.name} is deleted")

    async def observe(self) -> TaskResult:
        """Wait for the last run that the repository caused, and hand on its outputs. Starts nothing."""
        workspace = await self._workspaces.read()
        if workspace is None:
            raise TaskError(
                f"workspace {self._settings.name} is not there:"
                " in tfcRunsMode vcs another system makes it"
            )
        runs = self._runs(workspace)
        newest = await runs.newest()
        if newest is None:
            raise TaskError(
                f"workspace {workspace.name} has had no run yet: commit to its repository"
            )
        run = await runs.watch(newest)
        await self._judge(run, workspace)
        wanted, sensitive = self._handed_on()
        found = await outputs(self._api, workspace.identity, wanted, sensitive)
        return TaskResult(
            message=f"looked on: {self._done(run)}",
            outputs=found.plain,
            secret_outputs=found.secret,
        )

    async def _refuse_to_build_twice(self) -> None:
        """Refuse to build again in another workspace what was built in one that is still there."""
        organization, name = self._built_in
        settings = self._settings
        if organization != settings.organization or name in ("", settings.name):
            return
        before = await Workspaces(self._api, replace(settings, name=name)).read()
        mark = None if before is None else before.mark
        if mark is not None and mark.instance != settings.instance:
            return
        if before is not None:
            raise TaskRejected(
                f"the infrastructure is in workspace {name}: name that one in"
                f" infrastructure.terraform.workspace, or rename it to {settings.name} first"
            )

    @property
    def _built_in(self) -> tuple[str, str]:
        """Organization and workspace of the last success; empty texts if there is none."""
        organization, _, name = self._order.input.outputs.get(PLACE, "").partition("/")
        return organization, name

    async def _only_planned(self, run: Run, workspace: Workspace) -> TaskResult:
        """Return the result of a run whose plan cannot be applied, or has nothing to apply."""
        differs = _differs(run)
        result = drift_result(differs, about=f"run {run.identity}: ")
        if differs is None:
            return result
        plan = plan_output(await self._made(run, workspace))
        return replace(result, outputs={**result.outputs, **plan})

    async def _made(self, run: Run, workspace: Workspace) -> MadePlan:
        """Return the plan of a run as it is handed back: the run itself identifies it, since it has one plan for good."""
        found = await planned_destructions(self._api, run)
        return made_plan(
            run.identity, run.summary or Summary(), found, link=self._link(run, workspace)
        )

    async def _reject(self, workspace: Workspace) -> TaskResult:
        """Discard the run whose plan was rejected. Raises TaskRejected, unless it was for drift."""
        runs, earlier = self._runs_of_plan(workspace)
        run = await runs.adopt()
        if run is not None and run.identity == earlier.content and not run.ended:
            await runs.discard(run)
        return rejected_result(self._order.input)

    async def _follow_plan(self, workspace: Workspace) -> Run | None:
        """Return the run whose plan waits, at its end; None if it is not there, or failed before.

        Cancelled, it is stopped if it has begun to apply: a plan that waits is not lost by that.
        """
        if self._order.input.plan is None:
            return None
        if await self._runs(workspace).own() is not None:
            return None
        runs, earlier = self._runs_of_plan(workspace)
        run = await runs.adopt()
        if run is None or run.identity != earlier.content:
            return None
        if run.ended and run.status not in SUCCEEDED | STOPPED_BY_PEOPLE:
            return None
        try:
            return await runs.follow(run)
        except asyncio.CancelledError:
            await runs.stop(applying=True)
            raise

    def _runs_of_plan(self, workspace: Workspace) -> tuple[Runs, EarlierPlan]:
        """Return the runs as the one that made the plan sees them."""
        earlier = self._order.input.plan
        if earlier is None:
            raise ValueError("no plan waits")
        return self._runs(workspace, earlier.run_id), earlier

    async def _run(self, workspace: Workspace, wanted: Configuration, *, destroy: bool) -> Run:
        """Our run, found or made, at its successful end. Cancelled, it is stopped."""
        self._order.keep(INTERRUPTIBLE, "true")
        taken_up = await self._follow_plan(workspace)
        if taken_up is not None:
            await self._judge(taken_up, workspace)
            return taken_up
        runs = self._runs(workspace)
        try:
            run = await runs.adopt()
            if run is None:
                run = await self._begin(runs, workspace, wanted, destroy=destroy)
            run = await runs.follow(run)
        except asyncio.CancelledError:
            await runs.stop()
            raise
        await self._judge(run, workspace)
        return run

    async def _begin(
        self, runs: Runs, workspace: Workspace, wanted: Configuration, *, destroy: bool
    ) -> Run:
        await runs.refuse_if_locked()
        self._order.say("uploading the configuration")
        version = await upload(self._api, workspace.identity, archive(wanted.files()))
        given = self._order.input
        about = (
            f"{given.owner.kind} {given.owner.namespace}/{given.owner.name}: {given.operation} of"
            f" {given.inputs_version}, attempt {given.attempt}"
        )
        message = message_of(given.run_id, about)
        return await runs.make(
            message, version, destroy=destroy, plan_only=given.operation is TaskOperation.PLAN
        )

    async def _judge(self, run: Run, workspace: Workspace) -> None:
        """Raise TaskRejected for a run that a person put an end to, TaskError for other failures."""
        if run.status in SUCCEEDED:
            return
        text = await failure(self._api, run, self._link(run, workspace))
        if run.status in STOPPED_BY_PEOPLE:
            raise TaskRejected(
                f"{text}; nothing is tried until the spec changes or a retry is asked for"
            )
        raise TaskError(text)

    async def _hold(self, runs: Runs, run: Run, workspace: Workspace) -> None:
        """Raise _NotApplied for a plan that waits for an approval: its run stays as it is.

        Discard a plan that destroys or replaces anything under protection: raises TaskRejected, or _NotApplied for
        one for drift. Raises TaskError for a plan whose numbers are not known: it is not confirmed either.
        """
        given, summary = self._order.input, run.summary
        if given.operation is TaskOperation.TEARDOWN:
            return
        if summary is None:
            raise TaskError(
                f"run {run.identity}: HCP Terraform does not say what its plan destroys, so it is not"
                " confirmed"
            )
        if summary.destroy and given.protected:
            await self._refuse_unless_tainted(runs, run, summary, workspace)
        if waits_for_approval(given, run.identity, destroys=bool(summary.destroy)):
            made = await self._made(run, workspace)
            raise _NotApplied(waiting_result(made, about=f"run {run.identity}: "))

    async def _refuse_unless_tainted(
        self, runs: Runs, run: Run, summary: Summary, workspace: Workspace
    ) -> None:
        """Discard a plan that may not be applied under protection. Raises TaskRejected, _NotApplied.

        One that replaces nothing but what is tainted waits for an approval instead.
        """
        found = await planned_destructions(self._api, run)
        if len(found) >= summary.destroy and all(each.tainted for each in found):
            return
        await runs.discard(run)
        if self._looks_for_drift:
            raise _NotApplied(drift_result(summary, about=f"run {run.identity}: "))
        told = refusal(found, summary.destroy, self._order.input.instance)
        raise TaskRejected(f"{told} (run {run.identity}, {self._link(run, workspace)})")

    @property
    def _looks_for_drift(self) -> bool:
        return self._order.input.operation in (TaskOperation.PLAN, TaskOperation.REPAIR)

    def _permit(self, workspace: Workspace) -> Permit:
        async def permit(runs: Runs, run: Run) -> None:
            await self._hold(runs, run, workspace)

        return permit

    def _runs(self, workspace: Workspace, run_id: str = "") -> Runs:
        """`run_id`: whose runs are own ones; default: this run's."""
        given = self._order
        return Runs(
            self._api,
            self._workspaces,
            workspace,
            run_id or given.input.run_id,
            say=given.say,
            now=self._now,
            permit=self._permit(workspace),
            changing=lambda: given.keep(INTERRUPTIBLE, ""),
        )

    def _handed_on(self) -> tuple[frozenset[str], frozenset[str]]:
        """Names of the outputs of a workspace whose configuration others upload."""
        module = self._order.settings.module
        if module is None:
            return frozenset(), frozenset()
        sensitive = frozenset(module.sensitive_outputs)
        return frozenset(module.outputs) | sensitive, sensitive

    def _done(self, run: Run) -> str:
        summary = run.summary
        if run.status == "planned_and_finished" or summary is None:
            return f"run {run.identity}: nothing to change"
        return f"run {run.identity}: {summary.done()}"

    def _link(self, run: Run, workspace: Workspace) -> str:
        place = f"{segment(self._organization)}/workspaces/{segment(workspace.name)}"
        return f"{self._api.address}/app/{place}/runs/{segment(run.identity)}"


FORGOTTEN: Final = "forgotten as approved; what was built stays"


def _facts(workspace: Workspace | None, record: Mapping[str, str]) -> StateFacts | None:
    """Return what is known of the state of a workspace; None if it has none."""
    if workspace is None or not workspace.stateful:
        return None
    uncounted = WORKSPACE in record and RESOURCES not in record
    return StateFacts(
        resources=workspace.resources, outputs=uncounted, workspace=workspace.identity
    )


class _NotApplied(Exception):
    """A plan that is not applied: it waits for an approval, or was made for drift and is only reported."""

    def __init__(self, result: TaskResult) -> None:
        super().__init__(result.message)
        self.result = result


def _differs(run: Run) -> Summary | None:
    """Return what a plan that is not applied changes; None for nothing."""
    return None if run.summary is None or run.summary.empty else run.summary


async def run(order: TerraformOrder) -> TaskResult:
    """Apply, observe or remove the infrastructure. Raises TaskError and TaskRejected; see Engine."""
    context, spec, settings = order.context, order.spec, order.settings
    if spec.infrastructure.environment_from:
        raise TaskRejected(
            "infrastructure.environmentFrom is for a local terraform or tofu binary: set variables"
            " and credentials in the workspace (or a variable set), and leave it out"
        )
    if spec.tfc_runs_mode == "vcs" and order.teardown:
        return TaskResult(message="the infrastructure is left to its repository (tfcRunsMode vcs)")
    if settings.token_from is None:
        raise TaskRejected(
            "infrastructure.terraform.tokenFrom is missing: HCP Terraform wants a user's or a team's"
            " token"
        )
    token = context.secret(settings.token_from)
    work = Order(
        input=context.input,
        spec=spec,
        settings=settings,
        say=context.progress,
        keep=context.keep,
    )
    async with outbound_session() as http:
        retries = order.retries or RETRIES
        api = HCP(http, settings.address, token, retries=retries, sleep=order.sleep)
        engine = Engine(api, work, now=order.now)
        if order.teardown:
            return await engine.teardown()
        if spec.tfc_runs_mode == "vcs":
            return await engine.observe()
        return await engine.apply()

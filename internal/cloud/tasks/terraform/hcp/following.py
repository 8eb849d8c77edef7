"""Runs of one workspace: the own one is found or made, confirmed once, followed to its end, or stopped.

https://developer.hashicorp.com/terraform/cloud-docs/api-docs/run
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

from ctrlruntime.clock import utc_now
from internal.cloud.tasks.task import TaskError
from internal.cloud.tasks.terraform.hcp.api import HCP, Conflict, Unanswered, segment
from internal.cloud.tasks.terraform.hcp.runs import APPLYING, Run, run_of
from internal.cloud.tasks.terraform.hcp.workspaces import Workspace, Workspaces

_FAR_BACK: Final = timedelta(days=7)
"""A run id is used for hours at most: a run made longer ago is another one."""
_ROUNDS: Final = 3
_STOPPING: Final = 15.0
"""Seconds that a cancelled task has for stopping its run."""
_QUICK: Final = 1.0
_SLOW: Final = 10.0
_PATIENT: Final = 5
"""Every so many looks at a queued run, it is found out what is before it."""


Permit: TypeAlias = Callable[["Runs", Run], Awaitable[None]]
"""Decides whether a run may be confirmed, whose plan is finished."""


class Runs:
    """The runs of one workspace, as one run of the control plane sees them."""

    def __init__(
        self,
        api: HCP,
        workspaces: Workspaces,
        workspace: Workspace,
        run_id: str,
        *,
        say: Callable[[str], None],
        now: Callable[[], datetime] = utc_now,
        permit: Permit,
        changing: Callable[[], None] = lambda: None,
    ) -> None:
        """`permit`: awaited before a run is confirmed; raises what keeps it from being confirmed.

        `changing`: called before our run is confirmed, and once it applies.
        """
        self._api = api
        self._workspaces = workspaces
        self._workspace = workspace
        self._path = f"/workspaces/{segment(workspace.identity)}/runs"
        self._run_id = run_id
        self._say = say
        self._now = now
        self._permit = permit
        self._changing = changing
        self._in_doubt = False

    async def newest(self) -> Run | None:
        """Return the last run that may apply, whoever made it."""
        page = await self._api.get(self._path, {"page[size]": "1"})
        return next((run_of(each) for each in page.many), None)

    async def own(self) -> Run | None:
        """Return our run, if an earlier try of this task made it; other runs are left as they are."""
        return next((run for run in await self._recent() if run.ours == self._run_id), None)

    async def adopt(self) -> Run | None:
        """Our run, in whatever state, if an earlier try of this task made it; the first, if several.

        Runs that other attempts left behind are ended on the way: discarded where they wait, waited
        for where they apply.
        """
        recent = await self._recent()
        mine = [run for run in recent if run.ours == self._run_id]
        if mine:
            return await self._first(mine)
        for run in recent:
            if run.ours is not None and not run.ended:
                await self._end(run)
        return None

    async def make(
        self, message: str, configuration: str, *, destroy: bool, plan_only: bool = False
    ) -> Run:
        """Return a new run, or the one that turns out to have been made after all.

        `plan_only`: it can never be applied, and does not wait for its turn in the workspace.
        """
        data = _new_run(
            self._workspace.identity, configuration, message, destroy=destroy, plan_only=plan_only
        )
        trouble: TaskError | None = None
        for _ in range(_ROUNDS):
            try:
                return run_of((await self._api.create("/runs", data)).one)
            except Conflict as error:
                await self.refuse_if_locked()
                raise TaskError(str(error)) from error
            except Unanswered as error:
                trouble = error
                self._in_doubt = True
                found = await self._found_after_all()
                if found is not None:
                    return found
        raise trouble or TaskError("the run cannot be made")

    async def follow(self, run: Run) -> Run:
        """Wait for its end, confirming it when it waits for that. Raises TaskError if it cannot go on."""
        delay, looks, status = _QUICK, 0, ""
        while True:
            run = await self.read(run.identity)
            if run.status != status:
                self._say(f"run {run.identity} {run.doing}")
                delay, looks, status = _QUICK, 0, run.status
            if run.ended:
                return run
            if run.status in APPLYING:
                self._changing()
            looks += 1
            if run.confirmable:
                run = await self._confirm(run)
            elif run.status == "pending" and looks % _PATIENT == 0:
                run = await self._look_ahead(run)
            await self._api.sleep(delay)
            delay = min(delay * 1.5, _SLOW)

    async def watch(self, run: Run) -> Run:
        """Wait for the end of another run, and change nothing."""
        delay, status = _QUICK, ""
        while True:
            run = await self.read(run.identity)
            if run.status != status:
                waits = " and waits for a person to confirm it" if run.confirmable else ""
                self._say(f"run {run.identity} {run.doing}{waits}")
                delay, status = _QUICK, run.status
            if run.ended:
                return run
            await self._api.sleep(delay)
            delay = min(delay * 1.5, _SLOW)

    async def read(self, identity: str) -> Run:
        """Return the run with its plan and apply."""
        document = await self._api.get(f"/runs/{segment(identity)}", {"include": "plan,apply"})
        return run_of(document.one, document)

    async def stop(self, *, applying: bool = False) -> None:
        """Our run, which is not needed any longer, is discarded or cancelled, as far as it goes.

        `applying`: only one that has begun to apply; a plan that waits to be confirmed goes on waiting.
        """
        try:
            async with asyncio.timeout(_STOPPING):
                for run in await self._recent():
                    begun = not applying or run.status in APPLYING
                    if run.ours == self._run_id and not run.ended and begun:
                        await self._interrupt(run)
        except (TaskError, TimeoutError):
            self._say("the run in HCP Terraform could not be stopped: look at it there")

    async def discard(self, run: Run) -> None:
        """End an own run whose plan may not be applied. It waits for a person where that fails."""
        try:
            await self._interrupt(run)
        except TaskError as error:
            self._say(f"run {run.identity} could not be discarded: {error}")

    async def refuse_if_locked(self) -> None:
        """Raise TaskError, which names who locked the workspace."""
        found = await self._workspaces.read()
        if found is not None and found.holder is not None:
            raise TaskError(_locked(found))

    async def _recent(self) -> list[Run]:
        """Newest first, as far back as an own run may be."""
        oldest = (self._now() - _FAR_BACK).isoformat()[:19]
        found: list[Run] = []
        async for page in self._api.pages(self._path):
            runs = [run_of(each) for each in page.many]
            found += runs
            if not runs or runs[-1].created_at[:19] < oldest:
                break
        return found

    async def _found_after_all(self) -> Run | None:
        for wait in (0.0, 2.0):
            await self._api.sleep(wait)
            mine = [run for run in await self._recent() if run.ours == self._run_id]
            if mine:
                return await self._first(mine)
        return None

    async def _first(self, mine: list[Run]) -> Run:
        """Return the oldest counts. Others come from a request that was carried out after it was given up."""
        mine = sorted(mine, key=lambda run: (run.created_at, run.identity))
        for run in mine[1:]:
            if not run.ended:
                await self._interrupt(run)
        self._in_doubt = True
        return mine[0]

    async def _confirm(self, run: Run) -> Run:
        """Confirm it, if it is the one that counts. Whether that arrived is seen in its state."""
        if not run.may_apply:
            raise TaskError(
                f"run {run.identity} waits to be confirmed, which the token must not do: give it the"
                " right to apply runs, and discard that run"
            )
        if self._in_doubt:
            mine = [each for each in await self._recent() if each.ours == self._run_id]
            first = await self._first(mine or [run])
            if first.identity != run.identity:
                return first
        await self._permit(self, run)
        self._changing()
        try:
            await self._api.act(f"/runs/{segment(run.identity)}/actions/apply")
        except (Conflict, Unanswered):
            return run
        return run

    async def _end(self, run: Run) -> None:
        """Stop a run of another attempt, unless it has begun to apply."""
        self._say(f"waiting for the end of run {run.identity}, left behind by {run.ours}")
        while not run.ended:
            if run.status not in APPLYING:
                await self._interrupt(run)
            await self._api.sleep(_QUICK)
            run = await self.read(run.identity)

    async def _interrupt(self, run: Run) -> None:
        action = "discard" if run.discardable or run.status == "pending" else "cancel"
        if action == "cancel" and not run.cancelable:
            return
        try:
            await self._api.act(f"/runs/{segment(run.identity)}/actions/{action}")
        except (Conflict, Unanswered):
            return

    async def _look_ahead(self, run: Run) -> Run:
        """Find out why a run is queued: a person's lock may last, so it gives up its place for one.

        Behind a run that was made for the same reason it gives way to that one.
        """
        found = await self._workspaces.read()
        if found is None:
            return run
        if found.holder is not None:
            await self._interrupt(run)
            raise TaskError(_locked(found))
        if found.current_run in (None, run.identity):
            return run
        other = await self.read(found.current_run)
        if other.ours == self._run_id:
            return await self._first([other, run])
        self._say(f"run {run.identity} is queued behind run {other.identity}, which {other.doing}")
        return run


def _locked(workspace: Workspace) -> str:
    return f"workspace {workspace.name} is locked by {workspace.holder}; it goes on once it is unlocked"


def _new_run(
    workspace: str, configuration: str, message: str, *, destroy: bool, plan_only: bool
) -> dict[str, Any]:
    pointers = {
        "workspace": {"type": "workspaces", "id": workspace},
        "configuration-version": {"type": "configuration-versions", "id": configuration},
    }
    attributes = {"message": message, "auto-apply": False, "is-destroy": destroy}
    return {
        "type": "runs",
        "attributes": {**attributes, "plan-only": True} if plan_only else attributes,
        "relationships": {name: {"data": data} for name, data in pointers.items()},
    }

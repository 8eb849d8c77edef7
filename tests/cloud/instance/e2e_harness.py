"""The whole cloud system on an embedded API server, with a place outside where runs execute."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ctrlruntime.manager import Manager
from internal.cloud.runs import Run, RunName, RunOwner, RunRequest, RunState
from internal.cloud.tasks.task import HOLD
from manager.controllers.cloud import add_cloud
from manager.controllers.cloud_options import CloudOptions
from tests.cloud.instance.harness import InstanceHarness


@dataclass
class Elsewhere:
    """A :class:`RunProvider` in memory: every run succeeds at once, unless it is told otherwise."""

    outputs: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """By task: what its runs hand back."""
    secret_outputs: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """By task: what of it must not be seen."""
    records: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """By task: what identifies what its runs left behind."""
    reports: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """By task: what its runs report unless they succeed."""
    failing: dict[str, str] = field(default_factory=dict)
    """By task: why its runs are rejected."""
    holding: dict[str, str] = field(default_factory=dict)
    """By task that is failing: the reason for which a person has to decide."""
    refused: dict[str, Exception] = field(default_factory=dict)
    """By task: what a request to start a run raises."""
    pending: dict[str, str] = field(default_factory=dict)
    """By task: what keeps its runs from beginning."""
    held: set[str] = field(default_factory=set)
    """Tasks whose runs go on until they are told to end."""
    started: list[RunRequest] = field(default_factory=list)
    runs: dict[str, Run] = field(default_factory=dict)
    owners: dict[str, RunOwner] = field(default_factory=dict)
    subscribers: list[Callable[[RunOwner], None]] = field(default_factory=list)
    """One of each manager."""

    def tasks(self) -> list[str]:
        """The tasks that were started, in order: teardowns with a minus, plans with `?`, repairs with `!`."""
        signs = {"Apply": "", "Teardown": "-", "Plan": "?", "Repair": "!"}
        return [f"{signs[item.input.operation]}{item.input.task}" for item in self.started]

    def end(self, task: str) -> None:
        """Let runs of a task end."""
        self.held.discard(task)
        for run_id, run in list(self.runs.items()):
            if run_id.startswith(f"{task}-") and not run.state.finished:
                self.end_run(run_id)

    def end_run(self, run_id: str) -> None:
        """Let one run end."""
        self.runs[run_id] = self._ended(run_id.rpartition("-")[0], run_id)
        self._changed(self.owners[run_id])

    def _ended(self, task: str, run_id: str) -> Run:
        if task in self.failing:
            return Run(
                run_id=run_id,
                state=RunState.FAILED,
                message=self.failing[task],
                retryable=False,
                outputs={HOLD: self.holding[task]}
                if task in self.holding
                else self.reports.get(task, {}),
            )
        return Run(
            run_id=run_id,
            state=RunState.SUCCEEDED,
            outputs=self.outputs.get(task, {}),
            secret_outputs=self.secret_outputs.get(task, {}),
            record=self.records.get(task, {}),
        )

    async def start(self, request: RunRequest) -> Run:
        if request.input.task in self.refused:
            raise self.refused[request.input.task]
        if request.run_id not in self.runs:
            self.started.append(request)
            self.owners[request.run_id] = request.input.owner
            running = Run(run_id=request.run_id, state=RunState.RUNNING)
            self.runs[request.run_id] = running
            if why := self.pending.get(request.input.task):
                waits = Run(run_id=request.run_id, state=RunState.CREATED, message=why)
                self.runs[request.run_id] = waits
            elif request.input.task not in self.held:
                self.runs[request.run_id] = self._ended(request.input.task, request.run_id)
            self._changed(request.input.owner)
        return self.runs[request.run_id]

    async def get(self, owner: RunOwner, run_id: RunName) -> Run | None:
        return self.runs.get(run_id)

    async def list(self, owner: RunOwner) -> list[Run]:
        return [run for run_id, run in self.runs.items() if self.owners[run_id].uid == owner.uid]

    async def cancel(self, owner: RunOwner, run_id: RunName) -> None:
        if run_id in self.runs and not self.runs[run_id].state.finished:
            self.runs[run_id] = Run(run_id=run_id, state=RunState.CANCELLED)
            self._changed(owner)

    async def delete(self, owner: RunOwner, run_id: RunName) -> None:
        self.runs.pop(run_id, None)

    def subscribe(self, changed: Callable[[RunOwner], None]) -> bool:
        self.subscribers.append(changed)
        return True

    def _changed(self, owner: RunOwner) -> None:
        for each in self.subscribers:
            each(owner)

    async def aclose(self) -> None:
        return


@dataclass(slots=True)
class E2EHarness(InstanceHarness):
    """A harness where the driver is the real one."""

    elsewhere: Elsewhere = field(default_factory=Elsewhere)
    options: CloudOptions = field(default_factory=CloudOptions)

    async def add_controllers(self, manager: Manager) -> None:
        add_cloud(manager, self.options, provider=self.elsewhere)

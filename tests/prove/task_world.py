"""The task driver: never two runs at a time, nothing is let go that was made and not undone, and all ends."""

from __future__ import annotations

from collections.abc import Coroutine, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, Final, TypeVar

from apis.cloud import TaskOperation, TaskOutcome, TaskState, TaskStatus
from internal.cloud.pace import Pace
from internal.cloud.runs import Run, RunOwner, RunState
from internal.cloud.taskdriver.context import Decision, Situation
from internal.cloud.taskdriver.ensure import _Pass
from internal.cloud.taskdriver.inputs import Inputs, trusted
from internal.cloud.tasks.task import Retries, Supersede, TaskDefinition
from tests.prove.explorer import Step, Violated

T = TypeVar("T")
_NOW: Final = datetime(2030, 1, 1, tzinfo=UTC)
_STEP: Final = timedelta(minutes=1)
_OLDEST: Final = _NOW - 3 * _STEP
"""Times before count as this one: deadline and grace are over by then."""
_OWNER: Final = RunOwner(api_version="v1", kind="Thing", namespace="default", name="a", uid="u")


@dataclass(frozen=True, slots=True)
class Seen:
    """A run as its provider has it."""

    run_id: str
    state: RunState
    created_at: datetime
    tears_down: bool = False

    def run(self) -> Run:
        """Return what the provider answers."""
        ended = _NOW if self.state.finished else None
        return Run(
            run_id=self.run_id, state=self.state, created_at=self.created_at, finished_at=ended
        )


@dataclass(frozen=True, slots=True)
class Task:
    """An object, what is recorded on it, and its runs. `status` is JSON."""

    definition: TaskDefinition
    status: str = "{}"
    runs: tuple[Seen, ...] = ()
    version: int = 1
    deleting: bool = False
    gone: bool = False
    made: bool = False
    """Whether something was made that no teardown has undone."""

    def situation(self) -> Situation:
        """Return what a decision rests on."""
        status = TaskStatus.model_validate_json(self.status)
        return Situation(
            definition=self.definition,
            owner=_OWNER,
            instance="a",
            inputs=Inputs(version=str(self.version), hash=f"h{self.version}", annotations={}),
            generation=self.version,
            status=trusted(status, _OWNER, self.definition, _NOW),
            now=_NOW,
            deleting=self.deleting,
            pace=Pace(settle=0.0, grace=60.0),
        )


class Provider:
    """Where the runs are."""

    def __init__(self, runs: Sequence[Seen]) -> None:
        self.runs = {each.run_id: each for each in runs}

    async def get(self, _owner: RunOwner, run_id: str) -> Run | None:
        """Return a run."""
        found = self.runs.get(run_id)
        return None if found is None else found.run()

    async def list(self, _owner: RunOwner) -> list[Run]:
        """Return all runs."""
        return [each.run() for each in self.runs.values()]

    def start(self, status: TaskStatus) -> Run:
        """Start the recorded run. Raises Violated where another one is under way."""
        run = status.run
        if run is None:
            raise Violated("a run is started that is not recorded")
        live = [
            e.run_id for e in self.runs.values() if not e.state.finished and e.run_id != run.run_id
        ]
        if live:
            raise Violated(f"{run.run_id} is started beside {live}")
        made = Seen(run.run_id, RunState.CREATED, _NOW, run.operation is TaskOperation.TEARDOWN)
        return self.runs.setdefault(run.run_id, made).run()


class Pass(_Pass[Any]):
    """The driver's own, without what it needs of the API server."""

    def __init__(self, s: Situation, provider: Provider) -> None:
        self.provider = provider
        tools: Any = SimpleNamespace(
            limiter=SimpleNamespace(acquire=lambda _claim: None),
            tracing=SimpleNamespace(carrier=lambda: ""),
        )
        options: Any = SimpleNamespace(version_hold=lambda: None)
        opened: Any = self._opened
        super().__init__(tools, options, s, opened)

    async def _opened(self) -> Provider:
        return self.provider

    async def _secrets(self) -> tuple[()]:
        return ()

    async def _is_built(self) -> bool:
        return False  # no status is lost here, and nothing else shows more

    async def _start(self, status: TaskStatus) -> Run:
        return self.provider.start(status)

    def decide(self) -> Decision:
        """Return the decision; a run whose intent is on record may be started by that."""
        return _result(self._decide())


class TaskScope:
    """Runs begin, end and vanish, inputs change, the object is deleted, passes are cut short anywhere."""

    name = "task driver"

    def __init__(
        self, definitions: Iterable[TaskDefinition], versions: int, *, vanishing: bool
    ) -> None:
        """`versions`: of the inputs; `vanishing`: whether runs are deleted by others."""
        self._definitions, self._versions = list(definitions), versions
        self._vanishing = vanishing

    def starts(self) -> Iterable[Task]:
        """Return an object that is new."""
        for definition in self._definitions:
            yield Task(definition)

    def key(self, state: Task) -> Hashable:
        """Return the object itself; what it ran before by names only."""
        flags = (state.version, state.deleting, state.gone, state.made)
        return state.definition.supersede, state.status, state.runs, flags

    def steps(self, state: Task) -> Iterable[Step[Task]]:
        """Return what happens to runs, what people do, and what the program does."""
        if state.gone:
            return
        for at, run in enumerate(state.runs):
            yield from _of_run(state, at, run)
            if self._vanishing:
                others = (*state.runs[:at], *state.runs[at + 1 :])
                yield Step(f"{at} vanishes", replace(state, runs=others))
        if not state.deleting:
            yield Step("delete", replace(state, deleting=True))
            if state.version < self._versions:
                yield Step("change", replace(state, version=state.version + 1))
        yield Step("minute", _later(state), drives=True)
        provider = Provider(state.runs)
        decision = Pass(state.situation(), provider).decide()
        recorded = replace(state, status=_json(decision.status))
        yield Step("look, cut before effects", replace(recorded, runs=_runs(provider)))
        for done in ("nothing", "start"):
            last = _act(recorded, decision, Provider(_runs(provider)), start=done == "start")
            yield Step(f"look, cut after {done}", last, drives=done == "start")

    def is_calm(self, state: Task) -> bool:
        """Whether no run is under way and none follows."""
        live = [each.run_id for each in state.runs if not each.state.finished]
        if len(live) > 1:
            raise Violated(f"{live} are under way at once")
        if state.gone:
            if state.made or live:
                raise Violated("the object is gone, and what its runs made is not")
            return True
        run = state.situation().status.run
        if live or run is None or run.retry_at is not None:
            return False
        if state.deleting:  # it waits for a person where its last attempt failed
            tears_down = run.operation is TaskOperation.TEARDOWN
            return (
                tears_down
                and run.state is TaskState.DONE
                and run.outcome is not TaskOutcome.SUCCEEDED
            )
        return run.inputs_version == str(state.version) and run.state is TaskState.DONE


def _of_run(state: Task, at: int, run: Seen) -> Iterable[Step[Task]]:
    def after(new: Seen, *, made: bool) -> Task:
        runs = (*state.runs[:at], new, *state.runs[at + 1 :])
        return replace(state, runs=runs, made=made)

    if run.state is RunState.CREATED:
        begun = replace(run, state=RunState.RUNNING)
        made = state.made or not run.tears_down
        yield Step(f"{at} begins", after(begun, made=made), drives=True)
    elif run.state is RunState.RUNNING:
        ended = replace(run, state=RunState.SUCCEEDED)
        made = state.made and not run.tears_down
        yield Step(f"{at} succeeds", after(ended, made=made), drives=True)
        failed = replace(run, state=RunState.FAILED)
        yield Step(f"{at} fails", after(failed, made=state.made))


def _act(state: Task, decision: Decision, provider: Provider, *, start: bool) -> Task:
    """Return what is left after the effects of a decision, but for the last one without `start`."""
    before = state.situation().status.run
    for run_id in decision.cancel:
        if (run := provider.runs.get(run_id)) is not None and not run.state.finished:
            provider.runs[run_id] = replace(run, state=RunState.CANCELLED)
    for run_id in decision.delete:
        provider.runs.pop(run_id, None)
    if start and decision.start and before is not None:
        provider.start(decision.status)
    return replace(state, runs=_runs(provider), gone=start and decision.let_go)


def _runs(provider: Provider) -> tuple[Seen, ...]:
    return tuple(provider.runs.values())


def _later(state: Task) -> Task:
    status = TaskStatus.model_validate_json(state.status)
    made = TaskStatus.model_validate(_older(status.model_dump()))
    runs = tuple(replace(each, created_at=_earlier(each.created_at)) for each in state.runs)
    return replace(state, status=_json(made), runs=runs)


def _older(value: object) -> object:
    if isinstance(value, dict):
        return {key: _older(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_older(each) for each in value]
    return _earlier(value) if isinstance(value, datetime) else value


def _earlier(time: datetime) -> datetime:
    return max(time - _STEP, _OLDEST)


def _json(status: TaskStatus) -> str:
    """Return a status as JSON, without what is only for people."""
    plain = status.model_copy(update={"task_conditions": [], "conditions": []})
    return plain.model_dump_json(by_alias=True, exclude_none=True)


def _result(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine returns that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        found: T = ended.value
        return found
    raise RuntimeError("it waits for something")


def task_world(*, small: bool = False) -> TaskScope:
    """Return the world of a task with one version of its inputs, or two."""
    found = [
        TaskDefinition(
            name="t",
            timeout=60.0,
            retries=Retries(limit=1, base=60.0, cap=60.0),
            supersede=supersede,
            teardown=True,
            history=1,
        )
        for supersede in Supersede
    ]
    return TaskScope(found[:1] if small else found, 1 if small else 2, vanishing=not small)

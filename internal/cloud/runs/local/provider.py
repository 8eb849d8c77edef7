"""Runs as processes of this machine."""

import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import internal
from ctrlruntime.clock import wall
from internal.cloud.runs import wire
from internal.cloud.runs.files import INPUT, RESULT, SEAL_KEY, SECRETS, SecretReader, files_of
from internal.cloud.runs.local import supervisor
from internal.cloud.runs.local.folder import WORK, EndWatch, Outcome, Plan, RunFolder, is_name
from internal.cloud.runs.provider import Run, RunName, RunOwner, RunRefused, RunRequest, RunState
from internal.cloud.runs.report import BadReport, Ending, decode_report, ending_of, kept_by
from internal.cloud.runs.sealing import CannotOpen, open_sealed

__all__ = ["LocalOptions", "LocalRuns"]

COMMAND: Final = (sys.executable, "-m", "manager", "task", "run")
INHERITED: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "PYTHONPATH", "SSL_CERT_FILE")
_STALE: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalOptions:
    """How local runs are run. Times in seconds."""

    folder: Path
    """Where their folders are; only for the user of the manager."""
    command: Sequence[str] = COMMAND
    """The program, to which the name of the task is added."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables for every task, besides PATH and the like."""
    environment_file: Path | None = None
    """File with lines NAME=VALUE for every task, such as credentials. Read when a run starts, so that
    no value is ever in the folder of a run."""
    grace: float = 90.0
    """How long a cancelled run may take to end."""


class LocalRuns:
    """Each run is a process with a folder of its own, and outlives the manager that started it.

    A run is adopted by its folder: another manager, or the same after a crash, reads there how it
    went, and reads from a lock that the run's own processes hold whether it is still going on.
    """

    def __init__(
        self,
        options: LocalOptions,
        secrets: SecretReader | None = None,
        clock: Callable[[], float] = wall,
    ) -> None:
        """Without `secrets` no task gets any."""
        self._options = options
        self._secrets = secrets
        self._now = clock
        self._root = options.folder.absolute()
        self._changed: Callable[[RunOwner], None] | None = None
        self._watches: dict[Path, EndWatch] = {}
        _remove_leftovers(self._root, clock())

    async def start(self, request: RunRequest) -> Run:
        owner = request.input.owner
        if not is_name(owner.uid) or not is_name(request.run_id):
            raise RunRefused(
                f"run {request.run_id!r} of {owner.uid!r}: these names are no names of folders"
            )
        folder = self._folder(owner, request.run_id)
        if not folder.path.exists():
            files = await files_of(request, self._secrets)
            await asyncio.to_thread(folder.make, self._plan(request, folder), files)
        await asyncio.to_thread(folder.start)
        run = await self.get(owner, request.run_id)
        if run is None:
            raise ConnectionAbortedError(
                f"run {request.run_id} has not begun: it was deleted meanwhile, or another process "
                f"holds {folder.path}"
            )
        return run

    async def get(self, owner: RunOwner, run_id: RunName) -> Run | None:
        """None also for a folder whose task has not begun: whoever wants the run starts it, since the process that made the folder may be gone."""
        run = await self._find(owner, run_id)
        return None if run is None or run.state is RunState.CREATED else run

    async def list(self, owner: RunOwner) -> Sequence[Run]:
        home = self._root / owner.uid
        names = sorted(path.name for path in home.iterdir()) if home.is_dir() else []
        found = [await self._find(owner, name) for name in names]
        return sorted(
            (_as_listed(run) for run in found if run is not None and run.created_at is not None),
            key=lambda run: (run.created_at, run.run_id),
        )

    async def cancel(self, owner: RunOwner, run_id: RunName) -> None:
        await asyncio.to_thread(self._folder(owner, run_id).cancel)

    async def delete(self, owner: RunOwner, run_id: RunName) -> None:
        """Return once it is gone."""
        folder = self._folder(owner, run_id)
        if folder.plan() is not None:
            await asyncio.to_thread(folder.cancel)
            await _over(folder, self._options.grace + 10)
        await asyncio.to_thread(_clear, folder)
        self._forget(folder)

    def subscribe(self, changed: Callable[[RunOwner], None]) -> bool:
        """From within the loop. Runs that an earlier manager started are reported too."""
        self._changed = changed
        for path in self._root.glob("[!.]*/*"):
            folder = RunFolder(path)
            plan = folder.plan()
            if plan is not None and folder.has_started() and folder.outcome() is None:
                self._watch(folder, plan.owner)
        return True

    async def aclose(self) -> None:
        for watch in self._watches.values():
            watch.close()
        self._watches.clear()

    def _folder(self, owner: RunOwner, run_id: RunName) -> RunFolder:
        return RunFolder(self._root / owner.uid / run_id)

    async def _find(self, owner: RunOwner, run_id: RunName) -> Run | None:
        folder = self._folder(owner, run_id)
        run = await asyncio.to_thread(_look, folder)
        if run is not None and run.state is RunState.RUNNING:
            self._watch(folder, owner)
        return run

    def _plan(self, request: RunRequest, folder: RunFolder) -> Plan:
        path = folder.path
        files = {
            wire.INPUT: INPUT,
            wire.SECRETS: SECRETS,
            wire.RESULT: RESULT,
            wire.SEAL_KEY: SEAL_KEY,
            wire.FOLDER: WORK,
        }
        environment = {name: os.environ[name] for name in INHERITED if name in os.environ}
        environment["PYTHONPATH"] = _python_path(environment.get("PYTHONPATH", ""))
        environment |= dict(self._options.environment)
        file = self._options.environment_file
        if file is not None:
            environment[wire.PLAIN] = ",".join(sorted(environment))
        environment |= {name: str(path / place) for name, place in files.items()}
        environment[supervisor.MARK] = str(path)
        return Plan(
            run_id=request.run_id,
            owner=request.input.owner,
            created_at=self._now(),
            timeout=request.timeout,
            grace=self._options.grace,
            command=[*self._options.command, request.input.task],
            environment=environment,
            workdir=str(path / WORK),
            secrets=str(path / SECRETS),
            environment_file="" if file is None else str(file.absolute()),
        )

    def _watch(self, folder: RunFolder, owner: RunOwner) -> None:
        if self._changed is None or folder.path in self._watches:
            return
        changed = self._changed

        def over() -> None:
            self._forget(folder)
            changed(owner)

        self._watches[folder.path] = EndWatch(folder, over)

    def _forget(self, folder: RunFolder) -> None:
        watch = self._watches.pop(folder.path, None)
        if watch is not None:
            watch.close()


def _look(folder: RunFolder) -> Run | None:
    plan = folder.plan()
    if plan is None:
        supervisor.end_all(
            str(folder.path)
        )  # a folder that was taken away leaves no process behind
        return None
    alive = folder.is_alive()  # first: what ended meanwhile has left its outcome by then
    outcome = folder.outcome()
    if outcome is None and not alive and folder.has_started():
        folder.close_lost()
        outcome = folder.outcome()
    started = folder.started_at()
    run = Run(
        run_id=plan.run_id,
        state=RunState.CREATED if started is None else RunState.RUNNING,
        created_at=_moment(plan.created_at),
        started_at=None if started is None else _moment(started),
        logs=str(folder.path / supervisor.LOG),
    )
    if outcome is None:
        return replace(run, message=_progress(folder), outputs=kept_by(folder.last_words()))
    ending = _ending(folder, plan, outcome)
    return replace(
        run,
        finished_at=_moment(outcome.finished_at),
        state=ending.state,
        message=ending.message,
        retryable=ending.retryable,
        outputs=ending.outputs or kept_by(folder.last_words()),
        secret_outputs=ending.secret_outputs,
        record=ending.record,
    )


def _as_listed(run: Run) -> Run:
    """Return whether the folder's task has begun: one that has not blocks no other run, and is removed."""
    if run.state is not RunState.CREATED:
        return run
    return replace(
        run, state=RunState.FAILED, finished_at=run.created_at, message="it has not begun"
    )


def _ending(folder: RunFolder, plan: Plan, outcome: Outcome) -> Ending:
    def unseal(text: str) -> dict[str, str]:
        try:
            return open_sealed(text, folder.seal_key(), plan.run_id)
        except FileNotFoundError as error:
            raise CannotOpen("the key of the run's secret outputs is gone") from error

    if outcome.reason == "Lost":
        message = f"the run was killed from outside{_at(folder)}; another attempt may go through"
        return Ending(state=RunState.FAILED, message=message)
    if outcome.code is None:
        state = RunState.CANCELLED if outcome.reason == "Cancelled" else RunState.FAILED
        return Ending(state=state, message=outcome.message or "cancelled before it began")
    code = outcome.code if outcome.code >= 0 else 128 - outcome.code
    ending = ending_of(code, folder.last_words(), unseal)
    if outcome.reason == "Ended" or ending.state is RunState.SUCCEEDED:
        return ending
    if outcome.reason == "TimedOut":
        message = f"took longer than {plan.timeout:g} s: {ending.message}"
        return Ending(state=RunState.TIMED_OUT, message=message)
    return Ending(state=RunState.CANCELLED, message=ending.message)


def _at(folder: RunFolder) -> str:
    doing = _progress(folder)
    return f" while it was at: {doing}" if doing else ""


def _progress(folder: RunFolder) -> str:
    try:
        report = decode_report(folder.last_words())
    except BadReport:  # not there yet, or being written just now
        return ""
    return report.message if report.state is RunState.RUNNING else ""


async def _over(folder: RunFolder, timeout: float) -> None:
    over = asyncio.Event()
    watch = EndWatch(folder, over.set)
    try:
        async with asyncio.timeout(timeout):
            await over.wait()
    except TimeoutError:
        message = f"the run in {folder.path} has not ended {timeout:g} s after it was requested to"
        raise TimeoutError(message) from None
    finally:
        watch.close()


def _clear(folder: RunFolder) -> None:
    supervisor.end_all(str(folder.path))
    folder.remove()


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _python_path(given: str) -> str:
    """With the folder of our own packages: the run is in a folder of its own."""
    own = str(Path(internal.__path__[0]).parent)
    return os.pathsep.join([own, given] if given else [own])


def _remove_leftovers(root: Path, now: float) -> None:
    for path in root.glob(".*-*"):
        with contextlib.suppress(FileNotFoundError):
            if path.name.startswith(".deleted-") or path.stat().st_mtime < now - _STALE:
                shutil.rmtree(path, ignore_errors=True)

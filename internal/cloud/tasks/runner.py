"""Runs one task in a process of its own: input and secrets from files, the result into a file."""

import asyncio
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import TextIO, TypeAlias, cast

import structlog

from apis.references import SecretKeyRef
from internal.cloud.environment_names import environment_problem, parse_prefixes
from internal.cloud.runs import RunInput, RunState, wire
from internal.cloud.runs.report import LIMIT, Report, ReportTooLong, encode_report
from internal.cloud.runs.sealing import seal
from internal.cloud.runs.wire import BadInput, decode_input
from internal.cloud.tasks.redaction import RedactedStream, Redaction, secret_values
from internal.cloud.tasks.registry import Registry, UnknownTask, make_task
from internal.cloud.tasks.task import Task, TaskContext, TaskError, TaskRejected, TaskResult

__all__ = ["ExitCode", "LoggerTo", "Workplace", "run_task"]

_SHORTEST_LIMIT = 512
LoggerTo: TypeAlias = Callable[[TextIO], structlog.stdlib.BoundLogger]
"""Makes a logger that writes to a stream, one line per message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """See :mod:`internal.cloud.runs.wire`."""

    input: Path
    result: Path
    secrets: Path | None = None
    seal_key: Path | None = None
    folder: Path | None = None
    environment: Sequence[Path] = ()
    limit: int = LIMIT

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Workplace":
        """Raise BadInput for what is missing."""

        def path(name: str) -> Path | None:
            return Path(environment[name]) if environment.get(name) else None

        given, result = path(wire.INPUT), path(wire.RESULT)
        if given is None or result is None:
            raise BadInput(
                f"a task is run by the manager, which names its input in ${wire.INPUT} and "
                f"the file for its result in ${wire.RESULT}; to try one by hand, set both"
            )
        return cls(
            input=given,
            result=result,
            secrets=path(wire.SECRETS),
            seal_key=path(wire.SEAL_KEY),
            folder=path(wire.FOLDER),
            environment=[
                *map(Path, filter(None, environment.get(wire.ENVIRONMENT, "").split(",")))
            ],
            limit=_limit(environment.get(wire.LIMIT, "")),
        )

    def read_input(self, task: str) -> RunInput:
        """Return the input, which has to be for that task. Raises BadInput."""
        try:
            given = decode_input(self.input.read_bytes())
        except OSError as error:
            raise BadInput(f"the input of the run cannot be read: {error}") from error
        if given.task != task:
            raise BadInput(f"the input is for the task {given.task!r}, and not for {task!r}")
        return given

    def read_secret(self, ref: SecretKeyRef) -> str:
        """Raise TaskRejected where there is none, or no text."""
        if "/" in ref.name + ref.key or ".." in (ref.name, ref.key):
            raise TaskRejected(f"Secret {ref.name!r}, key {ref.key!r}: there are no such names")
        if self.secrets is None:
            raise TaskRejected(_not_given(ref))
        try:
            return (self.secrets / ref.name / ref.key).read_bytes().decode()
        except UnicodeDecodeError:
            raise TaskRejected(f"key {ref.key!r} of Secret {ref.name!r} is not UTF-8") from None
        except OSError:
            raise TaskRejected(_not_given(ref)) from None

    def read_secret_keys(self, name: str) -> dict[str, str]:
        """Return the values of a Secret by key. Raises TaskRejected where there are none, or no text."""
        folder = None if self.secrets is None or "/" in name else self.secrets / name
        if folder is None or name in ("", ".", "..") or not folder.is_dir():
            raise TaskRejected(
                f"the task was not given the Secret {name!r}: make it in the object's namespace, with"
                " at least one key, and ask for a retry"
            )
        keys = sorted(path.name for path in folder.iterdir() if not path.name.startswith(".."))
        return {key: self.read_secret(SecretKeyRef(name=name, key=key)) for key in keys}

    def read_variables(self, allowed: Sequence[str]) -> dict[str, str]:
        """Return the variables that Secrets set for every task. Raises TaskRejected for names that they may not set."""
        found: dict[str, str] = {}
        places: dict[str, str] = {}
        for folder in self.environment:
            values = replace(self, secrets=folder.parent).read_secret_keys(folder.name)
            found |= values
            places |= {key: f"key {key!r} of Secret {folder.name!r}" for key in values}
        problem = environment_problem(places, allowed)
        if problem:
            raise TaskRejected(f"--job-environment-from: {problem}")
        return found

    def read_seal_key(self) -> str:
        """Raise LookupError if the run has none."""
        if self.seal_key is None:
            raise LookupError(f"there is no key for secret outputs (${wire.SEAL_KEY})")
        return self.seal_key.read_text().strip()

    def write(self, report: Report) -> None:
        """In place: a container's file is a mount of its own, and cannot be replaced.

        Raises ReportTooLong.
        """
        self.result.write_bytes(encode_report(report, self.limit))


def _limit(text: str) -> int:
    if not text:
        return LIMIT
    if not text.isdecimal() or int(text) < _SHORTEST_LIMIT:
        raise BadInput(
            f"${wire.LIMIT} is {text!r}; it is a number of bytes, {_SHORTEST_LIMIT} or more"
        )
    return int(text)


def _not_given(ref: SecretKeyRef) -> str:
    return (
        f"the task was not given key {ref.key!r} of Secret {ref.name!r}: make the Secret in the "
        "object's namespace, with this key, and ask for a retry"
    )


class ExitCode(IntEnum):
    """What the process ends with."""

    SUCCEEDED = 0
    FAILED = 1
    """Also when cancelled: the report tells."""
    REJECTED = 2
    """Another attempt with the same inputs is of no use."""


async def run_task(
    name: str,
    environment: MutableMapping[str, str],
    registry: Registry,
    logger_to: LoggerTo,
    stream: TextIO = sys.stderr,
) -> ExitCode:
    """Return the whole life of a run. SIGTERM and SIGINT cancel the task.

    Variables that Secrets set for every task are added to `environment`.

    Bad input is a rejected run whose report describes the error; raises BadInput only where not even
    the file for the report is known.
    """
    place = Workplace.of(environment)
    execution = _Execution(place, environment, logger_to, stream)
    try:
        given = place.read_input(name)
        execution.add_variables(environment)
        task = make_task(name, registry)
    except (BadInput, UnknownTask, TaskRejected) as error:
        return execution.end(ExitCode.REJECTED, Report(state=RunState.FAILED, message=str(error)))
    return await execution.carry_out(task, given)


@dataclass(slots=True)
class _Stop:
    """Whether the run was cancelled."""

    told: bool = False


class _Execution:
    def __init__(
        self,
        place: Workplace,
        environment: Mapping[str, str],
        logger_to: LoggerTo,
        stream: TextIO,
    ) -> None:
        self._place = place
        self._redaction = Redaction()
        for value in secret_values(environment):
            self._redaction.add(value)
        self._log = logger_to(cast("TextIO", RedactedStream(stream, self._redaction)))
        self._doing = ""
        self._kept: dict[str, str] = {}

    def add_variables(self, environment: MutableMapping[str, str]) -> None:
        """Add what Secrets set for every task, except for names that the provider set. Raises TaskRejected."""
        found = self._place.read_variables(parse_prefixes(environment.get(wire.ALLOWED, "")))
        for value in found.values():
            self._redaction.add(value)
        plain = environment.get(wire.PLAIN, "").split(",")
        environment.update({name: value for name, value in found.items() if name not in plain})

    async def carry_out(self, task: Task, given: RunInput) -> ExitCode:
        self._log = self._log.bind(
            task=given.task,
            run_id=given.run_id,
            inputs_version=given.inputs_version,
            instance=given.instance,
        )
        self._progress("started")
        folder = tempfile.TemporaryDirectory(
            prefix="task-", dir=self._place.folder, ignore_cleanup_errors=True
        )
        with folder as own:
            context = TaskContext(
                input=given,
                secret=self._secret,
                secret_keys=self._secret_keys,
                folder=Path(own),
                log=self._log,
                progress=self._progress,
                keep=self._keep,
                config_map=partial(_config_map, given),
            )
            running = asyncio.ensure_future(task.run(context))
            with _cancelled_by_signals(running) as stop:
                await asyncio.wait({running})
                return self._judge(running, given, stop)

    def _judge(self, ended: "asyncio.Future[TaskResult]", given: RunInput, stop: _Stop) -> ExitCode:
        error = None if ended.cancelled() else ended.exception()
        if not ended.cancelled() and error is None:
            return self._succeed(ended.result(), given)
        if error is not None and not isinstance(error, TaskError):
            self._log.error("the task met an error that it does not know", exc_info=error)
        words = "" if error is None else _words_of(error)
        if stop.told:
            message = f"cancelled; {words}" if words else "cancelled"
            cancelled = Report(state=RunState.CANCELLED, message=message, outputs=dict(self._kept))
            return self.end(ExitCode.FAILED, cancelled)
        code = ExitCode.REJECTED if isinstance(error, TaskRejected) else ExitCode.FAILED
        message = words or "the task gave itself up"
        outputs = self._kept | dict(error.outputs if isinstance(error, TaskError) else {})
        return self.end(code, Report(state=RunState.FAILED, message=message, outputs=outputs))

    def _succeed(self, result: TaskResult, given: RunInput) -> ExitCode:
        try:
            report = self._report_of(result, given)
            encode_report(report, self._place.limit)
        except ReportTooLong as error:
            message = f"the task is done, but {error}"
        except (TypeError, LookupError, ValueError) as error:
            message = f"the task is done, but its outputs cannot be kept: {error}"
        else:
            return self.end(ExitCode.SUCCEEDED, report)
        return self.end(ExitCode.REJECTED, Report(state=RunState.FAILED, message=message))

    def _report_of(self, result: TaskResult, given: RunInput) -> Report:
        for name, value in [*result.outputs.items(), *result.secret_outputs.items()]:
            if not isinstance(value, str):
                raise TypeError(f"output {name!r} is no text but {type(value).__name__}")
        for value in result.secret_outputs.values():
            self._redaction.add(value)
        sealed = ""
        if result.secret_outputs:
            sealed = seal(result.secret_outputs, self._place.read_seal_key(), given.run_id)
        return Report(
            message=result.message,
            outputs=dict(result.outputs),
            sealed=sealed,
            record=dict(result.record),
        )

    def end(self, code: ExitCode, report: Report) -> ExitCode:
        """Leave the report behind."""
        said = self._redaction.text(report.message)
        self._log.info("the task ended", state=str(report.state), exit_code=int(code), message=said)
        retryable = code is not ExitCode.REJECTED
        self._place.write(replace(report, message=said, retryable=retryable))
        return code

    def _progress(self, doing: str) -> None:
        said = self._redaction.text(doing)
        self._log.info("progress", doing=said)
        self._doing = said
        self._write_progress()

    def _keep(self, name: str, value: str) -> None:
        before = dict(self._kept)
        self._kept.pop(name, None)
        if value:
            self._kept[name] = value
        if self._kept != before:
            self._write_progress()

    def _write_progress(self) -> None:
        report = Report(state=RunState.RUNNING, message=self._doing, outputs=dict(self._kept))
        self._place.write(report)

    def _secret(self, ref: SecretKeyRef) -> str:
        value = self._place.read_secret(ref)
        self._redaction.add(value)
        return value

    def _secret_keys(self, name: str) -> Mapping[str, str]:
        values = self._place.read_secret_keys(name)
        for value in values.values():
            self._redaction.add(value)
        return values


def _config_map(given: RunInput, name: str) -> Mapping[str, str]:
    """Raise TaskRejected for one that was not there when the run began."""
    if name not in given.config_maps:
        raise TaskRejected(
            f"the ConfigMap {name!r} was not there when the run began: make it in the object's"
            " namespace, and ask for a retry"
        )
    return given.config_maps[name]


@contextmanager
def _cancelled_by_signals(running: "asyncio.Future[TaskResult]") -> Iterator[_Stop]:
    loop = asyncio.get_running_loop()
    stop = _Stop()

    def cancel() -> None:
        stop.told = True
        running.cancel()

    numbers = (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        loop.add_signal_handler(number, cancel)
    try:
        yield stop
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def _words_of(error: BaseException) -> str:
    if isinstance(error, TaskError) and str(error):
        return str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__

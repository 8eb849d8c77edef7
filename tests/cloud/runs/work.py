"""A task that does what its spec says; :mod:`tests.cloud.runs.program` runs it."""

# ruff: noqa: ASYNC110, ASYNC220, ASYNC230, ASYNC240 - a process with nothing else to do

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, TextIO

import structlog

from apis.references import SecretKeyRef
from internal.cloud.tasks import TaskContext, TaskError, TaskRejected, TaskResult
from internal.cloud.tasks.runner import run_task


class Work:
    """`spec` is a list of steps, each a mapping of one verb."""

    name = "work"

    def __init__(self) -> None:
        self._result: dict[str, Any] = {}

    async def run(self, context: TaskContext) -> TaskResult:
        for step in context.input.spec["steps"]:
            for verb, given in step.items():
                await getattr(self, verb)(context, given)
        return TaskResult(**self._result)

    async def mark(self, context: TaskContext, file: str) -> None:
        """Add a line with the process id: how often the run was started, and by whom it is run."""
        with Path(file).open("a") as marks:
            marks.write(f"{context.input.run_id} {os.getpid()}\n")

    async def read(self, context: TaskContext, name: str) -> None:
        """Hand back the texts of a ConfigMap."""
        self._result["outputs"] = dict(context.config_map(name))

    async def wait_for(self, _context: TaskContext, file: str) -> None:
        while not Path(file).exists():
            await asyncio.sleep(0.02)

    async def stop_at_leisure(self, _context: TaskContext, files: dict[str, str]) -> None:
        """Cancelled, it says so in one file and goes on until there is another."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            Path(files["says"]).touch()
            while not Path(files["until"]).exists():
                await asyncio.sleep(0.02)
            raise

    async def heed_nothing(self, _context: TaskContext, file: str) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        Path(file).touch()
        await asyncio.Event().wait()

    async def leave_behind(self, _context: TaskContext, given: dict[str, Any]) -> None:
        """A process that nobody awaits; a daemon has a session of its own."""
        child = subprocess.Popen(
            ["/bin/sleep", "600"], start_new_session=given.get("daemon", False)
        )
        Path(given["file"]).write_text(f"{child.pid}")

    async def progress(self, context: TaskContext, text: str) -> None:
        context.progress(text)

    async def keep(self, context: TaskContext, kept: dict[str, str]) -> None:
        """Have values in its reports unless it succeeds."""
        for name, value in kept.items():
            context.keep(name, value)

    async def result(self, _context: TaskContext, result: dict[str, Any]) -> None:
        self._result = result

    async def echo(self, context: TaskContext, fields: list[str]) -> None:
        outputs = {field: str(getattr(context.input, field)) for field in fields}
        self._result = {"outputs": outputs}

    async def reveal(self, context: TaskContext, ref: dict[str, str]) -> None:
        value = context.secret(SecretKeyRef.model_validate(ref))
        context.log.info("revealed", value=value)
        self._result = {"secret_outputs": {"seen": value}, "message": f"it is {value}"}

    async def write(self, context: TaskContext, text: str) -> None:
        (context.folder / "note").write_text(text)
        self._result = {"outputs": {"note": (context.folder / "note").read_text()}}

    async def fail(self, _context: TaskContext, message: str) -> None:
        raise TaskError(message)

    async def reject(self, _context: TaskContext, message: str) -> None:
        raise TaskRejected(message)

    async def crash(self, _context: TaskContext, message: str) -> None:
        raise RuntimeError(message)

    async def give_up(self, _context: TaskContext, _given: str) -> None:
        raise asyncio.CancelledError

    async def exit(self, _context: TaskContext, end: dict[str, Any]) -> None:
        """At once, with these last words."""
        Path(os.environ["TASK_RESULT"]).write_text(end.get("words", ""))
        os._exit(end["code"])


def logger_to(stream: TextIO) -> structlog.stdlib.BoundLogger:
    """A plain one: the manager's takes half a second to import."""
    logger: structlog.stdlib.BoundLogger = structlog.wrap_logger(
        structlog.PrintLogger(stream),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(20),
    )
    return logger


def main(name: str) -> None:
    """Run it under that name, and end the process."""
    sys.exit(asyncio.run(run_task(name, os.environ, {"work": Work}, logger_to)))

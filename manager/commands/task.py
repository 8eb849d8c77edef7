"""`manager task`: what runs in the processes and containers of runs."""

import os
import sys
from typing import TYPE_CHECKING, TextIO, cast

import click
import uvloop

from ctrlruntime.fast_imports import fast_imports
from manager.commands.output import echo

if TYPE_CHECKING:
    from structlog.stdlib import BoundLogger


@click.group()
def task() -> None:
    """Tasks, one by one. The manager starts them; people may, to see what one does."""


@task.command("run")
@click.argument("name")
def run_named(name: str) -> None:
    """Carry out the task NAME.

    Reads its input, JSON, from the file $TASK_INPUT and the Secrets it was given from
    $TASK_SECRETS/<secret>/<key>; writes its result, JSON, to the file $TASK_RESULT; logs to
    standard error. Ends with 0 for success, 1 for a failure that may go away (also when it was
    stopped by SIGTERM), 2 for one that will not.
    """
    with fast_imports():
        from internal.cloud.runs.wire import BadInput
        from internal.cloud.tasks.registry import TASKS
        from internal.cloud.tasks.runner import ExitCode, run_task

    try:
        code = uvloop.run(run_task(name, os.environ, TASKS, _logger_to))
    except BadInput as error:
        echo(f"Error: {error}", err=True)
        code = ExitCode.REJECTED
    sys.exit(code)


def _logger_to(stream: TextIO) -> "BoundLogger":
    from ctrlruntime.manager.logs import make_logger

    return cast("BoundLogger", make_logger(stream=stream))

"""Flags of `manager run` for the cloud system."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from manager.controllers.cloud_options import CloudOptions, RunsOptions
from manager.controllers.health_check_options import HealthCheckOptions
from manager.flags.groups import LateHelp, described_options, take_described, with_options

if TYPE_CHECKING:
    from internal.cloud.tasks.task import TaskDefinition

Command = Callable[..., Any]
Option = Callable[[Command], Command]

DEFAULTS = CloudOptions()


def cloud_options(command: Command) -> Command:
    """How many instances and runs at once, and where runs execute."""
    return with_options(
        command,
        *described_options(CloudOptions),
        *_task_options(),
        *_file_options(),
        *_provider_options(),
    )


def _task_options() -> tuple[Option, ...]:
    """Return what is given for each task."""
    return (
        _per_task(
            "--task-limit",
            "limits",
            "TASK=N",
            _numbers,
            lambda: (
                f"Runs of a task at once; 0 is without limit. Default: {_defaults('limit')}. Repeatable."
            ),
        ),
        _per_task(
            "--task-starts-per-minute",
            "starts_per_minute",
            "TASK=N",
            _numbers,
            lambda: (
                "Starts of a task in any 60 seconds; 0 is without limit. "
                f"Default: {_defaults('starts_per_minute')}. Repeatable."
            ),
        ),
        _per_task(
            "--task-timeout",
            "timeouts",
            "TASK=SECONDS",
            _seconds,
            lambda: (
                f"Seconds that a run of a task may take. Default: {_default_timeouts()}. Repeatable."
            ),
        ),
        click.option(
            "--run-interrupt-grace",
            type=click.FloatRange(min=0),
            default=DEFAULTS.pace.interrupt,
            help="Seconds that a run under way may go on once newer inputs, a deletion or a retry came, "
            "before it is cancelled.",
        ),
        _per_task(
            "--task-attempts",
            "attempts",
            "TASK=N",
            _numbers,
            lambda: (
                "Attempts for one set of inputs, the first included; 0 is without limit. Repeatable."
            ),
        ),
    )


def _file_options() -> tuple[Option, ...]:
    """Return the files that are read again when they change."""
    return (
        click.option(
            "--task-settings-file",
            "settings_file",
            type=click.Path(path_type=Path, dir_okay=False),
            callback=lambda _context, _option, given: _checked_settings(given),
            help="YAML with limits, timeouts and retries by task, in place of the options above. Read "
            "again on SIGHUP and when it changes.",
        ),
        click.option(
            "--terraform-types-file",
            "terraform_types_file",
            type=click.Path(path_type=Path, dir_okay=False),
            callback=lambda _context, _option, given: _checked_types(given),
            help="YAML with types of infrastructure that Instances name: Terraform module, organization and "
            "workspace by type. Read again when it changes.",
        ),
    )


def _per_task(
    flag: str,
    name: str,
    metavar: str,
    parse: Callable[[tuple[str, ...]], object],
    text: Callable[[], str],
) -> Option:
    """Return an option with a value for each of several tasks."""
    return click.option(
        flag,
        name,
        multiple=True,
        metavar=metavar,
        callback=lambda _context, _option, given: parse(given),
        cls=LateHelp,
        late_help=text,
    )


def _provider_options() -> tuple[Option, ...]:
    """Return where runs execute, and what each place needs."""
    return (
        click.option(
            "--run-provider",
            type=click.Choice(["local", "jobs", "cloudrun"]),
            help="Where tasks run: processes of this machine, Jobs, or Cloud Run. Default: jobs in a cluster, "
            "else local.",
        ),
        click.option(
            "--runs-folder",
            type=click.Path(path_type=Path, file_okay=False),
            default=DEFAULTS.runs.folder,
            help="local: where the folders of runs are; runs are found there after a restart.",
        ),
        click.option(
            "--task-environment",
            "environment",
            multiple=True,
            metavar="NAME=VALUE",
            callback=lambda _context, _option, given: _variables(given),
            help="Variable for every task; not for secrets. Repeatable.",
        ),
        click.option(
            "--allow-environment",
            "allowed_environment",
            multiple=True,
            metavar="PREFIX",
            callback=lambda _context, _option, given: _prefixes(given),
            help="Let Secrets (spec.infrastructure.environmentFrom, --job-environment-from) set variables whose "
            "names begin so, besides TF_VAR_, AWS_ and the like. Repeatable.",
        ),
        click.option(
            "--task-environment-file",
            "environment_file",
            type=click.Path(path_type=Path, dir_okay=False, exists=True),
            callback=lambda _context, _option, given: _checked_file(given),
            help="local: file with lines NAME=VALUE for every task, such as credentials; read when a run "
            "starts.",
        ),
        *described_options(RunsOptions),
    )


TASKS = (
    *("limits", "starts_per_minute", "timeouts", "attempts"),
    *("settings_file", "terraform_types_file"),
)
"""Fields of CloudOptions that the flags above set."""
RUNS = (
    *("run_provider", "runs_folder"),
    *("environment", "allowed_environment", "environment_file"),
)
"""What the flags above set of RunsOptions."""


def take_cloud_options(
    given: dict[str, Any],
    *,
    in_cluster: bool,
    health_checks: HealthCheckOptions = DEFAULTS.health_checks,
) -> CloudOptions:
    """Take the flags of the cloud system out of `given`."""
    own = take_described(CloudOptions, given, *TASKS)
    runs = take_described(RunsOptions, given, *RUNS)
    runs["provider"] = runs.pop("run_provider") or ("jobs" if in_cluster else "local")
    runs["folder"] = runs.pop("runs_folder")
    _check_provider(runs)
    pace = replace(DEFAULTS.pace, interrupt=given.pop("run_interrupt_grace"))
    return CloudOptions(**own, pace=pace, runs=RunsOptions(**runs), health_checks=health_checks)


def _check_provider(runs: Mapping[str, Any]) -> None:
    """Raise BadParameter for a source of credentials that the provider does not have."""
    provider = runs["provider"]
    if runs["environment_file"] is not None and provider != "local":
        raise click.BadParameter(
            f"--task-environment-file is for --run-provider local, and runs are {provider}: keep the"
            " variables in a Secret, with --job-environment-from or spec.infrastructure.environmentFrom"
        )
    if runs["job_environment_from"] and provider != "jobs":
        raise click.BadParameter(
            f"--job-environment-from is for --run-provider jobs, and runs are {provider}: use"
            " --task-environment-file or spec.infrastructure.environmentFrom"
        )


def _definitions() -> dict[str, "TaskDefinition"]:
    """Return the tasks as they are defined: imports the system, so only for what names a task, and for help."""
    from internal.cloud.subresources import SUBRESOURCES

    return {item.definition.name: item.definition for item in SUBRESOURCES}


def _defaults(field: str) -> str:
    return ", ".join(
        f"{name}={getattr(given.concurrency, field)}" for name, given in _definitions().items()
    )


def _default_timeouts() -> str:
    return ", ".join(f"{name}={given.timeout:g}" for name, given in _definitions().items())


def _seconds(given: tuple[str, ...]) -> Mapping[str, float]:
    found = _numbers(given)
    for task, seconds in found.items():
        if seconds < 1:
            raise click.BadParameter(f"{task}={seconds}: a run takes 1 second at least")
    return {task: float(seconds) for task, seconds in found.items()}


def _variables(given: tuple[str, ...]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not separator or not name.isidentifier() or name.startswith("TASK_"):
            raise click.BadParameter(
                f"{name!r}: give NAME=VALUE, such as HTTPS_PROXY=http://proxy:3128"
            )
        found[name] = value
    return found


def _prefixes(given: tuple[str, ...]) -> tuple[str, ...]:
    from internal.cloud.environment_names import option_problem  # what only this option needs

    for problem in filter(None, map(option_problem, given)):
        raise click.BadParameter(problem)
    return given


def _checked_settings(given: Path | None) -> Path | None:
    """Raise BadParameter for a file that cannot be used: at the start there is nothing to keep."""
    if given is not None:
        from internal.cloud.tasks.settings import LiveDefinitions, SettingsError
        from manager.controllers.task_settings import read_settings

        try:
            read_settings(given, LiveDefinitions(_definitions().values()))
        except SettingsError as error:
            raise click.BadParameter(f"{given}: {error}") from error
    return given


def _checked_types(given: Path | None) -> Path | None:
    """Raise BadParameter for a file that cannot be used: at the start there is nothing to keep."""
    if given is not None:
        from internal.cloud.tasks.settings import SettingsError
        from manager.controllers.terraform_types import read_types

        try:
            read_types(given)
        except SettingsError as error:
            raise click.BadParameter(f"{given}: {error}") from error
    return given


def _checked_file(given: Path | None) -> Path | None:
    if given is None:
        return None
    from internal.cloud.runs.local.supervisor import read_environment

    try:
        read_environment(given)
    except (OSError, ValueError) as error:
        raise click.BadParameter(str(error)) from error
    return given


def _numbers(given: tuple[str, ...]) -> Mapping[str, int]:
    found: dict[str, int] = {}
    tasks = _definitions() if given else {}
    for text in given:
        task, _, number = text.partition("=")
        if task not in tasks:
            raise click.BadParameter(f"{task!r} is no task: there are {', '.join(tasks)}")
        if not number.isdecimal():
            raise click.BadParameter(f"{text!r}: say TASK=N, such as {task}=20")
        found[task] = int(number)
    return found

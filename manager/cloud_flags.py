"""Flags of `manager run` for the cloud system."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from internal.cloud.subresources import SUBRESOURCES
from manager.controllers.cloud import CloudOptions
from manager.controllers.runs import RunsOptions
from manager.flags import with_options

Command = Callable[..., Any]

DEFAULTS = CloudOptions()
_POSITIVE = click.IntRange(min=1)
TASKS = {item.definition.name: item.definition.concurrency for item in SUBRESOURCES}


def cloud_options(command: Command) -> Command:
    """How many instances and runs at once, and where runs execute."""
    return with_options(
        command,
        click.option(
            "--instance-concurrency",
            type=_POSITIVE,
            default=DEFAULTS.instance_concurrency,
            help="Instances worked on at once.",
        ),
        click.option(
            "--subresource-concurrency",
            type=_POSITIVE,
            default=DEFAULTS.subresource_concurrency,
            help="Subresources of one type worked on at once; no limit on runs.",
        ),
        click.option(
            "--task-limit",
            "limits",
            multiple=True,
            metavar="TASK=N",
            callback=lambda _context, _option, given: _numbers(given),
            help=f"Runs of a task at once; 0 is without limit. Default: {_defaults('limit')}. Repeatable.",
        ),
        click.option(
            "--task-starts-per-minute",
            "starts_per_minute",
            multiple=True,
            metavar="TASK=N",
            callback=lambda _context, _option, given: _numbers(given),
            help="Starts of a task in any 60 seconds; 0 is without limit. "
            f"Default: {_defaults('starts_per_minute')}. Repeatable.",
        ),
        *_provider_options(),
    )


def _provider_options() -> tuple[Callable[[Command], Command], ...]:
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
            default=Path(".run/runs"),
            help="local: where the folders of runs are; runs are found there after a restart.",
        ),
        click.option(
            "--job-image",
            default="",
            help="jobs, cloudrun: image of runs. Default: the manager's own.",
        ),
        click.option(
            "--job-service-account",
            default="",
            help="jobs: ServiceAccount in the namespaces of instances whose token tasks get. "
            "Default: they get none.",
        ),
        click.option(
            "--job-priority-class", default="", help="jobs: PriorityClass. Default: none."
        ),
        click.option(
            "--job-pull-secret",
            "job_pull_secrets",
            multiple=True,
            help="jobs: Secret with credentials for the image, in the namespaces of instances. "
            "Repeatable.",
        ),
        click.option("--cloud-run-project", default="", help="cloudrun: the project."),
        click.option(
            "--cloud-run-location", default="", help="cloudrun: the location, such as us-central1."
        ),
        click.option(
            "--cloud-run-bucket",
            default="",
            help="cloudrun: bucket for inputs and results of runs.",
        ),
        click.option(
            "--cloud-run-service-account",
            default="",
            help="cloudrun: email address of the account that tasks run as.",
        ),
    )


CLOUD = ("instance_concurrency", "subresource_concurrency", "limits", "starts_per_minute")
RUNS = (
    "run_provider",
    "runs_folder",
    "job_image",
    "job_service_account",
    "job_priority_class",
    "job_pull_secrets",
    "cloud_run_project",
    "cloud_run_location",
    "cloud_run_bucket",
    "cloud_run_service_account",
)


def take_cloud_options(given: dict[str, Any], *, in_cluster: bool) -> CloudOptions:
    """Take the flags of the cloud system out of `given`."""
    own = {name: given.pop(name) for name in CLOUD}
    runs = {name: given.pop(name) for name in RUNS}
    runs["provider"] = runs.pop("run_provider") or ("jobs" if in_cluster else "local")
    runs["folder"] = runs.pop("runs_folder")
    return CloudOptions(**own, runs=RunsOptions(**runs))


def _defaults(field: str) -> str:
    return ", ".join(f"{name}={getattr(given, field)}" for name, given in TASKS.items())


def _numbers(given: tuple[str, ...]) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for text in given:
        task, _, number = text.partition("=")
        if task not in TASKS:
            raise click.BadParameter(f"{task!r} is no task: there are {', '.join(TASKS)}")
        if not number.isdecimal():
            raise click.BadParameter(f"{text!r}: say TASK=N, such as {task}=20")
        found[task] = int(number)
    return found

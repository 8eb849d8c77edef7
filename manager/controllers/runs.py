"""Where runs of tasks execute: the choice of a provider, and what it needs."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from ctrlruntime.client.config import Config
from ctrlruntime.controller.permissions import Permission
from ctrlruntime.manager import Manager
from internal.cloud.runs import RunProvider
from internal.cloud.runs.cloudrun import CloudRunOptions, CloudRunRuns
from internal.cloud.runs.cloudrun.api import metadata_token
from internal.cloud.runs.jobs import JobOptions, JobRuns
from internal.cloud.runs.local import LocalOptions, LocalRuns
from internal.cloud.runs.secrets import secrets_of
from manager.own_image import OwnImageUnknown, own_image

Provider = Literal["local", "jobs", "cloudrun"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsOptions:
    """Which provider, and what it is told."""

    provider: Provider = "local"
    """Processes of this machine, Jobs of the cluster, or jobs of Google Cloud Run."""
    folder: Path = Path(".run/runs")
    """local: where the folders of runs are. Runs outlive the manager, and are found there again."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables for every task, such as what a cloud's tools need."""
    command: Sequence[str] = ()
    """local: the program in place of this manager's own; the name of the task is added."""
    job_image: str = ""
    """jobs, cloudrun: the image of runs. Default: the manager's own."""
    job_service_account: str = ""
    """jobs: ServiceAccount in each namespace of instances whose token tasks get."""
    job_priority_class: str = ""
    """jobs: PriorityClass of the Pods."""
    job_pull_secrets: tuple[str, ...] = ()
    """jobs: Secrets with credentials for the image, in each namespace of instances."""
    job_annotations: Mapping[str, str] = field(default_factory=dict)
    """jobs: annotations of the Pods."""

    cloud_run_project: str = ""
    """cloudrun: the project."""
    cloud_run_location: str = ""
    """cloudrun: the location, such as us-central1."""
    cloud_run_bucket: str = ""
    """cloudrun: Cloud Storage bucket in which runs find their input and leave their result."""
    cloud_run_service_account: str = ""
    """cloudrun: email address of the account that tasks run as."""

    def permissions(self) -> Sequence[Permission]:
        """Rights in the cluster that the provider needs, besides Secrets."""
        if self.provider == "jobs":
            return (
                ("batch", "jobs", ("create", "delete", "get", "list", "patch", "watch")),
                ("", "pods", ("get", "list", "watch")),
            )
        return ()


class NoImage(ValueError):
    """Nobody said of which image runs are to be, or where. The message says how."""


def make_provider(options: RunsOptions, manager: Manager) -> RunProvider:
    """The provider that the options name. Raises NoImage."""
    if options.provider == "jobs":
        return JobRuns(manager.live_client, job_options(options), cache=manager.cache)
    if options.provider == "cloudrun":
        token = metadata_token(time.monotonic)
        return CloudRunRuns(
            cloud_run_options(options),
            token,
            secrets_of(manager.live_client),
            fence=manager.fence,
        )
    local = LocalOptions(folder=options.folder, environment=options.environment)
    if options.command:
        local = LocalOptions(
            folder=options.folder, environment=options.environment, command=options.command
        )
    return LocalRuns(local, secrets=secrets_of(manager.live_client))


def cloud_run_options(options: RunsOptions) -> CloudRunOptions:
    """Where jobs of Cloud Run are made, and like what. Raises NoImage."""
    needed = {
        "--cloud-run-project": options.cloud_run_project,
        "--cloud-run-location": options.cloud_run_location,
        "--cloud-run-bucket": options.cloud_run_bucket,
        "--job-image": options.job_image,
    }
    missing = [name for name, value in needed.items() if not value]
    if missing:
        raise NoImage(f"runs are to be jobs of Cloud Run: say {', '.join(missing)}")
    return CloudRunOptions(
        project=options.cloud_run_project,
        location=options.cloud_run_location,
        bucket=options.cloud_run_bucket,
        image=options.job_image,
        service_account=options.cloud_run_service_account,
        environment=options.environment,
    )


def job_options(options: RunsOptions) -> JobOptions:
    """What Jobs are made like. Raises NoImage."""
    if not options.job_image:
        raise NoImage("runs are to be Jobs: name their image with --job-image")
    return JobOptions(
        image=options.job_image,
        environment=options.environment,
        service_account=options.job_service_account,
        priority_class=options.job_priority_class,
        image_pull_secrets=options.job_pull_secrets,
        annotations=options.job_annotations,
    )


async def with_own_image(options: RunsOptions, config: Config, namespace: str) -> RunsOptions:
    """The options with the image that this manager runs in, where Jobs need one and none is named.

    `namespace`: of the manager's Pod; empty outside of a cluster. Raises NoImage if the Pod cannot be
    read.
    """
    if options.provider == "local" or options.job_image or not namespace:
        return options
    try:
        return replace(options, job_image=await own_image(config, namespace))
    except OwnImageUnknown as error:
        raise NoImage(
            f"runs are to be of the manager's own image, but {error}: name the image with --job-image"
        ) from error

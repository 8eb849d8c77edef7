"""Where runs of tasks execute: the choice of a provider, and what it needs."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ctrlruntime.controller.permissions import Permission
from ctrlruntime.manager import Manager
from internal.cloud.runs import RunProvider
from internal.cloud.runs.jobs import JobOptions, JobRuns
from internal.cloud.runs.local import LocalOptions, LocalRuns
from internal.cloud.runs.secrets import secrets_of

Provider = Literal["local", "jobs"]

IMAGE_VARIABLE = "MANAGER_IMAGE"
"""Environment of the manager's Pod: its own image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Which provider, and what it is told."""

    provider: Provider = "local"
    """Processes of this machine, or Jobs of the cluster."""
    folder: Path = Path(".run/runs")
    """local: where the folders of runs are. Runs outlive the manager, and are found there again."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables for every task, such as what a cloud's tools need."""
    command: Sequence[str] = ()
    """local: the program in place of this manager's own; the name of the task is added."""
    job_image: str = ""
    """jobs: the image of runs. Default: the manager's own, from $MANAGER_IMAGE."""
    job_service_account: str = ""
    """jobs: ServiceAccount in each namespace of instances whose token tasks get."""
    job_priority_class: str = ""
    """jobs: PriorityClass of the Pods."""
    job_pull_secrets: tuple[str, ...] = ()
    """jobs: Secrets with credentials for the image, in each namespace of instances."""
    job_annotations: Mapping[str, str] = field(default_factory=dict)
    """jobs: annotations of the Pods."""

    def permissions(self) -> Sequence[Permission]:
        """Rights in the cluster that the provider needs, besides Secrets."""
        if self.provider == "jobs":
            return (
                ("batch", "jobs", ("create", "delete", "get", "list", "patch", "watch")),
                ("", "pods", ("get", "list", "watch")),
            )
        return ()


class NoImage(ValueError):
    """Runs are to be Jobs, and nobody said of which image."""


def make_provider(options: RunOptions, manager: Manager) -> RunProvider:
    """The provider that the options name. Raises NoImage."""
    if options.provider == "jobs":
        return JobRuns(manager.live_client, job_options(options), cache=manager.cache)
    local = LocalOptions(folder=options.folder, environment=options.environment)
    if options.command:
        local = LocalOptions(
            folder=options.folder, environment=options.environment, command=options.command
        )
    return LocalRuns(local, secrets=secrets_of(manager.live_client))


def job_options(options: RunOptions) -> JobOptions:
    """What Jobs are made like. Raises NoImage."""
    image = options.job_image or os.environ.get(IMAGE_VARIABLE, "")
    if not image:
        raise NoImage(
            "runs are to be Jobs: name their image with --job-image, or set "
            f"{IMAGE_VARIABLE} in the manager's Pod to its own"
        )
    return JobOptions(
        image=image,
        environment=options.environment,
        service_account=options.job_service_account,
        priority_class=options.job_priority_class,
        image_pull_secrets=options.job_pull_secrets,
        annotations=options.job_annotations,
    )

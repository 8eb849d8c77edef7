"""Where runs of tasks execute: the choice of a provider, and what it needs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Final, Literal

from ctrlruntime.client.config import Config
from ctrlruntime.controller.permissions import Permission
from ctrlruntime.manager import Manager
from internal.cloud.runs import RunProvider
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
    environment_file: Path | None = None
    """local: file with lines NAME=VALUE for every task, such as credentials."""
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
    job_environment_from: tuple[str, ...] = ()
    """jobs: Secrets in each namespace of instances whose keys are variables of every task."""
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
        return plugin_of(self.provider).permissions


class NoImage(ValueError):
    """Nobody said of which image runs are to be, or where. The message says how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderPlugin:
    """A provider of runs, as its module registers it."""

    make: Callable[[RunsOptions, Manager], RunProvider]
    """Returns the provider; raises NoImage."""
    permissions: Sequence[Permission] = ()
    """Rights in the cluster that it needs, besides Secrets."""


PLUGINS: Final[Mapping[Provider, str]] = {
    "local": "manager.controllers.run_providers.local",
    "jobs": "manager.controllers.run_providers.jobs",
    "cloudrun": "manager.controllers.run_providers.cloudrun",
}
"""Modules of the plug-ins. Only the one that is configured is imported."""


def plugin_of(provider: Provider) -> ProviderPlugin:
    """Import and return the plug-in of a provider."""
    plugin: ProviderPlugin = import_module(PLUGINS[provider]).PLUGIN
    return plugin


def make_provider(options: RunsOptions, manager: Manager) -> RunProvider:
    """Return the provider that the options name. Raises NoImage."""
    return plugin_of(options.provider).make(options, manager)


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

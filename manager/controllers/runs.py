"""Where runs of tasks execute: the choice of a provider, and what it needs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Final

from ctrlruntime.client.config import Config
from ctrlruntime.controller.permissions import Permission
from ctrlruntime.manager import Manager
from internal.cloud.runs import RunProvider
from manager.controllers.cloud_options import Provider, RunsOptions
from manager.controllers.object_cluster import ObjectCluster
from manager.own_image import NoImage, OwnImageUnknown, own_image


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderPlugin:
    """A provider of runs, as its module registers it."""

    make: Callable[[RunsOptions, Manager, ObjectCluster], RunProvider]
    """Returns the provider, with the cluster of the runs and of the Secrets that they read; raises NoImage."""
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


def make_provider(options: RunsOptions, manager: Manager, objects: ObjectCluster) -> RunProvider:
    """Return the provider that the options name. `objects`: where runs are. Raises NoImage."""
    return plugin_of(options.provider).make(options, manager, objects)


async def with_own_image(options: RunsOptions, config: Config, namespace: str) -> RunsOptions:
    """Return the options with the image that this manager runs in, where Jobs need one and none is named.

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

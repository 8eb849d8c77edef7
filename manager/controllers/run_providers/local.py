"""Runs as processes of this machine."""

from dataclasses import replace
from typing import Final

from ctrlruntime.manager import Manager
from internal.cloud.runs import RunProvider
from internal.cloud.runs.local import LocalOptions, LocalRuns
from internal.named_secrets import labelled_secrets
from manager.controllers.cloud_options import RunsOptions
from manager.controllers.object_cluster import ObjectCluster
from manager.controllers.runs import ProviderPlugin


def make(options: RunsOptions, _manager: Manager, objects: ObjectCluster) -> RunProvider:
    """Return the provider."""
    local = LocalOptions(
        folder=options.folder,
        environment=options.variables(),
        environment_file=options.environment_file,
    )
    if options.command:
        local = replace(local, command=options.command)
    return LocalRuns(local, secrets=labelled_secrets(objects.live_client))


PLUGIN: Final = ProviderPlugin(make=make)

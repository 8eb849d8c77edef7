"""Runs as Jobs of the cluster."""

from typing import Final

from ctrlruntime.manager import Manager
from internal.cloud.runs import RunProvider
from internal.cloud.runs.jobs import JobOptions, JobRuns
from manager.controllers.cloud_options import RunsOptions
from manager.controllers.object_cluster import ObjectCluster
from manager.controllers.runs import ProviderPlugin
from manager.own_image import NoImage


def make(options: RunsOptions, _manager: Manager, objects: ObjectCluster) -> RunProvider:
    """Return the provider. Raises NoImage."""
    return JobRuns(
        objects.live_client,
        job_options(options),
        cache=objects.cache,
        placement=objects.placement,
    )


def job_options(options: RunsOptions) -> JobOptions:
    """Return what Jobs are made like. Raises NoImage."""
    if not options.job_image:
        raise NoImage("runs are to be Jobs: name their image with --job-image")
    return JobOptions(
        image=options.job_image,
        environment=options.variables(),
        environment_from=options.job_environment_from,
        service_account=options.job_service_account,
        priority_class=options.job_priority_class,
        image_pull_secrets=options.job_pull_secrets,
        annotations=options.job_annotations,
    )


PLUGIN: Final = ProviderPlugin(
    make=make,
    permissions=(
        ("batch", "jobs", ("create", "delete", "get", "list", "patch", "watch")),
        ("", "pods", ("get", "list", "watch")),
        ("", "events", ("list", "watch")),
    ),
)

"""Runs as jobs of Google Cloud Run."""

from typing import Final

from ctrlruntime.clock import monotonic
from ctrlruntime.manager import Manager
from internal.cloud.runs import RunProvider
from internal.cloud.runs.cloudrun import CloudRunOptions, CloudRunRuns, metadata_token
from internal.named_secrets import labelled_secrets
from manager.controllers.cloud_options import RunsOptions
from manager.controllers.object_cluster import ObjectCluster
from manager.controllers.runs import ProviderPlugin
from manager.own_image import NoImage


def make(options: RunsOptions, manager: Manager, objects: ObjectCluster) -> RunProvider:
    """Return the provider. Raises NoImage."""
    return CloudRunRuns(
        cloud_run_options(options),
        metadata_token(monotonic),
        labelled_secrets(objects.live_client),
        fence=manager.fence,
    )


def cloud_run_options(options: RunsOptions) -> CloudRunOptions:
    """Return where jobs of Cloud Run are created, and with what. Raises NoImage."""
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
        environment=options.variables(),
    )


PLUGIN: Final = ProviderPlugin(make=make)

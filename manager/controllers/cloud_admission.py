"""The webhooks of the cloud system, wired to the runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apis.cloud import FleetRollout, Instance
from ctrlruntime.manager import Manager
from internal.cloud.admission import ADMISSION, CloudAdmission
from manager.controllers.cloud_options import CloudOptions

if TYPE_CHECKING:
    from ctrlruntime.generate.webhook import Webhook


def webhooks() -> list[Webhook]:
    """Return what has to be configured in the API server for the option `--webhooks`."""
    from ctrlruntime.generate.webhook import webhooks_of  # what only `manager manifests` needs

    return [
        *webhooks_of(FleetRollout, CloudAdmission.check_rollout, options=ADMISSION),
        *webhooks_of(Instance, CloudAdmission.check_instance, options=ADMISSION),
    ]


def add_cloud_admission(manager: Manager, options: CloudOptions) -> None:
    """Serve the webhooks of FleetRollouts and Instances."""
    admission = CloudAdmission(options.runs.allowed_environment)
    serve = manager.webhooks.register
    serve(FleetRollout, admission.check_rollout, options=ADMISSION)
    serve(Instance, admission.check_instance, options=ADMISSION)

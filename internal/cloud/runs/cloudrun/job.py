"""The Cloud Run job of a run. No I/O."""

import math
import re
from typing import Any, Final

from internal.cloud import labels as label_keys
from internal.cloud.runs import wire
from internal.cloud.runs.cloudrun.files import INPUT, RESULT, SEAL_KEY, SECRETS
from internal.cloud.runs.cloudrun.options import CloudRunOptions
from internal.cloud.runs.provider import RunOwner, RunRefused, RunRequest

__all__ = ["CONTAINER", "EXECUTION_TOKEN", "OWNER_LABEL", "check", "is_ours", "job_of"]

CONTAINER: Final = "task"
EXECUTION_TOKEN: Final = "once"  # noqa: S105
"""End of the name of the one execution: made with the job, in one request."""
OWNER_LABEL: Final = "ctrlruntime-owner-uid"
_RUN_LABEL: Final = "ctrlruntime-run-id"
_TASK_LABEL: Final = "ctrlruntime-task"
_PLACE: Final = "/run/task"
_NAME: Final = re.compile(r"[a-z]([-a-z0-9]{0,47}[a-z0-9])?")
_LABEL: Final = re.compile(r"[-_a-z0-9]{1,63}")
_LONGEST: Final = 7 * 86400


def check(request: RunRequest) -> None:
    """Raise RunRefused for what Cloud Run cannot do."""
    if _NAME.fullmatch(request.run_id) is None:
        raise RunRefused(f"{request.run_id!r} is no name that a Cloud Run job can have")
    if _LABEL.fullmatch(request.input.owner.uid) is None:
        raise RunRefused(
            f"the UID {request.input.owner.uid!r} is no value of a label in Google Cloud"
        )
    if not 1 <= request.timeout <= _LONGEST:
        raise RunRefused(
            f"run {request.run_id} may take {request.timeout:g} s; a Cloud Run task takes 1 s to 7 days"
        )


def is_ours(job: dict[str, Any], owner: RunOwner, run_id: str) -> bool:
    """Whether a run of the owner made it."""
    labels = job.get("labels") or {}
    return labels.get(OWNER_LABEL) == owner.uid and labels.get(_RUN_LABEL) == run_id


def job_of(request: RunRequest, options: CloudRunOptions) -> dict[str, Any]:
    """Return a job whose only execution is made with it: one task, never tried again by itself."""
    owner = request.input.owner
    template: dict[str, Any] = {
        "containers": [_container(request, options)],
        "maxRetries": 0,
        "timeout": f"{math.ceil(request.timeout)}s",
        "volumes": [{"name": "run", "gcs": {"bucket": options.bucket}}],
    }
    if options.service_account:
        template["serviceAccount"] = options.service_account
    return {
        "labels": {
            OWNER_LABEL: owner.uid,
            _RUN_LABEL: request.run_id,
            _TASK_LABEL: request.input.task,
        },
        "annotations": {
            label_keys.OWNER: f"{owner.api_version} {owner.kind} {owner.name}",
            label_keys.INSTANCE: request.input.instance,
        },
        "startExecutionToken": EXECUTION_TOKEN,
        "template": {"taskCount": 1, "parallelism": 1, "template": template},
    }


def _container(request: RunRequest, options: CloudRunOptions) -> dict[str, Any]:
    folder = f"{_PLACE}/{request.run_id}"
    environment = {
        wire.INPUT: f"{folder}/{INPUT}",
        wire.SEAL_KEY: f"{folder}/{SEAL_KEY}",
        wire.SECRETS: f"{folder}/{SECRETS}",
        wire.RESULT: f"{folder}/{RESULT}",
        **options.environment,
    }
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": options.image,
        "args": [*options.arguments, request.input.task],
        "env": [{"name": k, "value": v.replace("$(", "$$(")} for k, v in environment.items()],
        "volumeMounts": [{"name": "run", "mountPath": _PLACE}],
    }
    if options.command:
        container["command"] = list(options.command)
    if options.limits:
        container["resources"] = {"limits": dict(options.limits)}
    return container

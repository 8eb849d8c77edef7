"""What Cloud Run refuses. Every rule names the page that it comes from.

REST: https://docs.cloud.google.com/run/docs/reference/rest/v2/projects.locations.jobs
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

Obj = Mapping[str, Any]


class Refused(Exception):
    """An answer of 400 or more, as google.rpc.Status has it."""

    def __init__(self, code: int, status: str, message: str) -> None:
        super().__init__(message)
        self.code, self.status, self.message = code, status, message


def invalid(message: str) -> Refused:
    return Refused(400, "INVALID_ARGUMENT", message)


# The fields of the REST page's schema that may be sent; others are "Unknown name" errors.
_JOB = {"labels", "annotations", "client", "clientVersion", "launchStage", "binaryAuthorization",
        "template", "startExecutionToken", "runExecutionToken"}  # fmt: skip
_EXECUTION_TEMPLATE = {"labels", "annotations", "parallelism", "taskCount", "template"}
_TASK_TEMPLATE = {"containers", "volumes", "maxRetries", "timeout", "serviceAccount",
                  "executionEnvironment", "encryptionKey", "vpcAccess", "nodeSelector"}  # fmt: skip
_CONTAINER = {"name", "image", "command", "args", "env", "resources", "volumeMounts", "workingDir",
              "ports", "dependsOn", "startupProbe", "livenessProbe"}  # fmt: skip
_VOLUME = {"name", "secret", "cloudSqlInstance", "emptyDir", "nfs", "gcs"}
_GCS = {"bucket", "readOnly", "mountOptions"}

# https://docs.cloud.google.com/run/docs/create-jobs: lower-case letters, digits and dashes, from a
# letter on, not ending in a dash, less than 50 characters.
_JOB_NAME = re.compile(r"[a-z]([-a-z0-9]{0,47}[a-z0-9])?")
# https://docs.cloud.google.com/resource-manager/docs/creating-managing-labels#requirements, which
# https://docs.cloud.google.com/run/docs/configuring/jobs/labels refers to.
_LABEL_KEY = re.compile(r"[a-z][-_a-z0-9]{0,62}")
_LABEL_VALUE = re.compile(r"[-_a-z0-9]{0,63}")
_MOST_LABELS = 64
# REST, Job.annotations: these namespaces "will be rejected on new resources".
_RESERVED = (
    "run.googleapis.com",
    "cloud.googleapis.com",
    "serving.knative.dev",
    "autoscaling.knative.dev",
)
_C_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST_VALUE = 32768
_LONGEST_TASK = 7 * 86400
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def check_job(job_id: str, job: Obj) -> None:
    """Raise Refused."""
    if _JOB_NAME.fullmatch(job_id) is None:
        raise invalid(f"job_id: {job_id!r} is no valid name")
    _known("job", job, _JOB)
    _check_token(job_id, job)
    _check_labels(job.get("labels") or {})
    for key in job.get("annotations") or {}:
        if key.partition("/")[0] in _RESERVED:
            raise invalid(f"annotations: {key!r} is in a reserved namespace")
    if "template" not in job:
        raise invalid("job.template: Required field not provided.")
    template = job["template"]
    _known("job.template", template, _EXECUTION_TEMPLATE)
    if template.get("parallelism", 0) > template.get("taskCount", 1):
        raise invalid("job.template.parallelism: must be at most task_count")
    _check_task(template.get("template") or {})


def _check_token(job_id: str, job: Obj) -> None:
    """REST, Job.startExecutionToken: a oneof; name and token are fewer than 63 characters together."""
    tokens = [job[key] for key in ("startExecutionToken", "runExecutionToken") if key in job]
    if len(tokens) > 1:
        raise invalid("job: oneof field 'create_execution' is already set")
    if tokens and len(job_id) + len(tokens[0]) >= 63:
        raise invalid("job.start_execution_token: name and token are too long together")


def _check_labels(labels: Obj) -> None:
    if len(labels) > _MOST_LABELS:
        raise invalid(f"labels: more than {_MOST_LABELS}")
    for key, value in labels.items():
        if _LABEL_KEY.fullmatch(key) is None or _LABEL_VALUE.fullmatch(value) is None:
            raise invalid(f"labels: {key}={value} is no valid label")


def _check_task(task: Obj) -> None:
    _known("job.template.template", task, _TASK_TEMPLATE)
    containers = task.get("containers") or []
    if len(containers) != 1:
        raise invalid("job.template.template.containers: exactly one is run here")
    # https://docs.cloud.google.com/run/docs/configuring/task-timeout: up to 168 hours.
    timeout = str(task.get("timeout", "600s"))
    if re.fullmatch(r"\d+(\.\d+)?s", timeout) is None:
        raise invalid(f"timeout: Illegal duration format; duration must end with 's': {timeout!r}")
    if not 0 < float(timeout[:-1]) <= _LONGEST_TASK:
        raise invalid("timeout: must be between 1 s and 168 h")
    # https://docs.cloud.google.com/run/docs/configuring/max-retries: 0 to 10.
    if not 0 <= task.get("maxRetries", 3) <= 10:
        raise invalid("max_retries: must be between 0 and 10")
    volumes = {volume.get("name") for volume in task.get("volumes") or []}
    for volume in task.get("volumes") or []:
        _known("volumes", volume, _VOLUME)
        if _DNS_LABEL.fullmatch(str(volume.get("name", ""))) is None:
            raise invalid("volumes.name: Required, a DNS label")
        if "gcs" in volume:
            _known("volumes.gcs", volume["gcs"], _GCS)
            if not volume["gcs"].get("bucket"):
                raise invalid("volumes.gcs.bucket: Required")
    _check_container(containers[0], volumes)


def _check_container(container: Obj, volumes: set[Any]) -> None:
    """REST, Container, EnvVar and VolumeMount."""
    _known("containers", container, _CONTAINER)
    if not container.get("image"):
        raise invalid("containers.image: Required field not provided.")
    for item in container.get("env") or []:
        _known("env", item, {"name", "value", "valueSource"})
        if _C_IDENTIFIER.fullmatch(item.get("name", "")) is None:
            raise invalid(f"env.name: {item.get('name')!r} is no C identifier")
        if len(str(item.get("value", "")).encode()) > _LONGEST_VALUE:
            raise invalid(f"env.value: longer than {_LONGEST_VALUE} bytes")
    for mount in container.get("volumeMounts") or []:
        _known("volumeMounts", mount, {"name", "mountPath", "subPath"})
        if mount.get("name") not in volumes:
            raise invalid(f"volumeMounts: there is no volume {mount.get('name')!r}")
        if ":" in mount.get("mountPath", ":"):
            raise invalid("volumeMounts.mountPath: Required, without ':'")


def _known(where: str, given: Obj, fields: set[str]) -> None:
    """https://cloud.google.com/apis/design/errors: an unknown field of a JSON body is an error."""
    for name in given:
        if name not in fields:
            raise invalid(
                f"Invalid JSON payload received. Unknown name \"{name}\" at '{where}': Cannot find field."
            )

"""Where the binary is and where states are kept, from the environment of the task."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from internal.cloud.runs import surroundings
from internal.cloud.tasks.task import TaskRejected

STATE_DIR: Final = "TERRAFORM_STATE_DIR"
"""Folder with a folder for each instance; on a volume that outlives the task."""
STATE_NAMESPACE: Final = "TERRAFORM_STATE_NAMESPACE"
"""Namespace in which states are kept as Secrets, by Terraform's backend `kubernetes`."""
BINARIES: Final = ("terraform", "tofu")
_OWN: Final = frozenset(getattr(surroundings, name) for name in surroundings.__all__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    """How the binary is run."""

    binary: Path
    backend: Mapping[str, Any]
    """The backend block."""
    state: Path | None
    """Folder of the instance's state; None if it is not in a folder."""
    environment: Mapping[str, str]
    """Of the binary: that of the task, so that cloud credentials reach it and a provider finds its
    processes, less the names of the task's own files."""


def local_settings(environment: Mapping[str, str], namespace: str, instance: str) -> LocalSettings:
    """For one instance. Raises TaskRejected where there is no binary, or no place for a state."""
    path = environment.get("PATH")
    found = next(filter(None, (shutil.which(name, path=path) for name in BINARIES)), None)
    if found is None:
        raise TaskRejected(
            "neither terraform nor tofu is on the PATH of the task, and the instance names no HCP"
            " Terraform organization: set infrastructure.terraform.organization, or use an image with"
            " one of them"
        )
    folder, secrets = environment.get(STATE_DIR), environment.get(STATE_NAMESPACE)
    if folder:
        state = Path(folder).absolute() / namespace / instance
        backend: dict[str, Any] = {"local": {"path": str(state / "terraform.tfstate")}}
    elif secrets:
        state = None
        backend = {"kubernetes": _in_cluster(environment, secrets, namespace, instance)}
    else:
        raise TaskRejected(
            f"there is no place for Terraform's state: set {STATE_DIR} or {STATE_NAMESPACE} for the task,"
            " or infrastructure.terraform.organization for the instance"
        )
    return LocalSettings(
        binary=Path(found),
        backend=backend,
        state=state,
        environment=_passed_on(environment),
    )


def _in_cluster(
    environment: Mapping[str, str], secrets: str, namespace: str, instance: str
) -> dict[str, Any]:
    inside = "KUBERNETES_SERVICE_HOST" in environment
    suffix = f"{namespace}-{instance}".replace(".", "-")
    return {"secret_suffix": suffix, "namespace": secrets, "in_cluster_config": inside}


def _passed_on(environment: Mapping[str, str]) -> dict[str, str]:
    kept = {key: value for key, value in environment.items() if key not in _OWN}
    return {**kept, "TF_IN_AUTOMATION": "1", "TF_INPUT": "0", "CHECKPOINT_DISABLE": "1"}

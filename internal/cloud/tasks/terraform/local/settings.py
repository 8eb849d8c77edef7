"""Where the binary is, where states are kept and which variables it gets, from the environment of the task."""

import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from apis.cloud import EnvironmentFrom
from internal.cloud.keys import instance_key
from internal.cloud.runs import wire
from internal.cloud.tasks.task import TaskRejected

STATE_DIR: Final = "TERRAFORM_STATE_DIR"
"""Folder with a folder for each instance; on a volume that outlives the task."""
STATE_NAMESPACE: Final = "TERRAFORM_STATE_NAMESPACE"
"""Namespace in which states are kept as Secrets, by Terraform's backend `kubernetes`."""
BINARIES: Final = ("terraform", "tofu")
_OWN: Final = frozenset(getattr(wire, name) for name in wire.__all__)


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
            f"there is no place for Terraform's state: start the manager with --task-environment"
            f" {STATE_DIR}=FOLDER or {STATE_NAMESPACE}=NAMESPACE, or set"
            " infrastructure.terraform.organization for the instance"
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
    suffix = instance_key(namespace, instance)
    return {"secret_suffix": suffix, "namespace": secrets, "in_cluster_config": inside}


def _passed_on(environment: Mapping[str, str]) -> dict[str, str]:
    kept = {key: value for key, value in environment.items() if key not in _OWN}
    return {**kept, "TF_IN_AUTOMATION": "1", "TF_INPUT": "0", "CHECKPOINT_DISABLE": "1"}


_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED: Final = ("TASK_", "LD_", "PYTHON")
"""How names begin that decide what the task itself is and runs."""


def environment_from(
    sources: Iterable[EnvironmentFrom], secret: Callable[[str], Mapping[str, str]]
) -> dict[str, str]:
    """Return the variables; later sources win. `secret` reads a whole Secret by name.

    Raises TaskRejected for a Secret that is missing, and for a key that cannot be a variable. No
    message has a value in it.
    """
    found: dict[str, str] = {}
    for source in sources:
        name = source.secret_ref.name
        for key, value in secret(name).items():
            found[_checked(source.prefix + key, name, key)] = value.rstrip("\n")
    return found


def _checked(variable: str, secret: str, key: str) -> str:
    if _NAME.fullmatch(variable) is None or variable == "PATH" or variable.startswith(_RESERVED):
        raise TaskRejected(
            f"infrastructure.environmentFrom: key {key!r} of Secret {secret!r} cannot be a variable"
            f" (as {variable!r}): rename it, or give the source another prefix"
        )
    return variable

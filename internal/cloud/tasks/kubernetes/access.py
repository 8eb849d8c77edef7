"""The way into an instance's cluster: a kubeconfig out of a Secret."""

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from apis.cloud import TaskOperation
from apis.references import SecretKeyRef
from ctrlruntime.api import BUILTIN, GroupVersionKind
from ctrlruntime.client import APIError, Client, Config, Forbidden, NotFound, TransportError
from ctrlruntime.client.kubeconfig import ConfigError
from ctrlruntime.intake import IntakeError, read_yaml
from internal.cloud.tasks.task import TaskContext, TaskError, TaskRejected

ALLOW_EXEC: Final = "TASK_ALLOW_KUBECONFIG_EXEC"
"""Environment: "true" lets kubeconfigs run programs to sign in."""
NAMESPACE: Final = BUILTIN[GroupVersionKind("", "v1", "Namespace")]
IDENTITY: Final = "kube-system"
"""The namespace whose UID is the id of a cluster."""
OUTPUT: Final = "kubeconfig"
"""The output of the infrastructure that is used where nothing is named."""

_FILES: Final = {
    "cluster": ("certificate-authority",),
    "user": ("client-certificate", "client-key", "tokenFile", "auth-provider"),
}


def kubeconfig_ref(given: SecretKeyRef | None, outputs_secret_name: str) -> SecretKeyRef | None:
    """Where the kubeconfig is; None if the spec names nothing and the infrastructure has handed over nothing."""
    if given is not None:
        return given
    if outputs_secret_name:
        return SecretKeyRef(name=outputs_secret_name, key=OUTPUT)
    return None


@asynccontextmanager
async def cluster(context: TaskContext, ref: SecretKeyRef | None) -> AsyncGenerator[Client]:
    """Yield a client of the instance's cluster. Raises TaskRejected for a kubeconfig that is no good.

    For an instance of a data plane, that one is no good but for a teardown: no containers run there.
    """
    if ref is None:
        raise TaskRejected(
            "no kubeconfig: set spec.cluster.kubeconfigFrom, or let the infrastructure have a"
            f" sensitive output {OUTPUT!r}"
        )
    path = context.folder / "kubeconfig"
    _write(path, checked(context.secret(ref), str(ref.name), allow_exec=_exec_allowed()))
    try:
        config = replace(await Config.load(path), foreign=True)
    except ConfigError as error:
        raise TaskRejected(f"Secret {ref.name}, key {ref.key}: {error}") from error
    if config.insecurity:
        context.log.warning("Cluster reached insecurely", secret=ref.name, reason=config.insecurity)
    try:
        async with Client.connect(config) as client:
            await _check_cluster(context, client, str(ref.name))
            yield client
    except APIError as error:
        raise TaskError(f"the instance's cluster answered: {error}") from error
    except TransportError as error:
        raise TaskError(f"the instance's cluster cannot be reached: {error}") from error


def insecurity_of(client: Client) -> str:
    """Return a sentence for a cluster that is reached insecurely; empty otherwise."""
    why = client.transport.config.insecurity
    return f" Reached insecurely: {why}." if why else ""


async def identity_of(client: Client) -> str:
    """Return the id of a cluster; empty if it may not be read."""
    try:
        found = await client.get(NAMESPACE, IDENTITY, metadata_only=True)
    except (Forbidden, NotFound):
        return ""
    return str(found["metadata"]["uid"])


async def _check_cluster(context: TaskContext, client: Client, source: str) -> None:
    """Raise TaskRejected for the data plane of the instance itself. Who may not look at its id is let through."""
    data_plane = context.input.data_plane
    if not data_plane or context.input.operation is TaskOperation.TEARDOWN:
        return
    if await identity_of(client) == data_plane:
        raise TaskRejected(
            f"the kubeconfig in Secret {source} opens the data plane of this instance, which runs no"
            " containers: name one of the hub, or of another cluster"
        )


def checked(text: str, source: str, *, allow_exec: bool) -> str:
    """Return the kubeconfig, if it neither reads files nor runs programs of the place where tasks run."""
    try:
        config = read_yaml(text, what=f"the kubeconfig in Secret {source}")
    except IntakeError as error:
        raise TaskRejected(str(error)) from error
    if not isinstance(config, dict):
        raise TaskRejected(f"the kubeconfig in Secret {source} is empty or not a mapping")
    for section, keys in _FILES.items():
        for body in _bodies(config, section):
            found = next((key for key in keys if body.get(key)), None)
            if found is not None:
                raise TaskRejected(
                    f"the kubeconfig in Secret {source} uses {found}: put the data itself into it"
                    " (kubectl config view --raw --flatten)"
                )
            if body.get("exec") and not allow_exec:
                raise TaskRejected(
                    f"the kubeconfig in Secret {source} runs a program to sign in; use a token or a"
                    f" certificate, or set {ALLOW_EXEC}=true where tasks run"
                )
    return text


def _bodies(config: Mapping[str, Any], section: str) -> list[Mapping[str, Any]]:
    entries = config.get(f"{section}s") or []
    bodies = [entry.get(section) for entry in entries if isinstance(entry, Mapping)]
    return [body for body in bodies if isinstance(body, Mapping)]


def _exec_allowed() -> bool:
    return os.environ.get(ALLOW_EXEC, "").lower() == "true"


def _write(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)

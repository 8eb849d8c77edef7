"""What a program is called and where it runs: what its manifests take from its options."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.manager import ManagerOptions
from ctrlruntime.manager.http import parse_address

from .errors import DeployWarning
from .found import Found
from .layout import SYSTEM
from .setup import SetupError
from .webhook import webhook_configurations

__all__ = ["Program", "Volume", "at_namespace", "configurations", "program_of"]

ANNOTATION = "ctrlruntime.dev/inject-ca-from"
_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_LOOPBACK = ("127.", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class Volume:
    """A Secret that is mounted."""

    name: str
    secret: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program as it is deployed: all its objects have its name, in one namespace."""

    name: str
    namespace: str
    image: str
    options: ManagerOptions
    found: Found
    metrics_port: int | None
    health_port: int | None
    webhook_port: int | None
    """Ports that something outside of the Pod reaches."""

    @property
    def labels(self) -> dict[str, str]:
        return {"app.kubernetes.io/name": self.name}

    @property
    def volumes(self) -> list[Volume]:
        """The certificates that the program reads from folders."""
        webhook, metrics = self.options.webhook, self.options.metrics
        found = []
        if webhook.certificate_folder is not None and self.found.serves:
            found.append(
                Volume("webhook-cert", webhook.secret_name, str(webhook.certificate_folder))
            )
        if metrics.certificate_folder is not None and self.metrics_port is not None:
            found.append(
                Volume("metrics-cert", f"{self.name}-metrics-cert", str(metrics.certificate_folder))
            )
        return found

    @property
    def seconds_to_end(self) -> int:
        """The seconds that a Pod gets to end: reconciles, then all runnables, and what is written last."""
        timeout = self.options.graceful_shutdown_timeout
        return math.ceil(2 * timeout) + 5 if timeout >= 0 else 3600


def program_of(
    found: Found,
    setups: Sequence[str],
    *,
    name: str | None = None,
    namespace: str | None = None,
    image: str | None = None,
) -> Program | None:
    """Return how the program of these setup functions is deployed; None where its options are unknown.

    The name is that of the options or else of the first setup function's module, the namespace that of the options or
    else ``<name>-system``. Raises SetupError for a name that is none, and for another namespace than the options name.
    """
    if found.options is None:
        return None
    options = found.options
    if name is None:
        module = setups[0].partition(":")[0].rpartition(".")[2]
        name = options.name if options.name != ManagerOptions().name else module
        name = name.lower().replace("_", "-")
    for option, given in (("--name", name), ("--namespace", namespace or name)):
        if not _LABEL.fullmatch(given):
            raise SetupError(
                f"{option} {given}: lower-case letters, digits and dashes, at most 63, as in {option} website"
            )
    fixed = options.webhook.secret_namespace if found.serves else ""
    if namespace and fixed and namespace != fixed:
        raise SetupError(
            f"--namespace {namespace}: the options keep the webhooks' certificates in {fixed} "
            "(WebhookOptions.secret_namespace), where their Service has to be. Leave one of the two out"
        )
    namespace = namespace or fixed or options.leader_election_namespace or f"{name}-system"
    webhook = options.webhook
    return Program(
        name=name,
        namespace=namespace,
        image=image or f"{name}:latest",
        options=options,
        found=found,
        metrics_port=_port("metrics_bind_address", options.metrics_bind_address),
        health_port=_port("health_bind_address", options.health_bind_address),
        webhook_port=_port("the webhooks' address", f"{webhook.host}:{webhook.port}")
        if found.serves
        else None,
    )


def configurations(found: Found) -> list[Manifest]:
    """Return the webhook configurations, under the names by which the manager puts its CA into them.

    Raises SetupError where the options name none, so that no API server could call the webhooks.
    """
    hooks, options = list(found.webhooks), found.options
    if options is None:
        return webhook_configurations(hooks)
    webhook = options.webhook
    names = {}
    for mutating, field, kept in (
        (True, "mutating", webhook.mutating_configurations),
        (False, "validating", webhook.validating_configurations),
    ):
        names[field] = kept[0] if kept else f"{field}-webhook-configuration"
        declared = any(hook.mutating == mutating for hook in hooks)
        by_manager = webhook.certificate_folder is None
        if declared and not kept and by_manager and not webhook.inject_annotated:
            raise SetupError(
                f"the options name no {field} configuration, so that no API server would trust the webhooks: "
                f'WebhookOptions({field}_configurations=("NAME",))'
            )
        if kept and not declared and by_manager and found.serves:
            warnings.warn(
                f"the manager waits for the {field} configuration {kept[0]}, and no {field} webhook is declared",
                DeployWarning,
                stacklevel=2,
            )
    made = webhook_configurations(
        hooks, mutating_name=names["mutating"], validating_name=names["validating"]
    )
    return [_annotated(each, found, options) for each in made]


def _annotated(manifest: Manifest, found: Found, options: ManagerOptions) -> Manifest:
    """Return a configuration that is not named in the options annotated, where the manager looks for that."""
    webhook, metadata = options.webhook, manifest["metadata"]
    named = {*webhook.mutating_configurations, *webhook.validating_configurations}
    if webhook.certificate_folder is not None or metadata["name"] in named:
        return manifest
    source = f"{found.service_namespace}/{webhook.secret_name}"
    return {**manifest, "metadata": {**metadata, "annotations": {ANNOTATION: source}}}


def _port(option: str, address: str) -> int | None:
    """Return the port of an address that others can reach. Raises SetupError for a port that is not fixed."""
    parsed = parse_address(address)
    if parsed is None:
        return None
    host, port = parsed
    if port == 0:
        raise SetupError(f"{option} is any free port, and a Deployment needs to name it: fix it")
    if host.startswith(_LOOPBACK):
        warnings.warn(
            f"{option} is {address}: nothing outside of the Pod reaches it",
            DeployWarning,
            stacklevel=3,
        )
        return None
    return port


def at_namespace(manifest: Manifest, namespace: str) -> Manifest:
    """Return a manifest with this namespace wherever it names that of an unplaced program."""
    return {key: _at(key, value, namespace) for key, value in manifest.items()}


def _at(key: str, value: object, namespace: str) -> object:
    if isinstance(value, dict):
        return {name: _at(name, each, namespace) for name, each in value.items()}
    if isinstance(value, list):
        return [_at(key, each, namespace) for each in value]
    if key == "namespace" and value == SYSTEM:
        return namespace
    if key == ANNOTATION and str(value).startswith(f"{SYSTEM}/"):
        return namespace + str(value).removeprefix(SYSTEM)
    return value

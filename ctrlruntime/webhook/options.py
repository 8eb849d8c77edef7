"""Options of a webhook server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from ctrlruntime.clock import utc_now
from ctrlruntime.webhook.rotation_options import RotationOptions

__all__ = ["WebhookOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookOptions:
    """Options of the webhook server; nothing listens before something is registered.

    With ``certificate_folder`` the certificate there is served, and followed when it is replaced;
    without one the managers make and rotate their own, and keep it in a Secret.
    """

    host: str = ""
    """Empty is all interfaces."""
    port: int = 9443
    """-1 serves nothing; 0 is any free port."""
    certificate_folder: Path | None = None
    certificate_name: str = "tls.crt"
    key_name: str = "tls.key"
    client_ca: Path | None = None
    """PEM file; with it only clients with a certificate that it signed are let in."""

    secret_name: str = "webhook-server-cert"  # noqa: S105 - a name
    secret_namespace: str = ""
    """By default the Pod's own, and an error outside of a cluster."""
    service_name: str = "webhook-service"
    """The Service in the same namespace: the certificate is for its names."""
    hosts: tuple[str, ...] = ()
    """Further names and addresses that the certificate is for."""
    mutating_configurations: tuple[str, ...] = ()
    validating_configurations: tuple[str, ...] = ()
    """Names of the configurations that get the CA bundle. Definitions of converted kinds get it too."""
    inject_annotated: bool = False
    """Also into every configuration and definition annotated ``ctrlruntime.dev/inject-ca-from``."""
    rotation: RotationOptions = field(default_factory=RotationOptions)
    clock: Callable[[], datetime] = utc_now

    def certificate_hosts(self, namespace: str) -> tuple[str, ...]:
        """Return the names of the Service, and further ones."""
        name = f"{self.service_name}.{namespace}.svc"
        return (
            name,
            f"{name}.cluster.local",
            f"{self.service_name}.{namespace}",
            *self.hosts,
        )

"""Certificates and keys of a control plane, as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ctrlruntime.envtest.backends.ports import LOOPBACK
from ctrlruntime.envtest.server.certificates import Authority

MASTERS: Final = "system:masters"
SERVER_NAMES: Final = (
    LOOPBACK,
    "localhost",
    "kubernetes.default.svc",
    "kubernetes.default",
    "kubernetes",
)


class PKI:
    """One authority for servers and clients, and the key of service account tokens.

    Servers that run read `folder`; a new serving certificate is picked up when they start again.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.authority = Authority("envtest control plane")
        self.serving_authority = self.authority
        self.ca = folder / "ca.crt"
        self.trusted = folder / "trusted.crt"
        self.ca_key = folder / "ca.key"
        self.serving_certificate = folder / "serving.crt"
        self.serving_key = folder / "serving.key"
        self.service_account_key = folder / "service-account.key"
        self.ca.write_bytes(self.authority.ca_data)
        _private(self.ca_key, self.authority.key_data)
        _private(self.service_account_key, _service_account_key())
        self.issue_serving()

    @property
    def ca_data(self) -> bytes:
        """What clients trust (PEM)."""
        return self.serving_authority.ca_data

    def issue_serving(self, *, new_authority: bool = False) -> None:
        """Make a new serving certificate, signed by a new authority if wanted."""
        if new_authority:
            self.serving_authority = Authority("envtest serving")
        self.trusted.write_bytes(self.ca_data)
        certificate, key = self.serving_authority.issue(SERVER_NAMES)
        self.serving_certificate.write_bytes(certificate)
        _private(self.serving_key, key)

    def client(self, name: str, groups: Sequence[str] = (MASTERS,)) -> tuple[bytes, bytes]:
        """Return a client certificate and its key (PEM)."""
        return self.authority.issue_client(name, groups)


def _service_account_key() -> bytes:
    """In the older form: as a file of public keys, kube-apiserver reads no other private one."""
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _private(path: Path, data: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(data)

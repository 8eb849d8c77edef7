"""A certificate authority of the server's own, for https and for tests of webhooks."""

from __future__ import annotations

import ipaddress
import ssl
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME: Final = timedelta(days=30)


class Authority:
    """Signs certificates of servers and clients with a key that lives in memory."""

    def __init__(self, name: str = "ctrlruntime-envtest") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        builder = builder.add_extension(_usage(signs_certificates=True), True)
        self._certificate = builder.sign(self._key, hashes.SHA256())
        self.ca_data = self._certificate.public_bytes(serialization.Encoding.PEM)

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + _LIFETIME)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), False
            )
        )

    def _leaf(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, purpose: x509.ObjectIdentifier
    ) -> x509.CertificateBuilder:
        """With the extensions that strict verifiers, Python's from 3.13 on, ask for."""
        return (
            self._builder(subject, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
            .add_extension(_usage(signs_certificates=False), True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), False)
        )

    def issue(self, hosts: Sequence[str]) -> tuple[bytes, bytes]:
        """A certificate and its key (PEM) for the host names and addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0])])
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        certificate = (
            self._leaf(subject, key.public_key(), ExtendedKeyUsageOID.SERVER_AUTH)
            .add_extension(names, False)
            .sign(self._key, hashes.SHA256())
        )
        return certificate.public_bytes(serialization.Encoding.PEM), private_pem(key)

    def issue_client(self, name: str, groups: Sequence[str] = ()) -> tuple[bytes, bytes]:
        """A certificate and its key (PEM) that API servers take for user `name` of `groups`."""
        key = ec.generate_private_key(ec.SECP256R1())
        parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._leaf(subject, key.public_key(), ExtendedKeyUsageOID.CLIENT_AUTH)
        certificate = builder.sign(self._key, hashes.SHA256())
        return certificate.public_bytes(serialization.Encoding.PEM), private_pem(key)

    @property
    def key_data(self) -> bytes:
        """The authority's own key (PEM), for a server that signs in its name."""
        return private_pem(self._key)

    def server_context(self, hosts: Sequence[str]) -> ssl.SSLContext:
        """A context that serves a fresh certificate for the hosts."""
        certificate, key = self.issue(hosts)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "server.pem"
            path.touch(mode=0o600)
            path.write_bytes(certificate + key)
            context.load_cert_chain(path)
        return context


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A private key (PEM, PKCS #8), unencrypted."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)

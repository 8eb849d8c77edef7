"""Certificate authorities and the certificates they sign. Only keys are random; the time is passed in."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = [
    "BACKDATE",
    "KeyPair",
    "cross_sign",
    "issue",
    "issue_client",
    "make_authority",
    "pem",
    "self_signed",
]

BACKDATE = timedelta(hours=1)
"""Certificates are valid a little before they are made, for those whose clocks are behind."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> bytes:
        return pem(self.certificate)

    @property
    def key_pem(self) -> bytes:
        """The private key in PEM (PKCS #8), unencrypted."""
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )


def pem(*certificates: x509.Certificate) -> bytes:
    """Return the certificates in PEM, one after the other."""
    return b"".join(c.public_bytes(serialization.Encoding.PEM) for c in certificates)


def make_authority(name: str, now: datetime, lifetime: timedelta) -> KeyPair:
    """Return a new authority. Its name gets part of its serial number: no two have the same."""
    key = ec.generate_private_key(ec.SECP256R1())
    serial = x509.random_serial_number()
    subject = _common_name(f"{name} {serial:x}"[:64])
    builder = _builder(subject, subject, key.public_key(), serial, now, now + lifetime)
    return KeyPair(_as_authority(builder).sign(key, hashes.SHA256()), key)


def cross_sign(new: KeyPair, old: KeyPair, now: datetime) -> x509.Certificate:
    """``new``'s certificate as ``old`` would have signed it.

    Served beside certificates of ``new``, it makes them valid for those who trust only ``old``.
    """
    until = min(new.certificate.not_valid_after_utc, old.certificate.not_valid_after_utc)
    public = new.key.public_key()
    serial = x509.random_serial_number()
    subject, issuer = new.certificate.subject, old.certificate.subject
    builder = _as_authority(_builder(subject, issuer, public, serial, now, until))
    builder = builder.add_extension(_issuer_key(old), False)
    return builder.sign(old.key, hashes.SHA256())


def issue(authority: KeyPair, hosts: Sequence[str], now: datetime, lifetime: timedelta) -> KeyPair:
    """Return a serving certificate for host names and addresses; it never outlives its authority."""
    names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
    subject = _common_name(hosts[0][:64])
    return _signed(authority, subject, ExtendedKeyUsageOID.SERVER_AUTH, names, now, lifetime)


def issue_client(
    authority: KeyPair, user: str, groups: Sequence[str], now: datetime, lifetime: timedelta
) -> KeyPair:
    """Return a certificate that API servers accept for a user of groups; it never outlives its authority."""
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, user)])
    return _signed(authority, subject, ExtendedKeyUsageOID.CLIENT_AUTH, None, now, lifetime)


def _signed(
    authority: KeyPair,
    subject: x509.Name,
    purpose: x509.ObjectIdentifier,
    names: x509.SubjectAlternativeName | None,
    now: datetime,
    lifetime: timedelta,
) -> KeyPair:
    key = ec.generate_private_key(ec.SECP256R1())
    until = min(now + lifetime, authority.certificate.not_valid_after_utc)
    issuer, serial = authority.certificate.subject, x509.random_serial_number()
    builder = _builder(subject, issuer, key.public_key(), serial, now, until)
    builder = _as_leaf(builder, purpose, names).add_extension(_issuer_key(authority), False)
    return KeyPair(builder.sign(authority.key, hashes.SHA256()), key)


def self_signed(hosts: Sequence[str], now: datetime, lifetime: timedelta) -> KeyPair:
    """Return a self-signed serving certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _common_name(hosts[0][:64])
    serial = x509.random_serial_number()
    builder = _builder(name, name, key.public_key(), serial, now, now + lifetime)
    names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
    builder = _as_leaf(builder, ExtendedKeyUsageOID.SERVER_AUTH, names)
    return KeyPair(builder.sign(key, hashes.SHA256()), key)


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    serial: int,
    now: datetime,
    until: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(serial)
        .not_valid_before(now - BACKDATE)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), False)
    )


def _as_authority(builder: x509.CertificateBuilder) -> x509.CertificateBuilder:
    return builder.add_extension(x509.BasicConstraints(True, None), True).add_extension(
        _usage(signs=True), True
    )


def _as_leaf(
    builder: x509.CertificateBuilder,
    purpose: x509.ObjectIdentifier,
    names: x509.SubjectAlternativeName | None,
) -> x509.CertificateBuilder:
    """Add the extensions that strict verifiers, Python's from 3.13 on, require."""
    builder = (
        builder.add_extension(x509.BasicConstraints(False, None), True)
        .add_extension(_usage(signs=False), True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), False)
    )
    return builder if names is None else builder.add_extension(names, False)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _issuer_key(authority: KeyPair) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)

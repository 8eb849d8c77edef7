"""The certificates of a webhook server over time: what is served, who is trusted, what comes next.

Pure: a :class:`CertificateSet` is what a Secret holds, and :func:`following` returns what it should
become now.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ctrlruntime.pki import BACKDATE, KeyPair, cross_sign, issue, make_authority, pem
from ctrlruntime.webhook.rotation_options import RotationOptions

__all__ = ["CertificateSet", "RotationOptions", "UnusableSecret", "due", "following"]


class UnusableSecret(ValueError):
    """A Secret that does not hold a set of certificates that belong together."""


@dataclass(frozen=True)
class CertificateSet:
    """An authority, those before it that are still trusted, and what is served.

    ``crosses`` are authorities as the one before signed them; they are served too, so that a client
    that trusts only an older authority can check the certificate.
    """

    authority: KeyPair
    serving: KeyPair
    previous: tuple[x509.Certificate, ...] = ()
    crosses: tuple[x509.Certificate, ...] = ()

    @cached_property
    def bundle(self) -> bytes:
        """Whom clients are to trust (PEM)."""
        return pem(self.authority.certificate, *self.previous)

    @cached_property
    def chain(self) -> bytes:
        """What is served (PEM)."""
        return pem(self.serving.certificate, *self.crosses)

    @property
    def hosts(self) -> frozenset[str]:
        names = self.serving.certificate.extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
        return frozenset(str(name.value) for name in names.value)

    def data(self) -> dict[str, str]:
        """Return the ``data`` of a Secret, of the type kubernetes.io/tls with the authority beside it."""
        parts = {
            "ca.crt": self.bundle,
            "ca.key": self.authority.key_pem,
            "tls.crt": self.chain,
            "tls.key": self.serving.key_pem,
        }
        return {key: base64.b64encode(value).decode() for key, value in parts.items()}

    @classmethod
    def from_data(cls, data: Mapping[str, str] | None) -> CertificateSet:
        """Raise UnusableSecret, saying why, never with a key."""
        try:
            parts = {key: base64.b64decode(value) for key, value in (data or {}).items()}
            authority, *previous = x509.load_pem_x509_certificates(parts["ca.crt"])
            serving, *crosses = x509.load_pem_x509_certificates(parts["tls.crt"])
            result = cls(
                KeyPair(authority, _key(parts["ca.key"])),
                KeyPair(serving, _key(parts["tls.key"])),
                tuple(previous),
                tuple(crosses),
            )
        except KeyError as error:
            raise UnusableSecret(f"it has no {error.args[0]}") from None
        except (ValueError, TypeError, binascii.Error):
            raise UnusableSecret("it holds something that is no certificate or key") from None
        result._check()
        return result

    def _check(self) -> None:
        for name, pair in (("ca", self.authority), ("tls", self.serving)):
            if pair.certificate.public_key() != pair.key.public_key():
                raise UnusableSecret(f"{name}.crt and {name}.key do not belong together")
        try:
            self.serving.certificate.verify_directly_issued_by(self.authority.certificate)
        except (ValueError, TypeError, InvalidSignature):
            raise UnusableSecret("tls.crt is not signed by the first of ca.crt") from None


def _key(data: bytes) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(data, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError("not an elliptic curve key")
    return key


def following(
    current: CertificateSet | None,
    hosts: Sequence[str],
    now: datetime,
    options: RotationOptions,
    *,
    name: str = "webhooks",
) -> CertificateSet:
    """Return what the set should be at ``now``; ``current`` itself if nothing changes."""
    if current is None or current.authority.certificate.not_valid_after_utc <= now:
        authority = make_authority(name, now, options.authority_lifetime)
        return CertificateSet(authority, issue(authority, hosts, now, options.serving_lifetime))
    current = _without_the_past(current, now, options)
    if _end(current.authority, options.authority_renewal) <= now:
        return _succeeded(current, hosts, now, options, name)
    wanted = current.hosts == frozenset(hosts)
    if not wanted or _end(current.serving, options.serving_renewal) <= now:
        serving = issue(current.authority, hosts, now, options.serving_lifetime)
        return replace(current, serving=serving)
    return current


def due(current: CertificateSet, options: RotationOptions) -> datetime:
    """When there is something to do next."""
    times = [
        _end(current.authority, options.authority_renewal),
        _end(current.serving, options.serving_renewal),
    ]
    if current.previous:
        times.append(_begin(current.authority) + options.overlap)
    return min(times)


def _succeeded(
    current: CertificateSet,
    hosts: Sequence[str],
    now: datetime,
    options: RotationOptions,
    name: str,
) -> CertificateSet:
    """Return a new authority, the one before trusted for the overlap, and a certificate that both vouch for."""
    authority = make_authority(name, now, options.authority_lifetime)
    return CertificateSet(
        authority,
        issue(authority, hosts, now, options.serving_lifetime),
        (current.authority.certificate, *current.previous),
        (cross_sign(authority, current.authority, now), *current.crosses),
    )


def _without_the_past(
    current: CertificateSet, now: datetime, options: RotationOptions
) -> CertificateSet:
    over = _begin(current.authority) + options.overlap <= now
    if not (over and current.previous):
        return current
    return replace(current, previous=(), crosses=())


def _begin(pair: KeyPair) -> datetime:
    return pair.certificate.not_valid_before_utc + BACKDATE


def _end(pair: KeyPair, renewal: timedelta) -> datetime:
    """When ``pair`` is to be replaced."""
    return pair.certificate.not_valid_after_utc - renewal

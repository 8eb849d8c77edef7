"""The kubeconfig of a data plane, as its Secret has it. Pure but for the time."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from apis.fleet import Reason
from apis.fleet.labels import KUBECONFIG_KEY, KUBECONFIG_SECRET
from ctrlruntime.client.config import Config, ConfigError
from ctrlruntime.client.kubeconfig import Kubeconfig
from internal.fleet.targets import TargetError

LARGEST: Final = 256 * 1024
"""Bytes of a kubeconfig. One with one context takes less than 10 KiB."""
_WARNING: Final = timedelta(days=14)
MISSING: Final = f"Data plane kubeconfig secret {KUBECONFIG_SECRET} is missing"


@dataclass(frozen=True, slots=True)
class PlaneAccess:
    """How to reach a data plane."""

    digest: str
    """Hash of the kubeconfig."""
    config: Config
    expires: datetime | None
    """When the client certificate ends."""
    warns: datetime | None = None
    """From when that is shown: for the last tenth of its life, at most 14 days."""

    def ending(self, now: datetime) -> str:
        """Return that the client certificate ends soon; empty while it does not."""
        if self.expires is None or self.warns is None or now < self.warns:
            return ""
        return (
            f"the client certificate in Secret {KUBECONFIG_SECRET} expires at {self.expires:%Y-%m-%dT%H:%M:%SZ}; put a "
            "kubeconfig with a new one into the Secret before"
        )

    def check(self, now: datetime) -> None:
        """Raise TargetError if the client certificate has expired."""
        if self.expires is not None and self.expires <= now:
            raise TargetError(
                Reason.KUBECONFIG_INVALID,
                f"the client certificate in Secret {KUBECONFIG_SECRET} expired at {self.expires:%Y-%m-%dT%H:%M:%SZ}; "
                "put a kubeconfig with a new one into the Secret",
            )


def access_of(data: Mapping[str, Any]) -> PlaneAccess:
    """Read the `data` of the Secret. Raises TargetError, which shows none of the content."""
    encoded = data.get(KUBECONFIG_KEY)
    if not encoded:
        raise _refused(
            f"Secret {KUBECONFIG_SECRET} has no key {KUBECONFIG_KEY!r}; put the kubeconfig there"
        )
    try:
        content = base64.b64decode(str(encoded), validate=True)
    except (binascii.Error, ValueError):
        raise _refused(f"Secret {KUBECONFIG_SECRET} is not base64; write it again") from None
    return access_by(content)


def access_by(content: bytes) -> PlaneAccess:
    """Read a kubeconfig as it is mounted, by the rules of the Secret. Raises TargetError, which shows none of the content."""
    if len(content) > LARGEST:
        raise _refused(
            f"the kubeconfig in Secret {KUBECONFIG_SECRET} has {len(content):,} bytes, at most {LARGEST:,} are "
            "read; leave one context in it (kubectl config view --raw --minify)"
        )
    try:
        config = _config(content)
        certificate = config.auth.certificate
        begin, end = (None, None) if certificate is None else _life_of(certificate.certificate)
    except ConfigError as error:
        raise _refused(f"{error}") from None
    warns = None
    if begin is not None and end is not None:
        warns = end - min(_WARNING, (end - begin) / 10)
    return PlaneAccess(digest_of(content), config, end, warns)


def digest_of(content: bytes) -> str:
    """Return the hash by which a kubeconfig is compared with another one."""
    return hashlib.sha256(content).hexdigest()[:32]


def _config(content: bytes) -> Config:
    """Raise ConfigError."""
    try:
        parsed = Kubeconfig.parse(content, f"Secret {KUBECONFIG_SECRET}")
        config = Config.of_kubeconfig(parsed)
        if not config.host.startswith(("https://", "http://")):
            raise ConfigError("the kubeconfig's server is no URL; write it as https://host:port")
        config.ssl_context()
    except (AttributeError, KeyError, TypeError) as error:
        raise ConfigError(
            "it is no kubeconfig, its fields have other types; write it by kubectl config view --raw --flatten"
        ) from error
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ConfigError(
            f"its certificates cannot be used ({type(error).__name__}); write them as PEM in base64"
        ) from error
    return config


def _life_of(certificate: bytes) -> tuple[datetime, datetime]:
    from cryptography import x509  # 20 MiB, only where a certificate is given

    try:
        found = x509.load_pem_x509_certificate(certificate)
        return found.not_valid_before_utc, found.not_valid_after_utc
    except ValueError as error:
        raise ConfigError("its client certificate is no PEM; write it as PEM in base64") from error


def _refused(message: str) -> TargetError:
    return TargetError(Reason.KUBECONFIG_INVALID, message)

"""TLS of connections to databases: the settings of a registry, and the context that checks it."""

from __future__ import annotations

import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from apis.tenancy import DatabaseTLS, TLSMode
from internal.tenancy.sources.errors import InsecureConnection
from internal.tenancy.sources.source_type import SourceContext


@dataclass(frozen=True, slots=True, kw_only=True)
class TLSSettings:
    """PEM texts; `mode` as in the registry's `tls`."""

    mode: TLSMode = TLSMode.VERIFY_IDENTITY
    ca: str | None = None
    certificate: str | None = None
    key: str | None = field(default=None, repr=False)


async def read_tls(tls: DatabaseTLS | None, context: SourceContext) -> TLSSettings | None:
    """Read the Secrets that a registry's `tls` names. Raises SourceError for a missing one."""
    if tls is None:
        return None
    return TLSSettings(
        mode=tls.mode,
        ca=await context.secret(tls.ca_ref),
        certificate=await context.secret(tls.cert_ref),
        key=await context.secret(tls.key_ref),
    )


def client_context(tls: TLSSettings) -> ssl.SSLContext:
    """Return the TLS context that the settings describe. Raises InsecureConnection for unusable PEM texts."""
    try:
        made = ssl.create_default_context(cadata=tls.ca)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        made.check_hostname = tls.mode is TLSMode.VERIFY_IDENTITY
        if tls.mode is TLSMode.REQUIRED:
            made.verify_mode = ssl.CERT_NONE
        if tls.certificate and tls.key:
            _load_certificate(made, tls.certificate, tls.key)
    except (ssl.SSLError, ValueError):
        raise InsecureConnection("the certificates of the registry's tls are not usable") from None
    return made


def _load_certificate(made: ssl.SSLContext, certificate: str, key: str) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        Path(file.name).chmod(0o600)
        file.write(f"{certificate}\n{key}\n")
        file.flush()
        made.load_cert_chain(file.name)

"""A certificate authority of the server's own, for https and for tests of webhooks."""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

from ctrlruntime.clock import utc_now
from ctrlruntime.pki import KeyPair, issue, issue_client, make_authority

_LIFETIME: Final = timedelta(days=30)


class Authority:
    """Signs certificates of servers and clients with a key that lives in memory."""

    def __init__(self, name: str = "ctrlruntime-envtest") -> None:
        self._pair = make_authority(name, utc_now(), _LIFETIME)
        self.ca_data = self._pair.certificate_pem

    def issue(self, hosts: Sequence[str]) -> tuple[bytes, bytes]:
        """Return a certificate and its key (PEM) for the host names and addresses."""
        return _pem(issue(self._pair, hosts, utc_now(), _LIFETIME))

    def issue_client(self, name: str, groups: Sequence[str] = ()) -> tuple[bytes, bytes]:
        """Return a certificate and its key (PEM) that API servers accept for user `name` of `groups`."""
        return _pem(issue_client(self._pair, name, groups, utc_now(), _LIFETIME))

    @property
    def key_data(self) -> bytes:
        """The authority's own key (PEM), for a server that signs in its name."""
        return self._pair.key_pem

    def server_context(self, hosts: Sequence[str]) -> ssl.SSLContext:
        """Return a context that serves a fresh certificate for the hosts."""
        certificate, key = self.issue(hosts)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "server.pem"
            path.touch(mode=0o600)
            path.write_bytes(certificate + key)
            context.load_cert_chain(path)
        return context


def _pem(pair: KeyPair) -> tuple[bytes, bytes]:
    return pair.certificate_pem, pair.key_pem

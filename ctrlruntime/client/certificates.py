"""Certificates in files that are replaced while they are in use.

Authorities and clients roll their certificates over by writing new files (a Secret or ConfigMap
mount, cert-manager, kubelet). They are read again as soon as they differ; what does not fit together
yet is left alone, and the certificates of before are used a little longer.
"""

import copy
import ssl
from dataclasses import dataclass, field
from pathlib import Path

_Stamp = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """PEM data."""

    certificate: bytes
    key: bytes = field(repr=False)


class CertificateFiles:
    """A client certificate and its key."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Raise OSError where one cannot be read."""
        self._certificate = certificate
        self._key = key
        self._stamp = _stamp(certificate, key)
        self._current = self._read()
        self._generation = 0

    def renewed(self) -> "CertificateFiles":
        """Return an independent one for the same files, with the pair that this one uses now."""
        return copy.copy(self)

    @property
    def current(self) -> ClientCertificate:
        self._look()
        return self._current

    @property
    def generation(self) -> int:
        """Counts the replacements."""
        self._look()
        return self._generation

    def _look(self) -> None:
        try:
            stamp = _stamp(self._certificate, self._key)
            if stamp == self._stamp:
                return
            fresh = self._read()
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(self._certificate, self._key)
        except (OSError, ssl.SSLError):
            return  # half of it is written: the next request looks again
        self._stamp, self._current = stamp, fresh
        self._generation += 1

    def _read(self) -> ClientCertificate:
        return ClientCertificate(self._certificate.read_bytes(), self._key.read_bytes())


class CAFile:
    """The authorities that are trusted."""

    def __init__(self, path: Path) -> None:
        """Raise OSError where it cannot be read."""
        self._path = path
        self._stamp = _stamp(path)
        self._data = path.read_bytes()
        self._generation = 0

    @property
    def data(self) -> bytes:
        """PEM."""
        self._look()
        return self._data

    @property
    def generation(self) -> int:
        """Counts the replacements."""
        self._look()
        return self._generation

    def _look(self) -> None:
        try:
            stamp = _stamp(self._path)
            if stamp == self._stamp:
                return
            fresh = self._path.read_bytes()
            trust(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), fresh)
        except (OSError, ssl.SSLError):
            return
        self._stamp, self._data = stamp, fresh
        self._generation += 1


def trust(context: ssl.SSLContext, ca_data: bytes) -> None:
    """Have a context trust PEM data. Raises ssl.SSLError where there is no certificate in it."""
    context.load_verify_locations(cadata=ca_data.decode("ascii", "ignore"))


def _stamp(*paths: Path) -> _Stamp:
    """Return what differs once a file, or what a link leads to, was replaced."""
    found = [path.stat() for path in paths]
    return tuple((each.st_mtime_ns, each.st_ino, each.st_size) for each in found)

"""Certificates in files that are replaced while they are in use.

Authorities and clients roll their certificates over by writing new files (a Secret or ConfigMap
mount, cert-manager, kubelet). They are read again as soon as they differ; what does not fit together
yet is left alone, and the certificates of before are used a little longer.
"""

import copy
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")
_Stamp = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """PEM data."""

    certificate: bytes
    key: bytes = field(repr=False)


class _WatchedFiles(Generic[T]):
    """What was last read of files that fitted together."""

    def __init__(self, *paths: Path) -> None:
        """Raise OSError where one cannot be read."""
        self._paths = paths
        self._stamp = _stamp(*paths)
        self._current = self._read()
        self._generation = 0

    def _read(self) -> T:
        """Read the files. Raises OSError."""
        raise NotImplementedError

    def _check(self, fresh: T) -> None:
        """Raise ssl.SSLError for what cannot be used."""
        raise NotImplementedError

    @property
    def current(self) -> T:
        self._look()
        return self._current

    @property
    def generation(self) -> int:
        """Counts the replacements."""
        self._look()
        return self._generation

    def _look(self) -> None:
        try:
            stamp = _stamp(*self._paths)
            if stamp == self._stamp:
                return
            fresh = self._read()
            self._check(fresh)
        except (OSError, ssl.SSLError):
            return  # half of it is written: the next request looks again
        self._stamp, self._current = stamp, fresh
        self._generation += 1


class CertificateFiles(_WatchedFiles[ClientCertificate]):
    """A client certificate and its key."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Raise OSError where one cannot be read."""
        super().__init__(certificate, key)

    def renewed(self) -> "CertificateFiles":
        """Return an independent one for the same files, with the pair that this one uses now."""
        return copy.copy(self)

    def _read(self) -> ClientCertificate:
        certificate, key = self._paths
        return ClientCertificate(certificate.read_bytes(), key.read_bytes())

    def _check(self, fresh: ClientCertificate) -> None:
        certificate, key = self._paths
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certificate, key)


class CAFile(_WatchedFiles[bytes]):
    """The authorities that are trusted, as PEM."""

    def __init__(self, path: Path) -> None:
        """Raise OSError where it cannot be read."""
        super().__init__(path)

    def _read(self) -> bytes:
        return self._paths[0].read_bytes()

    def _check(self, fresh: bytes) -> None:
        trust(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), fresh)


def trust(context: ssl.SSLContext, ca_data: bytes) -> None:
    """Have a context trust PEM data. Raises ssl.SSLError where there is no certificate in it."""
    context.load_verify_locations(cadata=ca_data.decode("ascii", "ignore"))


def _stamp(*paths: Path) -> _Stamp:
    """Return what differs once a file, or what a link leads to, was replaced."""
    found = [path.stat() for path in paths]
    return tuple((each.st_mtime_ns, each.st_ino, each.st_size) for each in found)

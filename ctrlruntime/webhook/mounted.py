"""A certificate in a folder, as a mounted Secret has it, and its replacement while we run."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from ctrlruntime.webhook.metrics import CertificateMetrics
from ctrlruntime.webhook.tls import CertificateError, ServingTLS

__all__ = ["CertWatcher"]

PERIOD = 1.0
"""Seconds between looks at the files: two stat() calls each."""

Stamp = tuple[tuple[int, int, int], ...]


@dataclass(slots=True)
class CertWatcher:
    """Serves what lies in ``folder``, and what takes its place.

    A file may be written anew, renamed over, or reached by a link that is turned elsewhere. A pair
    that does not fit is logged and counted, and the one before stays in use.
    """

    folder: Path
    tls: ServingTLS
    metrics: CertificateMetrics
    logger: FilteringBoundLogger
    certificate_name: str = "tls.crt"
    key_name: str = "tls.key"
    period: float = PERIOD
    _seen: Stamp | None = None
    _trouble: str = ""

    async def prepare(self) -> None:
        """Load the pair for the first time. Raises CertificateError if there is none to serve."""
        await self._look()
        if not self.tls.loaded:
            raise CertificateError(
                f"there is no certificate to serve in {self.folder}: it takes "
                f"{self.certificate_name} and {self.key_name}, in PEM, that belong together"
            )

    async def run(self) -> None:
        """Follow the files until cancelled."""
        while True:
            await asyncio.sleep(self.period)
            await self._look()

    async def _look(self) -> None:
        """Read the files if they changed. A change that does not help is logged once, not at every check."""
        stamp: Stamp | None = None
        try:
            stamp = self._stamp()
            if stamp == self._seen:
                return
            self.metrics.reads.inc()
            pair = await asyncio.to_thread(self._read)
            if self.tls.load(*pair):
                self.logger.info("Certificate loaded", folder=str(self.folder))
            self._trouble = ""
        except (OSError, CertificateError) as error:
            if str(error) != self._trouble or stamp is not None:
                self.metrics.errors.inc()
                self.logger.error(
                    "Certificate not loaded", folder=str(self.folder), error=str(error)
                )
            self._trouble = str(error)
        self._seen = stamp

    def _read(self) -> tuple[bytes, bytes]:
        certificate = (self.folder / self.certificate_name).read_bytes()
        return certificate, (self.folder / self.key_name).read_bytes()

    def _stamp(self) -> Stamp:
        files = [(self.folder / name).stat() for name in (self.certificate_name, self.key_name)]
        return tuple((file.st_ino, file.st_mtime_ns, file.st_size) for file in files)

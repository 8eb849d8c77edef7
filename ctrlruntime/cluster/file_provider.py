"""Clusters by kubeconfig files in a directory."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Final

from ctrlruntime.client.config import Config
from ctrlruntime.client.kubeconfig import Kubeconfig
from ctrlruntime.cluster.cluster import ClusterOptions
from ctrlruntime.cluster.provider import ClusterSync, Engager, OnFailure, Wanted

INTERVAL: Final = 1.0
"""Seconds between two looks at the directory: one stat() for each file."""

_Stamps = dict[Path, tuple[int, int, int]]


class FileProvider:
    """Engages a cluster for each file of a directory that fits a pattern; the file's name without its suffix is the cluster's.

    A file holds a kubeconfig, of which the current context counts; files that it names are relative to
    it. A file that was changed, replaced or reached by a link that now leads elsewhere (a mounted
    Secret) engages its cluster again if the content differs. A removed one disengages it. One that
    cannot be used is logged, and the cluster stays as it is. A directory that cannot be read changes
    nothing either.
    """

    def __init__(
        self,
        directory: Path,
        *,
        pattern: str = "*.kubeconfig",
        interval: float = INTERVAL,
        context: str | None = None,
        options: ClusterOptions | None = None,
    ) -> None:
        """`interval` is the number of seconds between two looks at the directory."""
        self._directory = directory
        self._pattern = pattern
        self._interval = interval
        self._context = context
        self._options = options
        self._trouble = ""

    async def run(self, engager: Engager) -> None:
        """Engage clusters until cancelled."""

        def report(name: str, reason: str) -> None:
            engager.logger.error("Cluster not engaged by its file", cluster=name, error=reason)

        sync = ClusterSync(engager, self._options, report)
        seen: _Stamps = {}
        try:
            while True:
                try:
                    found = await asyncio.to_thread(self._stamps)
                    self._trouble = ""
                except OSError as error:
                    if str(error) != self._trouble:
                        self._trouble = str(error)
                        engager.logger.error("Kubeconfigs cannot be read", error=self._trouble)
                    found = seen
                if found != seen:
                    seen = await self._compare(sync, report, seen, found)
                await asyncio.sleep(self._interval)
        finally:
            await sync.close()

    async def _compare(
        self, sync: ClusterSync, report: OnFailure, seen: _Stamps, found: _Stamps
    ) -> _Stamps:
        """Pass on what differs, and return the stamps of what was read."""
        read = dict(found)
        for path in sorted(found):
            if found[path] == seen.get(path):
                continue
            try:
                content = await asyncio.to_thread(path.read_bytes)
            except FileNotFoundError:  # removed meanwhile: the next look finds it as it is then
                read.pop(path)
                continue
            except OSError as error:
                report(path.stem, f"cannot read {path}: {error.strerror}")
                continue
            sync.want(path.stem, self._wanted(path, content))
        for name in sync.names - {path.stem for path in found}:
            sync.drop(name)
        return read

    def _wanted(self, path: Path, content: bytes) -> Wanted:
        def load() -> Config:
            return Config.of_kubeconfig(Kubeconfig.read([path]), self._context)

        return Wanted(hashlib.sha256(content).hexdigest(), load)

    def _stamps(self) -> _Stamps:
        """Return inode, time of change and size of each file. Raises OSError."""
        self._directory.stat()  # glob() finds nothing in a directory that is missing
        stamps: _Stamps = {}
        for path in self._directory.glob(self._pattern):
            try:
                stat = path.stat()
            except FileNotFoundError:
                continue
            stamps[path] = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        self._directory.stat()  # where it went meanwhile, that files were not found means nothing
        return stamps

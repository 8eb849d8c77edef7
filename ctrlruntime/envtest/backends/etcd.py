"""etcd with one member, for API servers under test."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp

from ctrlruntime.clock import random_hex
from ctrlruntime.envtest.backends.flags import Flags, flag_list
from ctrlruntime.envtest.backends.ports import LOOPBACK
from ctrlruntime.envtest.backends.server_on_port import ServerOnPort
from ctrlruntime.envtest.process import ChildProcess
from ctrlruntime.json import Json

_TIMEOUT = aiohttp.ClientTimeout(total=5)


class Etcd:
    """A member without fsync; its data end with `stop`."""

    def __init__(
        self,
        binary: Path,
        folder: Path,
        *,
        flags: Mapping[str, str | None] | None = None,
        timeout: float = 120.0,
        first_port: int | None = None,
    ) -> None:
        self._binary = binary
        self._flags = dict(flags or {})
        self._name = f"envtest-{random_hex(8)}"
        self._data = Path(tempfile.mkdtemp(prefix="etcd-", dir=folder))
        self._server = ServerOnPort(
            "etcd",
            self._command,
            self._is_ours,
            log=folder / "etcd.log",
            timeout=timeout,
            grace=10,
            first_port=first_port,
        )

    @property
    def url(self) -> str:
        return f"http://{self._server.address}"

    @property
    def process(self) -> ChildProcess:
        """Raises RuntimeError before `start`."""
        if self._server.process is None:
            raise RuntimeError("etcd was not started")
        return self._server.process

    async def start(self) -> None:
        """Return once it answers. A second call brings back one that was killed, data and all."""
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop()
        shutil.rmtree(self._data, ignore_errors=True)

    async def save(self, folder: Path) -> None:
        """Copy what it holds into a new folder, as a backup would; it stands still meanwhile."""
        await self._server.stop()
        await asyncio.to_thread(shutil.copytree, self._data, folder)
        await self._server.start()

    async def restore(self, folder: Path) -> None:
        """Go on with what `save` copied: later revisions never were."""
        await self._server.stop()
        await asyncio.to_thread(shutil.rmtree, self._data)
        await asyncio.to_thread(shutil.copytree, folder, self._data)
        await self._server.start()

    async def compact(self) -> int:
        """Forget all revisions but the last, and return that one."""
        found = await self._call(self._server.port, "kv/range", {"key": "AA=="})
        revision = int(found["header"]["revision"])
        await self._call(
            self._server.port, "kv/compaction", {"revision": revision, "physical": True}
        )
        return revision

    def _command(self, port: int) -> Sequence[str]:
        url = f"http://{LOOPBACK}:{port}"
        flags: Flags = {
            "name": self._name,
            "data-dir": str(self._data),
            "listen-client-urls": url,
            "advertise-client-urls": url,
            "listen-peer-urls": f"http://{LOOPBACK}:0",
            "unsafe-no-fsync": "true",
            # What is written is in the log at once; into the database it goes less often than ten times a second.
            "backend-batch-interval": "1s",
            "quota-backend-bytes": str(4 << 30),
            "logger": "zap",
            "log-level": "warn",
            **self._flags,
        }
        return [str(self._binary), *flag_list(flags)]

    async def _is_ours(self, port: int) -> bool:
        """Whether it is this member that answers, and no other etcd that took the port."""
        try:
            found = await self._call(port, "cluster/member/list", {})
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return False
        return [member.get("name") for member in found.get("members", ())] == [self._name]

    async def _call(self, port: int, method: str, body: dict[str, Any]) -> Json:
        async with (
            aiohttp.ClientSession(timeout=_TIMEOUT) as session,
            session.post(f"http://{LOOPBACK}:{port}/v3/{method}", json=body) as answer,
        ):
            answer.raise_for_status()
            return await answer.json(content_type=None)

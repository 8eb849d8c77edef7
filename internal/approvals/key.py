"""The key that records of approvals are signed with, shared by all managers of an installation."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from structlog.typing import FilteringBoundLogger

from ctrlruntime.api.kinds import GroupVersionKind, Manifest
from ctrlruntime.client import APIError, Client, Conflict, NotFound, TransportError
from ctrlruntime.client.auth import AuthError
from ctrlruntime.clock import random_bytes
from ctrlruntime.manager import Group
from internal.approvals.judge import Recorder

KEY: Final = "approvals.key"
"""Key of the Secret, and name of the file in a folder of certificates."""
SHORTEST: Final = 32
"""Bytes of a key."""
LARGEST: Final = 4096
RETRY: Final = 2.0
"""Seconds between two tries to get the key."""
PATIENCE: Final = 10.0
"""Seconds that the start waits for it. Without it the manager runs, and no approval counts."""
SECRET: Final = GroupVersionKind("", "v1", "Secret")
SELF: Final = GroupVersionKind("authentication.k8s.io", "v1", "SelfSubjectReview")


class NoKey(Exception):
    """There is no key yet; the message has what to do."""


@dataclass(slots=True)
class ApprovalKey:
    """Gets the key: from the Secret of the webhooks' certificates, or from the folder of one that is mounted."""

    client: Client
    logger: FilteringBoundLogger
    namespace: str = ""
    secret: str = ""
    folder: Path | None = None
    current: Recorder = field(
        default_factory=lambda: Recorder(
            trouble="the key of records is not read yet: wait a moment"
        )
    )
    changed: list[Callable[[], None]] = field(default_factory=list)
    """Called when there is a key."""
    _first: asyncio.Event = field(default_factory=asyncio.Event)

    runnable_group = Group.WEBHOOKS

    def recorder(self) -> Recorder:
        """Return what is known now."""
        return self.current

    async def wait_ready(self) -> None:
        """Return once there is a key, or after a while without."""
        try:
            async with asyncio.timeout(PATIENCE):
                await self._first.wait()
        except TimeoutError:
            return

    async def start(self) -> None:
        """Get the key, trying until it succeeds, and follow its Secret until cancelled."""
        while True:
            try:
                await self._get()
                await self._follow()
            except (NoKey, APIError, TransportError, AuthError, TimeoutError) as error:
                if self.current.trouble != str(error):
                    self.logger.warning("The key of approvals is not read", error=str(error))
                if not self.current.key:
                    self.current = Recorder(trouble=str(error))
            await asyncio.sleep(RETRY)

    async def _get(self) -> None:
        folder = self.folder
        key = await self._of_secret() if folder is None else _of_folder(folder)
        if key != self.current.key:
            self._use(Recorder(key=key, user=await self._user()))

    async def _follow(self) -> None:
        """Return once the Secret has another key, or none; a file is read at the start alone."""
        if self.folder is not None:
            await asyncio.Event().wait()
        fields = f"metadata.name={self.secret}"
        async with aclosing(self.client.watch(SECRET, self.namespace, fields=fields)) as events:
            async for kind, found in events:
                mine = base64.b64encode(self.current.key).decode()
                if kind == "DELETED" or (found.get("data") or {}).get(KEY) != mine:
                    return

    def _use(self, found: Recorder) -> None:
        self.current = found
        self._first.set()
        for call in self.changed:
            call()

    async def _user(self) -> str:
        """Return the name of the manager's own account."""
        request: Manifest = {"apiVersion": SELF.api_version, "kind": SELF.kind, "metadata": {}}
        review = await self.client.create(request)
        return str(review["status"]["userInfo"]["username"])

    async def _of_secret(self) -> bytes:
        """Read the key, or make it. Who loses the race takes what the winner wrote."""
        place = f"Secret {self.namespace}/{self.secret}"
        try:
            found = await self.client.get(SECRET, self.secret, namespace=self.namespace)
        except NotFound:
            raise NoKey(f"{place} is not there yet: it comes with the certificates") from None
        data: Manifest = found.get("data") or {}
        if KEY not in data:
            key = self.current.key or random_bytes(SHORTEST)
            made = base64.b64encode(key).decode()
            try:
                await self.client.update({**found, "data": {**data, KEY: made}})
            except Conflict:
                raise NoKey(f"{place} was changed meanwhile: it is read again") from None
            data = {KEY: made}
        try:
            return _checked(base64.b64decode(data[KEY], validate=True), place)
        except binascii.Error:
            raise NoKey(_remove(place)) from None


def _of_folder(folder: Path) -> bytes:
    path = folder / KEY
    try:
        with path.open("rb") as file:
            found = file.read(LARGEST + 1)
    except OSError as error:
        raise NoKey(
            f"{path}: {error.strerror}: put {SHORTEST} random bytes there, such as with "
            f"`head -c {SHORTEST} /dev/urandom > {path}`"
        ) from None
    return _checked(found, str(path))


def _checked(found: bytes, place: str) -> bytes:
    if not SHORTEST <= len(found) <= LARGEST:
        raise NoKey(_remove(place))
    return found


def _remove(place: str) -> str:
    return f"{place}: {KEY} is no key of {SHORTEST} bytes or more: remove it, and a new one is made"

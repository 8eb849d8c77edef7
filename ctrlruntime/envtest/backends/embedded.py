"""The embedded API server: in this process, or as a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from ctrlruntime.envtest.backends.backend import BackendOptions, Version
from ctrlruntime.envtest.process import ChildProcess
from ctrlruntime.envtest.server import APIServer, ServerOptions
from ctrlruntime.envtest.server import User as ServerUser
from ctrlruntime.envtest.server.dispatch import VERSION
from ctrlruntime.envtest.users import Identity, User, write_token_file

MODELLED: Version = (int(VERSION["major"]), int(VERSION["minor"]))
"""The release that the embedded server's answers follow."""


def server_tokens(users: Iterable[User]) -> dict[str, ServerUser]:
    """Return the embedded server's token table."""
    return {u.token: ServerUser(name=u.name, groups=u.groups, uid=u.uid) for u in users}


class EmbeddedBackend:
    """The server on this event loop; `server` options are those of ServerOptions."""

    def __init__(self, options: BackendOptions) -> None:
        self._tokens = server_tokens(options.users)
        self.server = APIServer(
            ServerOptions(
                tls=options.tls,
                tokens=self._tokens,
                authorization=options.authorization or "AlwaysAllow",
                **options.server,
            )
        )

    async def start(self) -> None:
        await self.server.start()

    async def stop(self) -> None:
        await self.server.stop()

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def ca_data(self) -> bytes | None:
        return self.server.ca_data

    @property
    def version(self) -> Version:
        return MODELLED

    def identity(self, user: User) -> Identity:
        return Identity(token=user.token)

    def add_users(self, users: Iterable[User]) -> None:
        """Their tokens are good from now on."""
        self._tokens.update(server_tokens(users))

    def remove_users(self, users: Iterable[User]) -> None:
        """Their tokens are refused from now on."""
        for user in users:
            self._tokens.pop(user.token, None)


class EmbeddedProcessBackend:
    """`python -m ctrlruntime.envtest` as a child process; `server` may name `port` and `watch_history` (MiB)."""

    def __init__(self, options: BackendOptions) -> None:
        self._options = options
        self._child: ChildProcess | None = None

    async def start(self) -> None:
        options = self._options
        tokens = options.folder / "tokens.csv"
        write_token_file(tokens, options.users)
        command = [sys.executable, "-m", "ctrlruntime.envtest", "--tokens", str(tokens)]
        command += ["--authorization", options.authorization or "AlwaysAllow"]
        command += ["--port", str(options.server.get("port", 0))]
        if "watch_history" in options.server:
            command += ["--watch-history", str(options.server["watch_history"])]
        if options.tls:
            command.append("--tls")
        self._child = await ChildProcess.start(command, log=options.folder / "apiserver.log")

    async def stop(self) -> None:
        if self._child is not None:
            await self._child.stop()
            self._child = None

    @property
    def child(self) -> ChildProcess:
        """The server's process. Raises RuntimeError while there is none."""
        if self._child is None:
            raise RuntimeError("the API server is not running: call start() first")
        return self._child

    @property
    def url(self) -> str:
        return str(self.child.facts["url"])

    @property
    def ca_data(self) -> bytes | None:
        ca = self.child.facts["ca"]
        return ca.encode() if ca else None

    @property
    def version(self) -> Version:
        return MODELLED

    def identity(self, user: User) -> Identity:
        return Identity(token=user.token)

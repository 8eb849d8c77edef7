"""A server that runs already: users, proxy and nodes are put around it, it is never stopped."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Protocol

import orjson

from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.envtest.backends.backend import (
    Backend,
    BackendOptions,
    SignsClients,
    TakesUsers,
    Version,
)
from ctrlruntime.envtest.backends.versions import parse_version
from ctrlruntime.envtest.users import Identity, User


class HasBackend(Protocol):
    """An environment that runs on a backend."""

    @property
    def backend(self) -> Backend:
        """The backend it runs on."""


def existing(target: HasBackend | Backend | Config) -> Callable[[BackendOptions], Backend]:
    """`Environment(backend=existing(other))`: attaches to a server that runs.

    The server of another environment or backend learns the new environment's users for as long as
    that lasts. Of a server known by a Config nothing is changed: the users are impersonated by whom
    the Config belongs to, an administrator, so that each can be in one group at most.
    """

    def factory(options: BackendOptions) -> Backend:
        if isinstance(target, Config):
            return ConfiguredBackend(target)
        return AttachedBackend(target if isinstance(target, Backend) else target.backend, options)

    return factory


class AttachedBackend:
    """The server of another backend, with users of its own while it is attached."""

    def __init__(self, target: Backend, options: BackendOptions) -> None:
        self.target = target
        self._users = options.users

    async def start(self) -> None:
        """Raise TypeError where the server's users are fixed."""
        if not isinstance(self.target, TakesUsers):
            raise TypeError(f"{type(self.target).__name__} takes no more users while it runs")
        self.target.add_users(self._users)

    async def stop(self) -> None:
        if isinstance(self.target, TakesUsers):
            self.target.remove_users(self._users)

    @property
    def url(self) -> str:
        return self.target.url

    @property
    def ca_data(self) -> bytes | None:
        return self.target.ca_data

    @property
    def version(self) -> Version:
        return self.target.version

    def identity(self, user: User) -> Identity:
        return self.target.identity(user)

    def certified(self, user: User) -> Identity:
        """Raise RuntimeError where the server accepts no client certificates."""
        if not isinstance(self.target, SignsClients):
            raise RuntimeError("this server accepts no client certificates: only a real one does")
        return self.target.certified(user)


class ConfiguredBackend:
    """A server that others run, through an administrator's Config."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._token: str | None = None
        self._version: Version = (0, 0)

    async def start(self) -> None:
        """Raise what the client raises where the server does not answer."""
        async with Client.connect(self._config) as client:
            answer = await client.transport.request("GET", "/version")
        self._version = parse_version(orjson.loads(answer.body)["gitVersion"])
        headers = await self._config.auth.headers()
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        self._token = token if scheme == "Bearer" else None

    async def stop(self) -> None:
        """Do nothing: the server goes on."""

    @property
    def url(self) -> str:
        return self._config.host

    @property
    def ca_data(self) -> bytes | None:
        return self._config.ca_data

    @property
    def version(self) -> Version:
        return self._version

    def identity(self, user: User) -> Identity:
        certificate = self._config.auth.certificate
        return Identity(token=self._token, certificate=certificate, acting_as=user)

    def proxy_context(self) -> ssl.SSLContext | None:
        """Return a proxy presents the administrator's certificate: its own clients' ends there."""
        return self._config.ssl_context()

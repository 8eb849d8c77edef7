"""The seam between an environment and the API server it runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from ctrlruntime.envtest.users import Identity, User

Version = tuple[int, int]
"""Major and minor of the Kubernetes release that a server is, or models."""


@dataclass(frozen=True, kw_only=True)
class BackendOptions:
    """What every backend has to respect.

    `folder` is the environment's own, for logs and state. `users` are the bearer tokens the
    server shall know. `authorization` is None where the backend's own default will do. `server` holds
    options of the one backend in use, by name.
    """

    folder: Path
    users: tuple[User, ...]
    tls: bool = False
    authorization: Literal["AlwaysAllow", "RBAC"] | None = None
    server: dict[str, Any] = field(default_factory=dict)


@runtime_checkable
class Backend(Protocol):
    """An API server under an environment's control."""

    async def start(self) -> None:
        """Return once requests are answered. Raises with what to do where that fails."""

    async def stop(self) -> None:
        """Leave no process and no listener behind; may be called twice."""

    @property
    def url(self) -> str:
        """Where it serves, on loopback; known after `start`."""

    @property
    def ca_data(self) -> bytes | None:
        """The CA (PEM) that signed its certificate; None over plain http."""

    @property
    def version(self) -> Version:
        """The release its answers follow; known after `start`."""

    def identity(self, user: User) -> Identity:
        """Return the credentials of `user`; available after `start`."""


@runtime_checkable
class SignsClients(Protocol):
    """A backend whose server takes client certificates of its authority."""

    def certified(self, user: User) -> Identity:
        """`user` by a new client certificate."""


@runtime_checkable
class TakesUsers(Protocol):
    """A backend whose server accepts new users while it runs."""

    def add_users(self, users: Iterable[User]) -> None: ...

    def remove_users(self, users: Iterable[User]) -> None: ...

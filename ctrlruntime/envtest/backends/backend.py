"""The seam between an environment and the API server it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from ctrlruntime.envtest.users import User


@dataclass(frozen=True, kw_only=True)
class BackendOptions:
    """What every backend has to respect.

    `folder` is the environment's own, for logs and state. `users` are the bearer tokens the
    server shall know. `server` holds options of the one backend in use, by name.
    """

    folder: Path
    users: tuple[User, ...]
    tls: bool = False
    authorization: Literal["AlwaysAllow", "RBAC"] = "AlwaysAllow"
    server: dict[str, Any] = field(default_factory=dict)


class Backend(Protocol):
    """An API server under an environment's control."""

    async def start(self) -> None:
        """Returns once requests are answered. Raises with what to do where that fails."""

    async def stop(self) -> None:
        """Leaves no process and no listener behind; may be called twice."""

    @property
    def url(self) -> str:
        """Where it serves, on loopback; known after `start`."""

    @property
    def ca_data(self) -> bytes | None:
        """The CA (PEM) that signed its certificate; None over plain http."""

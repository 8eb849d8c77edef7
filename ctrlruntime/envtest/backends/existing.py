"""A server that runs already: users, proxy and nodes are put around it, it is never stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlruntime.client.auth import ClientCertificate
from ctrlruntime.envtest.backends.backend import (
    Backend,
    BackendOptions,
    SignsClients,
    TakesUsers,
    Version,
)
from ctrlruntime.envtest.users import User

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlruntime.envtest.environment import Environment


def existing(target: Environment | Backend) -> Callable[[BackendOptions], Backend]:
    """`Environment(backend=existing(other))`: attaches to the server of `other`, which runs."""

    def factory(options: BackendOptions) -> Backend:
        backend = target if isinstance(target, Backend) else target.backend
        return ExistingBackend(backend, options)

    return factory


class ExistingBackend:
    """The server of another backend, with users of its own while it is attached."""

    def __init__(self, target: Backend, options: BackendOptions) -> None:
        self.target = target
        self._users = options.users

    async def start(self) -> None:
        """Raises TypeError where the server's users are fixed."""
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

    def client_certificate(self, user: User) -> ClientCertificate:
        """Raises RuntimeError where the server knows no client certificates."""
        if not isinstance(self.target, SignsClients):
            raise RuntimeError("this server knows no client certificates: only a real one does")
        return self.target.client_certificate(user)

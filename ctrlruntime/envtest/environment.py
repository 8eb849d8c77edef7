"""A test environment: an API server, users, optionally a proxy and simulated nodes."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.envtest import crds, webhooks
from ctrlruntime.envtest.backends import (
    ApiextensionsBackend,
    Backend,
    BackendOptions,
    ConfiguredBackend,
    EmbeddedBackend,
    EmbeddedProcessBackend,
    KubeApiserverBackend,
    SignsClients,
)
from ctrlruntime.envtest.kubeconfig import mark_server, write_kubeconfig
from ctrlruntime.envtest.process import ChildProcess
from ctrlruntime.envtest.proxy import Proxy, ProxyOptions, server_context
from ctrlruntime.envtest.server.certificates import Authority
from ctrlruntime.envtest.users import Identity, User, administrator

BackendFactory = Callable[[BackendOptions], Backend]

BACKENDS: dict[str, BackendFactory] = {
    "embedded": EmbeddedBackend,
    "embedded-process": EmbeddedProcessBackend,
    "kube-apiserver": KubeApiserverBackend,
    "apiextensions": ApiextensionsBackend,
}

ENVTEST = "envtest"
"""The user of the environment's own calls; they go past the proxy."""
NODES = "nodes"
"""The user of the simulated nodes; they go past the proxy too."""


class Environment:
    """An API server for tests and demonstrations, with everything around it.

        async with Environment(proxy=True) as env:
            await env.install_crds(Tenant)
            client = env.client("manager")

    `backend` is a name (`embedded`: on this loop; `embedded-process`: a process of its own;
    `kube-apiserver`: the real one; `apiextensions`: the current server of custom resources), or
    `existing(...)`, or a factory of something that keeps the Backend protocol. `authorization` is
    RBAC by default where the server is a real one, AlwaysAllow where it is embedded. `users` are names (administrators then)
    or Users. With `proxy` (True or ProxyOptions) all users but the environment's own reach the
    server through `env.proxy`. With `nodes` simulated nodes run as a process; `run_local` lets
    them run the commands of annotated Pods. kubectl sends no token over plain http: where
    its user matters, use `tls`. `folder` keeps logs and kubeconfigs; without
    one they go with the environment.
    """

    def __init__(
        self,
        backend: str | BackendFactory = "embedded",
        *,
        tls: bool = False,
        authorization: Literal["AlwaysAllow", "RBAC"] | None = None,
        users: Iterable[str | User] = ("admin", "manager"),
        proxy: bool | ProxyOptions = False,
        nodes: bool = False,
        pods: bool = True,
        run_local: bool = False,
        folder: Path | None = None,
        server: dict[str, Any] | None = None,
    ) -> None:
        self._factory = _factory(backend)
        self._tls = tls
        self._authorization = authorization
        self._users = {user.name: user for user in map(_user, users)}
        for name in (ENVTEST, NODES):
            self._users.setdefault(name, administrator(name))
        self._proxy_options = ProxyOptions() if proxy is True else proxy or None
        self._with_nodes = nodes
        self._pods = pods
        self._run_local = run_local
        self._folder_given = folder
        self._folder: Path | None = None
        self._server_options = dict(server or {})
        self._stack = AsyncExitStack()
        self._backend: Backend | None = None
        self._proxy: Proxy | None = None
        self._proxy_ca: bytes | None = None
        self._clients: dict[str, Client] = {}
        self.nodes: ChildProcess | None = None

    async def __aenter__(self) -> Environment:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start everything; what had started is stopped again if a part fails."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        self._folder = self._make_folder()
        options = BackendOptions(
            folder=self._folder,
            users=tuple(self._users.values()),
            tls=self._tls,
            authorization=self._authorization,
            server=self._server_options,
        )
        self._backend = self._factory(options)
        self._stack.push_async_callback(self._backend.stop)
        await self._backend.start()
        if self._proxy_options is not None:
            await self._start_proxy(self._proxy_options, self._backend)
        if not isinstance(self._backend, ConfiguredBackend):
            mark_server(self._folder, self._backend.url)
        if self._with_nodes:
            await self._start_nodes()

    async def stop(self) -> None:
        """Stop everything in reverse order."""
        clients = list(self._clients.values())
        self._clients.clear()
        await asyncio.gather(*(client.close() for client in clients))
        await self._stack.aclose()
        self._backend = self._proxy = self.nodes = None

    # What runs

    @property
    def backend(self) -> Backend:
        """Raises RuntimeError while the environment is not running."""
        if self._backend is None:
            raise RuntimeError("the environment is not running: use it as `async with`")
        return self._backend

    @property
    def proxy(self) -> Proxy:
        """Raises RuntimeError where the environment has none."""
        if self._proxy is None:
            raise RuntimeError("there is no proxy: start the environment with proxy=True")
        return self._proxy

    @property
    def folder(self) -> Path:
        """Logs, kubeconfigs and tokens."""
        if self._folder is None:
            raise RuntimeError("the environment is not running: use it as `async with`")
        return self._folder

    @property
    def url(self) -> str:
        """Where users reach the server: the proxy's URL, if there is one."""
        return self.backend.url if self._proxy is None else self._proxy.url

    # Users

    def user(self, name: str) -> User:
        """Raise KeyError naming the users there are."""
        try:
            return self._users[name]
        except KeyError:
            known = ", ".join(sorted(self._users))
            raise KeyError(
                f"no user {name!r}: name it in Environment(users=...); {known}"
            ) from None

    def config(self, user: str = "admin", *, direct: bool = False) -> Config:
        """How `user` reaches the server; with `direct`, or as the environment, past the proxy."""
        url, ca_data = self._address(user, direct)
        identity = self.backend.identity(self.user(user))
        return Config(
            host=url,
            ca_data=ca_data,
            auth=identity.auth(),
            user_agent=user,
            extra_headers=identity.headers(),
        )

    def client(self, user: str = "admin") -> Client:
        """Return a client of `user`, one for each user, closed with the environment."""
        if user not in self._clients:
            self._clients[user] = Client.connect(self.config(user))
        return self._clients[user]

    def kubeconfig(
        self, user: str = "admin", *, direct: bool = False, certificate: bool = False
    ) -> Path:
        """Return a kubeconfig file, for kubectl and for processes.

        With `certificate` the user is known by a client certificate instead of a token; that ends
        at a proxy, so it goes past it. Raises RuntimeError where the server has no authority.
        """
        url, ca_data = self._address(user, direct or certificate)
        known = self.user(user)
        identity = self._certified(known) if certificate else self.backend.identity(known)
        kind = ".certificate" if certificate else ".direct" if direct else ""
        path = self.folder / f"{user}{kind}.kubeconfig"
        return write_kubeconfig(path, url, ca_data, known, identity)

    def _certified(self, user: User) -> Identity:
        if not isinstance(self.backend, SignsClients):
            raise RuntimeError("this server accepts no client certificates: only a real one does")
        return self.backend.certified(user)

    def _address(self, user: str, direct: bool) -> tuple[str, bytes | None]:
        if self._proxy is None or direct or user in (ENVTEST, NODES):
            return self.backend.url, self.backend.ca_data
        return self._proxy.url, self._proxy_ca

    # Kinds

    async def install_crds(
        self, *sources: crds.CRDSource, timeout: float = 120.0
    ) -> list[RESTMapping]:
        """Install definitions (kinds, manifests, files, folders); return once they are served."""
        return await crds.install_crds(self.client(ENVTEST), sources, timeout=timeout)

    async def uninstall_crds(self, *sources: crds.CRDSource) -> None:
        await crds.uninstall_crds(self.client(ENVTEST), sources)

    async def serves(self, kind: GroupVersionKind) -> bool:
        """Whether the server has the kind just now: releases differ, definitions come and go."""
        return await crds.is_served(self.client(ENVTEST), kind)

    async def install_webhooks(
        self, *sources: webhooks.ConfigurationSource, url: str, ca_data: bytes
    ) -> None:
        """Install webhook configurations whose hooks are all served at `url` of this machine."""
        await webhooks.install_webhooks(self.client(ENVTEST), sources, url=url, ca_data=ca_data)

    async def uninstall_webhooks(self, *sources: webhooks.ConfigurationSource) -> None:
        await webhooks.uninstall_webhooks(self.client(ENVTEST), sources)

    # Parts

    def _make_folder(self) -> Path:
        if self._folder_given is not None:
            self._folder_given.mkdir(parents=True, exist_ok=True)
            return self._folder_given
        folder = Path(tempfile.mkdtemp(prefix="envtest-"))
        self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
        return folder

    def proxy_options(self, given: ProxyOptions | None = None) -> ProxyOptions:
        """Options of a proxy that accepts the users and trusts the server; plain http itself."""
        options = given or ProxyOptions()
        users = {u.token: u.name for u in self._users.values()} | dict(options.users)
        server_tls = options.server_tls or self._upstream_context()
        return replace(options, users=users, server_tls=server_tls)

    def _upstream_context(self) -> ssl.SSLContext | None:
        if isinstance(self.backend, ConfiguredBackend):
            return self.backend.proxy_context()
        ca_data = self.backend.ca_data
        return server_context(ca_data) if ca_data else None

    async def _start_proxy(self, given: ProxyOptions, backend: Backend) -> None:
        options = self.proxy_options(given)
        if self._tls and options.tls is None:
            authority = Authority("envtest proxy")
            self._proxy_ca = authority.ca_data
            options = replace(options, tls=authority.server_context([given.host, "localhost"]))
        self._proxy = Proxy(backend.url, options)
        self._stack.push_async_callback(self._proxy.stop)
        await self._proxy.start()

    async def _start_nodes(self) -> None:
        command = [sys.executable, "-m", "ctrlruntime.envtest.nodes"]
        command += ["--kubeconfig", str(self.kubeconfig(NODES))]
        command += [] if self._pods else ["--no-pods"]
        command += ["--run-local"] if self._run_local else []
        self.nodes = await ChildProcess.start(command, log=self.folder / "nodes.log")
        self._stack.push_async_callback(self.nodes.stop)


def _factory(backend: str | BackendFactory) -> BackendFactory:
    if not isinstance(backend, str):
        return backend
    try:
        return BACKENDS[backend]
    except KeyError:
        known = ", ".join(sorted(BACKENDS))
        raise ValueError(f"no backend {backend!r}; there are {known}") from None


def _user(given: str | User) -> User:
    return administrator(given) if isinstance(given, str) else given

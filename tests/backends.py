"""The API servers that tests share: started once in each worker, tied to no event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

from ctrlruntime.client.config import Config
from ctrlruntime.envtest import Environment, administrator
from ctrlruntime.envtest.backends import (
    ApiextensionsBackend,
    BackendOptions,
    KubeApiserverBackend,
    Version,
    existing,
)
from ctrlruntime.envtest.proxy import ProxyOptions
from ctrlruntime.envtest.users import User

RealBackend = KubeApiserverBackend | ApiextensionsBackend


class EnvironmentOptions(TypedDict, total=False):
    """Options of an environment around a server that is there."""

    tls: bool
    authorization: Literal["AlwaysAllow", "RBAC"] | None
    users: Iterable[str | User]
    proxy: bool | ProxyOptions
    nodes: bool
    pods: bool
    run_local: bool
    folder: Path | None


class SharedServer:
    """A real server that outlives the tests that use it.

    Every test takes namespaces and groups of its own, and removes what is cluster-wide.
    """

    def __init__(self, backend: RealBackend) -> None:
        self.backend = backend

    def environment(self, **options: Unpack[EnvironmentOptions]) -> Environment:
        """An environment around this server: users, proxy and nodes of the caller's own."""
        return Environment(existing(self.backend), **options)

    @property
    def config(self) -> Config:
        """An administrator's way in."""
        return self.backend.own_config()

    @property
    def version(self) -> Version:
        return self.backend.version


@contextmanager
def kube_apiserver(folder: Path, **settings: object) -> Iterator[SharedServer]:
    """One kube-apiserver, by default with kube-controller-manager. Raises AssetsMissing.

    Without the metrics of flow control, which an idle server spends half of its time on.
    """
    options = BackendOptions(
        folder=folder,
        users=(administrator("admin"),),
        server={
            "controller_manager": True,
            "apiserver_flags": {"enable-priority-and-fairness": "false"},
            **settings,
        },
    )
    with _running(lambda: KubeApiserverBackend(options)) as server:
        yield server


@contextmanager
def apiextensions(folder: Path, core: SharedServer) -> Iterator[SharedServer]:
    """One apiextensions-apiserver that asks the kube-apiserver `core`. Raises AssetsMissing."""
    options = BackendOptions(
        folder=folder, users=(administrator("admin"),), server={"core": core.backend}
    )
    with _running(lambda: ApiextensionsBackend(options)) as server:
        yield server


@contextmanager
def _running(make: Callable[[], RealBackend]) -> Iterator[SharedServer]:
    backend = make()
    try:
        _run(backend.start())
        yield SharedServer(backend)
    finally:
        _run(backend.stop())


def _run(coroutine: Coroutine[Any, Any, None]) -> None:
    """On a loop of another thread: the caller's may be running, or be somebody else's."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, coroutine).result()

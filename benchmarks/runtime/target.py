"""The API server under load, and what it says it was asked."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.envtest import Environment

USER = "bench"
WRITES = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"})
RESOURCES = frozenset({"configmaps", "widgets"})


@dataclass(frozen=True, slots=True)
class Counts:
    """Writes of widgets and ConfigMaps, whatever their answer, and those refused with 409."""

    writes: int = 0
    conflicts: int = 0

    def __sub__(self, other: Counts) -> Counts:
        return Counts(self.writes - other.writes, self.conflicts - other.conflicts)


@dataclass(frozen=True, slots=True)
class Target:
    """`client` is the benchmark's own; `kubeconfig` is for the controllers, whose logs go to `folder`."""

    folder: Path
    client: Client
    kubeconfig: Path
    counts: Callable[[], Awaitable[Counts]]


@asynccontextmanager
async def target(backend: str) -> AsyncIterator[Target]:
    """`embedded`, `kube-apiserver`, or the path of a kubeconfig.

    A real server counts by itself, so nothing stands between it and the controllers; before the
    embedded one a proxy does.
    """
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        if backend == "embedded":
            async with _environment("embedded-process", folder, proxy=True) as environment:
                client = environment.client("envtest")
                yield Target(folder, client, environment.kubeconfig(USER), by_proxy(environment))
        elif backend == "kube-apiserver":
            async with _environment(backend, folder, proxy=False) as environment:
                client = environment.client("envtest")
                yield Target(folder, client, environment.kubeconfig(USER), by_server(client))
        else:
            async with Client.connect(await Config.load(backend)) as client:
                yield Target(folder, client, Path(backend), by_server(client))


def _environment(backend: str, folder: Path, *, proxy: bool) -> Environment:
    return Environment(backend, users=(USER,), folder=folder, proxy=proxy)


def by_proxy(environment: Environment) -> Callable[[], Awaitable[Counts]]:
    """Counts of what the controllers sent, from the log of the proxy before the server."""

    async def count() -> Counts:
        found = environment.proxy.log.counts().select(user=USER)
        found = found.select(exclude=[r.resource for r in found if not _counts(r.resource)])
        return Counts(found.writes, found.select(code=409).writes)

    return count


def _counts(resource: str) -> bool:
    return resource.split(".", maxsplit=1)[0].split("/", maxsplit=1)[0] in RESOURCES


def by_server(client: Client) -> Callable[[], Awaitable[Counts]]:
    """Counts from the API server's own metrics, whoever it was that asked."""

    async def count() -> Counts:
        response = await client.transport.request("GET", "/metrics", headers={"Accept": "*/*"})
        writes = conflicts = 0
        for line in response.body.decode().splitlines():
            if not line.startswith("apiserver_request_total{"):
                continue
            family = next(iter(text_string_to_metric_families(f"{line}\n")))
            sample = family.samples[0]
            labels = sample.labels
            if labels["verb"] in WRITES and labels["resource"] in RESOURCES:
                writes += int(sample.value)
                conflicts += int(sample.value) if labels["code"] == "409" else 0
        return Counts(writes, conflicts)

    return count

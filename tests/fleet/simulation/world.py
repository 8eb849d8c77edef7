"""Many data planes that come and go, the hub and the operator on one loop whose time is virtual.

Every server is an embedded API server, and every request goes over a socket. What is simulated are the Pods of stacks, which
become available, and their controllers, which renew the Lease.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import random
import socket
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NoReturn

import structlog

from apis.fleet import FleetConfig
from apis.fleet.labels import (
    DATA_PLANE,
    KUBECONFIG_KEY,
    KUBECONFIG_SECRET,
    LEASE,
    PLANE_NAMESPACE,
    TARGET_NAMESPACE,
)
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import NotFound
from ctrlruntime.envtest.crds import install_crds
from ctrlruntime.envtest.server import APIServer, ServerOptions
from ctrlruntime.manager import Manager
from internal.fleet.labels import SELECTED
from internal.fleet.stack_builder import DEPLOYMENT, STATEFUL_SET, StackOptions
from manager.controllers.fleet import OperatorOptions, add_operator
from tests.fleet.operator.harness import (
    LEASES,
    NAMESPACE,
    SCALE,
    SECRET,
    TOKENS,
    config,
    kubeconfig,
    namespace,
)
from tests.support.manager_harness import make_manager

RENEWAL = 20.0
"""Seconds between two renewals of a Lease; it counts for 60."""
SETTLED = 1800.0
"""Seconds of virtual time in which everything has to be as it should: retries wait for a minute at most."""
RARE = 1e6
"""Seconds between bookmarks: they would be most of the traffic."""
START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Plane:
    """A data plane, and how it is just now."""

    name: str
    """Of its target namespace."""
    server: APIServer
    client: Client
    up: bool = True
    labelled: bool = False
    broken: bool = False
    """Whether its Secret has no kubeconfig."""

    @property
    def expected(self) -> str:
        """The reason that its entry has to have; empty: no entry."""
        if not self.labelled:
            return ""
        if self.broken:
            return "KubeconfigInvalid"
        return "SuccessfulDeployment" if self.up else "DataPlaneUnreachable"


@dataclass
class World:
    """The hub, the operator and the data planes."""

    hub: APIServer
    client: Client
    manager: Manager
    planes: list[Plane]
    draw: random.Random
    renewals: int = 0
    changes: int = 0

    # -- what happens ------------------------------------------------------------------------

    async def change(self, plane: Plane) -> None:
        """Let something happen to a data plane."""
        self.changes += 1
        await self.draw.choice([self.toggle_label, self.toggle_server, self.toggle_secret])(plane)

    async def toggle_label(self, plane: Plane) -> None:
        """Add or remove the label of the target namespace."""
        plane.labelled = not plane.labelled
        value = "true" if plane.labelled else None
        patch = {"metadata": {"labels": {DATA_PLANE: value}}}
        await self.client.patch(NAMESPACE, plane.name, patch)

    async def toggle_server(self, plane: Plane) -> None:
        """Take the data plane off the network, or put it back at its address."""
        plane.up = not plane.up
        if plane.up:
            await plane.server.start()
        else:
            plane.server.options = replace(plane.server.options, port=plane.server.port)
            await plane.server.stop()

    async def toggle_secret(self, plane: Plane) -> None:
        """Break the kubeconfig, or correct it."""
        plane.broken = not plane.broken
        content = "{" if plane.broken else kubeconfig(plane.server.url)
        await write_secret(self.client, plane.name, content)

    async def mend(self) -> None:
        """Have every data plane up, labelled, and with its kubeconfig."""
        for plane in self.planes:
            if not plane.up:
                await self.toggle_server(plane)
            if plane.broken:
                await self.toggle_secret(plane)
            if not plane.labelled:
                await self.toggle_label(plane)

    # -- what is simulated -------------------------------------------------------------------

    async def run_stacks(self) -> None:
        """Have Pods available, and Leases of stacks that run renewed, until cancelled."""
        while True:
            running = await self._make_available()
            self.renewals += 1
            for plane in self.planes:
                if plane.up and plane.name in running:
                    await renew(plane.client, self.renewals)
            await asyncio.sleep(RENEWAL)

    async def _make_available(self) -> set[str]:
        """Report Pods of all workloads as available. Return the namespaces that have workloads."""
        running: set[str] = set()
        for mapping in (DEPLOYMENT, STATEFUL_SET):
            for item in await self.client.list(mapping, labels=SELECTED):
                metadata, wanted = item["metadata"], item["spec"]["replicas"]
                running.add(metadata["namespace"])
                if (item.get("status") or {}).get("availableReplicas") == wanted:
                    continue
                counts = dict.fromkeys(("replicas", "readyReplicas", "availableReplicas"), wanted)
                with contextlib.suppress(NotFound):
                    await self.client.patch_status(
                        mapping,
                        metadata["name"],
                        {"status": counts},
                        namespace=metadata["namespace"],
                    )
        return running

    # -- what there is -----------------------------------------------------------------------

    async def wait_settled(self) -> float:
        """Wait until every entry is as expected, and nothing is left elsewhere. Return the virtual seconds."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while wrong := await self.wrong():
            assert loop.time() - began < SETTLED, wrong[:10]
            await asyncio.sleep(5.0)
        return loop.time() - began

    async def wrong(self) -> list[str]:
        """What is not as it should be."""
        found = await self.client.get(FleetConfig, "fleet")
        reasons = {each.name: each.reason for each in found.status.target_namespaces}
        wanted = {each.name: each.expected for each in self.planes if each.expected}
        names = reasons.keys() | wanted.keys()
        wrong = [
            f"{name}: {reasons.get(name)}, not {wanted.get(name)}"
            for name in sorted(names)
            if reasons.get(name) != wanted.get(name)
        ]
        marked = await self.client.list(
            NAMESPACE, labels=f"{TARGET_NAMESPACE}=true", metadata_only=True
        )
        left = {each["metadata"]["name"] for each in marked} - wanted.keys()
        return [*wrong, *(f"{name}: not torn down" for name in sorted(left))]

    def requests(self) -> dict[str, float]:
        """The operator's requests so far by method; watches are GETs."""
        found: dict[str, float] = {}
        for family in self.manager.metrics.registry.collect():
            for sample in family.samples:
                if sample.name == "rest_client_requests_total":
                    method = sample.labels["method"]
                    found[method] = found.get(method, 0) + sample.value
        return found


async def write_secret(client: Client, name: str, content: str) -> None:
    """Write the Secret of a target namespace."""
    metadata = {"name": KUBECONFIG_SECRET, "namespace": name}
    data = {KUBECONFIG_KEY: base64.b64encode(content.encode()).decode()}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
    await client.apply(secret, kind=SECRET, field_manager="owner")


async def renew(client: Client, number: int) -> None:
    """Renew the Lease as controllers do."""
    spec = {"holderIdentity": "controllers", "renewTime": f"2026-01-01T00:00:00.{number:06d}Z"}
    try:
        await client.patch(LEASES, LEASE, {"spec": spec}, namespace=PLANE_NAMESPACE)
    except NotFound:
        metadata = {"name": LEASE, "namespace": PLANE_NAMESPACE}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
        await client.create({**lease, "spec": spec})


@contextlib.asynccontextmanager
async def world(count: int, seed: int) -> AsyncIterator[World]:
    """The servers and the operator, and the namespaces, of which none is labelled yet."""
    loop = asyncio.get_running_loop()
    async with contextlib.AsyncExitStack() as opened:
        hub = await opened.enter_async_context(APIServer(ServerOptions(bookmark_interval=RARE)))
        client = await opened.enter_async_context(Client.connect(Config(host=hub.url)))
        await install_crds(client, (FleetConfig,), timeout=SETTLED)
        planes = [await _plane(opened, f"plane-{number:04}") for number in range(count)]
        for plane in planes:
            await client.create(namespace(plane.name))
            await write_secret(client, plane.name, kubeconfig(plane.server.url))
        await client.create(config(**SCALE))
        manager = make_manager(
            Config(host=hub.url),
            logger=structlog.wrap_logger(structlog.ReturnLogger(), processors=[drop]),
        )
        options = OperatorOptions(
            stack=StackOptions(image="stack:1"),
            kinds=(),
            monotonic=loop.time,
            clock=lambda: START + timedelta(seconds=loop.time()),
        )
        add_operator(manager, options)
        made = World(hub, client, manager, planes, random.Random(seed))
        await opened.enter_async_context(manager.running())
        stacks = asyncio.create_task(made.run_stacks())
        try:
            yield made
        finally:
            stacks.cancel()
            await asyncio.gather(stacks, return_exceptions=True)


def lasting_port() -> int:
    """Return a free port that no outgoing connection is given while its server is off the network."""
    first_ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(10_000, first_ephemeral)
        with contextlib.suppress(OSError), socket.socket() as free:
            free.bind(("127.0.0.1", port))
            return port


async def _plane(opened: contextlib.AsyncExitStack, name: str) -> Plane:
    options = ServerOptions(tokens=TOKENS, bookmark_interval=RARE, port=lasting_port())
    server = await opened.enter_async_context(APIServer(options))
    client = await opened.enter_async_context(Client.connect(Config(host=server.url)))
    await client.create(namespace(PLANE_NAMESPACE))
    return Plane(name, server, client)


def drop(_logger: object, _name: str, _event: object) -> NoReturn:
    """A processor that drops every line."""
    raise structlog.DropEvent


def some(draw: random.Random, planes: Iterable[Plane], share: float) -> list[Plane]:
    """A share of the data planes."""
    return [each for each in planes if draw.random() < share]

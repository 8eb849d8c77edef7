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
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field, replace
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
from ctrlruntime.api.kinds import Manifest, RESTMapping
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import NotFound
from ctrlruntime.envtest.crds import install_crds
from ctrlruntime.envtest.server import APIServer, ServerOptions
from ctrlruntime.manager import Manager
from ctrlruntime.manager.watchdog import GCOptions
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
BOOKMARKS = 100.0
"""Seconds between bookmarks: as few as keep a watch open, which is broken after 120 silent seconds."""
REOPENED = 90.0
"""Seconds in which the watches of a data plane that came back are open again."""
FOREVER = 1e6
"""Seconds that the simulation's own watches last."""
COLLECTED = 5.0
"""Virtual seconds between collections of young objects. What servers have stays and is left alone."""
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


@dataclass(frozen=True)
class Work:
    """What the operator has done, or did in between."""

    requests: Counter[str]
    """By method; watches are GETs."""
    reconciliations: Counter[str]
    """By controller; each of a namespace compares its whole stack."""
    watches_restarted: Counter[str]
    """By kind."""

    def since(self, before: Work) -> Work:
        """Return what was done after `before`."""
        return Work(
            requests=self.requests - before.requests,
            reconciliations=self.reconciliations - before.reconciliations,
            watches_restarted=self.watches_restarted - before.watches_restarted,
        )


@dataclass
class Harness:
    """The hub, the operator and the data planes."""

    hub: APIServer
    client: Client
    manager: Manager
    planes: list[Plane]
    draw: random.Random
    workloads: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """The names of workloads that there are, by target namespace."""
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

    async def rest(self, seconds: float) -> Work:
        """Let time pass in which nothing happens to data planes. Return what the operator did meanwhile."""
        await asyncio.sleep(REOPENED)
        before = self.work()
        await asyncio.sleep(seconds)
        done = self.work().since(before)
        assert await self.wrong() == []
        return done

    # -- what is simulated -------------------------------------------------------------------

    async def renew_leases(self) -> None:
        """Have Leases of stacks that run renewed, until cancelled."""
        while True:
            self.renewals += 1
            for plane in self.planes:
                if plane.up and self.workloads[plane.name]:
                    await renew(plane.client, self.renewals)
            await asyncio.sleep(RENEWAL)

    async def run_pods(self, mapping: RESTMapping) -> None:
        """Have Pods of the workloads of a kind available, until cancelled."""
        changes = self.client.watch(mapping, labels=SELECTED, timeout=FOREVER)
        async with contextlib.aclosing(changes):
            async for change, item in changes:
                await self._follow(mapping, change, item)
        raise AssertionError(f"the watch of {mapping.plural} has ended")

    async def _follow(self, mapping: RESTMapping, change: str, item: Manifest) -> None:
        metadata, wanted = item["metadata"], item["spec"]["replicas"]
        there = self.workloads[metadata["namespace"]]
        if change == "DELETED":
            there.discard(metadata["name"])
            return
        there.add(metadata["name"])
        if (item.get("status") or {}).get("availableReplicas") == wanted:
            return
        counts = dict.fromkeys(("replicas", "readyReplicas", "availableReplicas"), wanted)
        with contextlib.suppress(NotFound):
            await self.client.patch_status(
                mapping, metadata["name"], {"status": counts}, namespace=metadata["namespace"]
            )

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

    def work(self) -> Work:
        """What the operator has done so far."""
        work = Work(Counter(), Counter(), Counter())
        for family in self.manager.metrics.registry.collect():
            for sample in family.samples:
                if sample.name == "rest_client_requests_total":
                    work.requests[sample.labels["method"]] += int(sample.value)
                elif sample.name == "controller_runtime_reconcile_total":
                    work.reconciliations[sample.labels["controller"]] += int(sample.value)
                elif sample.name == "ctrlruntime_informer_watch_restarts_total":
                    work.watches_restarted[sample.labels["kind"]] += int(sample.value)
        return work


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
async def harness(count: int, seed: int) -> AsyncIterator[Harness]:
    """The servers and the operator, and the namespaces, of which none is labelled yet."""
    loop = asyncio.get_running_loop()
    async with contextlib.AsyncExitStack() as opened:
        hub = await opened.enter_async_context(
            APIServer(ServerOptions(bookmark_interval=BOOKMARKS))
        )
        client = await opened.enter_async_context(Client.connect(Config(host=hub.url)))
        await install_crds(client, (FleetConfig,), timeout=SETTLED)
        planes = [await _plane(opened, number) for number in range(count)]
        for plane in planes:
            await client.create(namespace(plane.name))
            await write_secret(client, plane.name, kubeconfig(plane.server.url))
        await client.create(config(**SCALE))
        manager = make_manager(
            Config(host=hub.url),
            logger=structlog.wrap_logger(structlog.ReturnLogger(), processors=[drop]),
            gc=GCOptions(manage=True, young_period=COLLECTED),
        )
        options = OperatorOptions(
            stack=StackOptions(image="stack:1"),
            kinds=(),
            monotonic=loop.time,
            clock=lambda: START + timedelta(seconds=loop.time()),
        )
        add_operator(manager, options)
        made = Harness(hub, client, manager, planes, random.Random(seed))
        await opened.enter_async_context(manager.running())
        stacks = [
            asyncio.create_task(made.renew_leases()),
            *(asyncio.create_task(made.run_pods(each)) for each in (DEPLOYMENT, STATEFUL_SET)),
        ]
        try:
            yield made
        finally:
            for each in stacks:
                each.cancel()
            await asyncio.gather(*stacks, return_exceptions=True)


def lasting_port(host: str) -> int:
    """Return a free port that no outgoing connection is given while its server is off the network."""
    first_ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(10_000, first_ephemeral)
        with contextlib.suppress(OSError), socket.socket() as free:
            free.bind((host, port))
            return port


async def _plane(opened: contextlib.AsyncExitStack, number: int) -> Plane:
    """Start a data plane on a loopback address of its own, where no other program takes its port while it is down."""
    name, host = f"plane-{number:04}", f"127.13.{number // 250}.{number % 250 + 1}"
    options = ServerOptions(
        tokens=TOKENS, bookmark_interval=BOOKMARKS, host=host, port=lasting_port(host)
    )
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

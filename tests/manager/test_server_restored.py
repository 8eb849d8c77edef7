"""A server that was restored from an older backup: who competes for a Lease there ends, and is started again."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.envtest.eventually import eventually_holds
from ctrlruntime.envtest.proxy import Proxy, ProxyOptions
from ctrlruntime.envtest.server import APIServer, ServerOptions
from ctrlruntime.manager import Manager, ManagerOptions
from ctrlruntime.manager.lease import LEASE, ServerRestored
from tests.support.manager_harness import PATIENT

LEADER = ManagerOptions(
    leader_election=True,
    leader_election_id="lock",
    leader_election_namespace="default",
    metrics_bind_address="0",
    health_bind_address="0",
    election=PATIENT,
)


async def ages(client: Client, changes: int) -> None:
    """Have a server count so many writes."""
    made: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"generateName": "aged-", "namespace": "default"},
    }
    for _ in range(changes):
        await client.create(made)


async def holds_lease(client: Client, holder: str, seconds: int = 1) -> None:
    """Create the Lease, held by another process."""
    spec = {"holderIdentity": holder, "leaseDurationSeconds": seconds}
    metadata = {"name": "lock", "namespace": "default"}
    await client.create(
        {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": spec}
    )


@pytest.mark.criterion("R-F8")
@pytest.mark.parametrize("lease", ["older", "gone", "another"])
@pytest.mark.parametrize("role", ["leader", "candidate"])
async def test_leader_and_candidates_end_when_the_server_has_not_their_lease(
    role: str, lease: str
) -> None:
    """The Lease is older than before, was made after the backup, or was made by another since, however far that server is."""
    async with AsyncExitStack() as stack:
        new, old = [await stack.enter_async_context(APIServer(ServerOptions())) for _ in range(2)]
        clients = [
            await stack.enter_async_context(Client.connect(Config(host=each.url)))
            for each in (new, old)
        ]
        proxy = Proxy(new.url)
        await proxy.start()
        await ages(clients[0], 500)
        if role == "candidate":
            await holds_lease(clients[0], "another", seconds=3600)
        if lease == "another":
            await ages(clients[1], 600)
        if lease != "gone":
            await holds_lease(clients[1], "another")
        manager = Manager(Config(host=proxy.url), LEADER)
        running = asyncio.create_task(manager.start())
        try:
            await eventually_holds(
                lambda: manager.elected.is_set() or (role == "candidate" and watched(proxy))
            )
            port = proxy.port
            await proxy.stop()
            proxy = Proxy(old.url, ProxyOptions(port=port))
            await proxy.start()
            with pytest.raises(ServerRestored, match="restored from a backup"):
                await asyncio.wait_for(running, 60)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await proxy.stop()


def watched(proxy: Proxy) -> bool:
    """Whether the Lease was read, and is watched."""
    leases = proxy.log.counts().select(resource="leases.coordination.k8s.io")
    return all(leases.select(verbs={verb}, code=200).total for verb in ("get", "watch"))


@pytest.mark.criterion("R-F8")
async def test_a_candidate_that_sees_the_deletion_of_the_lease_leads() -> None:
    """A person may delete a Lease to hand over: the server was not restored."""
    async with (
        APIServer(ServerOptions()) as server,
        Client.connect(Config(host=server.url)) as client,
    ):
        await holds_lease(client, "another", seconds=3600)
        proxy = Proxy(server.url)
        await proxy.start()
        manager = Manager(Config(host=proxy.url), LEADER)
        running = asyncio.create_task(manager.start())
        try:
            await eventually_holds(lambda: watched(proxy))
            await client.delete(LEASE, "lock", namespace="default")
            await asyncio.wait_for(manager.elected.wait(), 60)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await proxy.stop()

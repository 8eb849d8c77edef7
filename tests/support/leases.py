"""Leases of processes that a test has killed."""

from __future__ import annotations

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client import Client

LEASE = GroupVersionKind("coordination.k8s.io", "v1", "Lease")


async def end_leases(client: Client, holder: str, *, namespace: str) -> None:
    """Let the Leases of a dead process end in a second: it may have had long ones, which no busy machine makes it lose."""
    held = [
        each["metadata"]["name"]
        for each in await client.list(LEASE, namespace)
        if each["spec"].get("holderIdentity") == holder
    ]
    assert held, f"{holder} has no Lease in {namespace}"
    for name in held:
        await client.patch(LEASE, name, {"spec": {"leaseDurationSeconds": 1}}, namespace=namespace)

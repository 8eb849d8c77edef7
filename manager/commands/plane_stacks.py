"""Whether the stack of a data plane runs, as commands find it out: by the Lease that its controllers renew there."""

from __future__ import annotations

import asyncio
from typing import Final

from apis.fleet.labels import DATA_PLANE, LEASE, PLANE_NAMESPACE
from ctrlruntime.client import Client, NotFound
from ctrlruntime.clock import utc_now
from internal.fleet.plane_check import LEASES, NAMESPACE
from internal.fleet.planes import UNRENEWED
from internal.fleet.stack_lease import StackLease
from internal.fleet.targets import TRUE
from manager.commands.plane_clients import connect_plane

OBSERVED: Final = 10.0
"""Seconds in which a Lease whose time is old, perhaps by another clock, is renewed if its holder runs."""
LISTED: Final = ("deploy", "sts", "ds", "jobs", "cronjobs", "pods", "svc", "cm", "secrets", "pvc")
"""What most workloads have, as kubectl names it."""
PERIOD: Final = 1.0
"""Seconds between two looks at it."""


async def running_stack(plane: Client) -> StackLease:
    """Return the Lease of the stack that runs on a data plane; an empty one if none does. Raises the client's errors."""
    first = await _read(plane)
    if not first.holder or first.renewed is None or first.is_renewed(utc_now()):
        return first if first.renewed is not None else StackLease()
    for _ in range(int(OBSERVED / PERIOD)):
        await asyncio.sleep(PERIOD)
        found = await _read(plane)
        if found.holder and found.renewed != first.renewed:
            return found
    return StackLease()


async def stack_problem(plane: Client, namespace: str) -> str:
    """Return why the stack of a target namespace does not run on a data plane; empty if it does. Raises the client's errors."""
    lease = await running_stack(plane)
    if not lease.holder:
        return (
            f"the stack of {namespace} does not run: no controllers have renewed the Lease {PLANE_NAMESPACE}/{LEASE} of "
            f"its data plane for {UNRENEWED:.0f} s; look at its Pods (kubectl -n {namespace} get pods)"
        )
    if lease.namespace != namespace:
        return (
            f"the data plane of {namespace} has another stack: its Lease {PLANE_NAMESPACE}/{LEASE} is held by "
            f"{lease.holder}; correct one of the two kubeconfigs"
        )
    return ""


async def living_advice(hub: Client, namespace: str, plane: str) -> str:
    """Return what to do about the workloads of a data plane that answers. Raises the client's errors."""
    found = await hub.get(NAMESPACE, namespace, metadata_only=True)
    labelled = (found["metadata"].get("labels") or {}).get(DATA_PLANE) == TRUE
    client = await connect_plane(hub, namespace)
    lease = StackLease()
    if client is not None:
        async with client:
            lease = await running_stack(client)
    return living_message(plane, namespace, lease, labelled=labelled)


def living_message(plane: str, namespace: str, lease: StackLease, *, labelled: bool) -> str:
    """Return that a data plane is not lost, and how its workloads go without harm to another hub that has it."""
    begins = f"data plane {plane} answers: it is not lost. Nothing was changed"
    if labelled and lease.namespace == namespace:
        return (
            f"{begins}. The stack of {namespace} works on it: delete its Tenants and sets of nodes there, and their workloads "
            "go too"
        )
    works = f"the stack {lease.holder} works on it" if lease.holder else "no stack works on it"
    return (
        f"{begins}. By its Lease {works}, not that of {namespace}. If it went to another hub, delete no Tenant and no set of "
        "nodes there: that hub runs their workloads. What is left here is changed by no stack any more; list it, and delete "
        f"by name what the other hub runs instead: kubectl get {','.join(LISTED)} -A -l {DATA_PLANE}={plane}. If it stays with this "
        f"hub: kubectl label namespace {namespace} {DATA_PLANE}=true"
    )


async def _read(plane: Client) -> StackLease:
    try:
        return StackLease.of(await plane.get(LEASES, LEASE, namespace=PLANE_NAMESPACE))
    except NotFound:
        return StackLease()

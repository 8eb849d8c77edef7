"""The Lease of a data plane, as the controllers of a stack hold it."""

from __future__ import annotations

from apis.fleet.labels import LEASE, PLANE_NAMESPACE
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import NotFound
from tests.fleet.stack.test_processes import LEASES


async def hold(plane: Client, hub: str, target: str = "planes") -> None:
    """Let the controllers of a stack hold it. `plane`: a client of the data plane; `hub`: UID of its `kube-system`."""
    spec = {"spec": {"holderIdentity": f"{hub}/{target}/pod_1"}}
    metadata = {"name": LEASE, "namespace": PLANE_NAMESPACE}
    try:
        await plane.patch(LEASES, LEASE, spec, namespace=PLANE_NAMESPACE)
    except NotFound:
        await plane.create(
            {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, **spec}
        )

"""Whether an operator works, as its Lease shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.api.scalars import parse_time
from ctrlruntime.manager.shared_lease import SHARED_HOLDER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlruntime.client.client import Client

LEASE: Final = BUILTIN[GroupVersionKind("coordination.k8s.io", "v1", "Lease")]
DEFAULT_SECONDS: Final = 15
"""How long a Lease is held that does not name it, as client-go's leader election does."""


class HeldLease(NamedTuple):
    """A Lease that was renewed within its duration."""

    namespace: str
    holder: str


async def find_held(client: Client, name: str, *, now: float) -> HeldLease | None:
    """Return a Lease of that name, in any namespace, that is held at `now`, in seconds since 1970.

    One that is shared does not count: who holds it has a Lease of its own.
    """
    for lease in await client.list(LEASE, fields=f"metadata.name={name}"):
        spec = lease.get("spec") or {}
        if _held_until(spec) > now and spec["holderIdentity"] != SHARED_HOLDER:
            return HeldLease(lease["metadata"]["namespace"], spec["holderIdentity"])
    return None


def _held_until(spec: Mapping[str, Any]) -> float:
    if not (spec.get("holderIdentity") and spec.get("renewTime")):
        return 0.0
    renewed = parse_time(spec["renewTime"]).timestamp()
    return renewed + (spec.get("leaseDurationSeconds") or DEFAULT_SECONDS)

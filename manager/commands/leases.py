"""Whether an operator works, as its Lease shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ctrlruntime.api import BUILTIN, GroupVersionKind, parse_time
from ctrlruntime.manager.shared_lease import SHARED_HOLDER
from ctrlruntime.sharding.options import GROUP_LABEL
from manager.options import SHARD_GROUPS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
        if (held := _held(lease, now)) is not None and not _is_shared(held):
            return held
    return None


async def list_shards(client: Client) -> list[dict[str, Any]]:
    """Return the Leases of managers that share work, in any namespace: of each member, and the assignment."""
    found: list[dict[str, Any]] = await client.list(
        LEASE, labels=f"{GROUP_LABEL} in ({','.join(SHARD_GROUPS)})"
    )
    return found


def find_member(leases: Iterable[Mapping[str, Any]], *, now: float) -> HeldLease | None:
    """Return one of the Leases that is held at `now`, in seconds since 1970. An assignment never is."""
    return next((held for each in leases if (held := _held(each, now)) is not None), None)


def _is_shared(held: HeldLease) -> bool:
    return held.holder in {SHARED_HOLDER, *(f"{SHARED_HOLDER}-{group}" for group in SHARD_GROUPS)}


def _held(lease: Mapping[str, Any], now: float) -> HeldLease | None:
    spec = lease.get("spec") or {}
    if _held_until(spec) <= now:
        return None
    return HeldLease(lease["metadata"]["namespace"], spec["holderIdentity"])


def _held_until(spec: Mapping[str, Any]) -> float:
    if not (spec.get("holderIdentity") and spec.get("renewTime")):
        return 0.0
    renewed = parse_time(spec["renewTime"]).timestamp()
    return renewed + (spec.get("leaseDurationSeconds") or DEFAULT_SECONDS)

"""The Leases of one group of members on the server, as values, and the write of the assignment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.cache.versions import number
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import NotFound
from ctrlruntime.clock import draw_between
from ctrlruntime.manager.lease import LEASE, WATCH_SECONDS
from ctrlruntime.sharding.assignment import Assignment, encode
from ctrlruntime.sharding.members import MemberLease, read_announcement
from ctrlruntime.sharding.options import GROUP_LABEL, ShardingOptions

MEMBER: Final = "ctrlruntime.dev/member"
"""The annotation with a member's name."""
ANNOUNCED: Final = "ctrlruntime.dev/announced"
"""The annotation with what a member has acknowledged."""
ASSIGNED: Final = "ctrlruntime.dev/assigned"
"""The annotation with the assignment."""

UNKNOWN: Final = 15.0
"""Seconds of a Lease that does not name its duration."""


def version_of(lease: Manifest) -> int:
    """Return the resourceVersion as a number."""
    return number(lease["metadata"].get("resourceVersion", ""))


def annotation(lease: Manifest, name: str) -> str:
    """Return an annotation; empty without it."""
    text: str = (lease["metadata"].get("annotations") or {}).get(name, "")
    return text


def member_of(lease: Manifest) -> MemberLease | None:
    """Return a Lease as a member's; None if it is none."""
    name = annotation(lease, MEMBER)
    if not name:
        return None
    announced, fixed, slots, label = read_announcement(annotation(lease, ANNOUNCED))
    spec = lease.get("spec") or {}
    return MemberLease(
        name=name,
        version=version_of(lease),
        holder=spec.get("holderIdentity") or "",
        duration=float(spec.get("leaseDurationSeconds") or UNKNOWN),
        announced=announced,
        fixed=fixed,
        slots=slots,
        label_version=label,
    )


class GroupLeases:
    """Reads and writes. ``silence``: seconds after which a watch without any event is given up: members renew all the time."""

    def __init__(
        self, client: Client, options: ShardingOptions, namespace: str, silence: float
    ) -> None:
        self._client = client
        self._options = options
        self._namespace = namespace
        self._silence = silence
        self._labels = {GROUP_LABEL: options.group}

    async def read(self, name: str) -> Manifest | None:
        """Return a Lease as the server has it now; None if it has none. Raises the client's errors."""
        try:
            return await self._client.get(LEASE, name, namespace=self._namespace)
        except NotFound:
            return None

    async def list(self) -> tuple[list[Manifest], str]:
        """Return all Leases of the group as the server has them now, with the version to watch from."""
        found: list[Manifest] = []
        version = ""
        pages = self._client.pages(LEASE, self._namespace, labels=self._labels)
        async with aclosing(pages):
            async for page in pages:
                found += page.items
                version = page.resource_version
        return found, version

    async def changes(self, version: str) -> AsyncGenerator[tuple[str, Manifest], None]:
        """Yield what happens to the Leases of the group from a version on, for some minutes. Raises TimeoutError when it is silent."""
        events = self._client.watch(
            LEASE,
            self._namespace,
            labels=self._labels,
            resource_version=version,
            timeout=WATCH_SECONDS * draw_between(1.0, 2.0),  # not all at once
        )
        async with aclosing(events):
            while True:
                async with asyncio.timeout(self._silence):
                    event = await anext(events, None)
                if event is None:
                    return
                yield event

    async def write(self, before: Manifest | None, assignment: Assignment) -> Manifest:
        """Replace the assignment that was read. Raises Conflict or AlreadyExists where another was faster."""
        metadata = dict({} if before is None else before["metadata"])
        metadata.pop("managedFields", None)
        metadata |= {"name": self._options.assignment, "namespace": self._namespace}
        metadata["labels"] = {**metadata.get("labels", {}), **self._labels}
        metadata["annotations"] = {**metadata.get("annotations", {}), ASSIGNED: encode(assignment)}
        manifest = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata}
        manifest["spec"] = {"holderIdentity": self._options.name}
        if before is None:
            return await self._client.create(manifest)
        return await self._client.update(manifest)

    async def delete(self, name: str, version: int) -> None:
        """Delete a Lease as it was seen. Raises the client's errors."""
        await self._client.delete(
            LEASE, name, namespace=self._namespace, resource_version=str(version)
        )

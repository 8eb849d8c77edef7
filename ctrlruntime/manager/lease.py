"""The Lease object that candidates for leadership compete for."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from ctrlruntime.api.kinds import GroupVersionKind, Manifest
from ctrlruntime.api.scalars import format_micro_time, parse_time
from ctrlruntime.cache.versions import number
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import NotFound
from ctrlruntime.clock import draw_between

LEASE = GroupVersionKind("coordination.k8s.io", "v1", "Lease")
WATCH_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderRecord:
    """What a candidate reads from and writes to the lock. Durations in whole seconds."""

    holder: str = ""
    lease_duration: int = 0
    acquire_time: datetime | None = None
    renew_time: datetime | None = None
    transitions: int = 0


class ServerRestored(RuntimeError):
    """The API server has other, or older, objects than it had before."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}: the server was restored from a backup, or the Lease was deleted by hand; what this process has read "
            "from it is not to be relied on, so it ends, to be started again"
        )


class LeaderLock(Protocol):
    """A record shared by all candidates, written with optimistic concurrency."""

    async def get(self) -> LeaderRecord | None:
        """Return the record, or None if there is none yet."""
        ...

    async def create(self, record: LeaderRecord) -> None:
        """Raise AlreadyExists if another candidate was faster."""
        ...

    async def update(self, record: LeaderRecord) -> None:
        """Replace what was last read or written. Raises Conflict if it has changed since."""
        ...


class LeaseLock:
    """A lock kept in a Lease, as client-go's ``LeaseLock``."""

    def __init__(
        self,
        client: Client,
        name: str,
        *,
        namespace: str,
        labels: Mapping[str, str] | None = None,
        annotations: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """``annotations`` returns those of the next write, in any thread."""
        self.name = name
        self.namespace = namespace
        self._client = client
        self._labels = dict(labels or {})
        self._annotations = annotations
        self._lease: Manifest | None = None
        self._uid = ""
        """Of the Lease that was read or written last, unless its deletion was seen."""
        self._version = 0

    def __str__(self) -> str:
        return f"lease {self.namespace}/{self.name}"

    @property
    def reference(self) -> dict[str, str]:
        """The Lease as the object of an event."""
        reference = {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "namespace": self.namespace,
            "name": self.name,
        }
        if self._lease is not None:
            reference["uid"] = self._lease["metadata"].get("uid", "")
        return reference

    async def get(self) -> LeaderRecord | None:
        """Return the record, or None if there is none yet. Raises the client's errors.

        Raises ServerRestored for a Lease that is older than before, has another UID or is gone, unless its deletion
        was seen: nothing of the runtime deletes a Lease that is in use.
        """
        try:
            found = await self._client.get(LEASE, self.name, namespace=self.namespace)
        except NotFound as error:
            if self._uid and not error.is_of_kind:
                raise ServerRestored(f"{self} is gone") from None
            self._read(None)
            return None
        metadata = found["metadata"]
        if number(metadata.get("resourceVersion", "")) < self._version:
            raise ServerRestored(f"{self} is older than it was before")
        if self._uid and metadata.get("uid") != self._uid:
            raise ServerRestored(f"{self} has another UID than before")
        self._read(found)
        return _record(self._lease)

    async def changes(self) -> AsyncGenerator[LeaderRecord | None, None]:
        """Yield what happens to the Lease, beginning with what it is; None when it is deleted.

        Leaves out what is older than what was read or written last. Ends after some minutes.
        Watches one object by name, so a Role may be restricted to it.
        """
        events = self._client.watch(
            LEASE,
            self.namespace,
            fields={"metadata.name": self.name},
            timeout=WATCH_SECONDS * draw_between(1.0, 2.0),  # not all at once
        )
        async with aclosing(events):
            async for kind, lease in events:
                version = number(lease["metadata"].get("resourceVersion", ""))
                if version <= self._version:
                    continue
                if kind == "DELETED":
                    self._uid = ""  # on this server, which was not restored: the next is a new one
                    yield None
                else:
                    yield _record(lease)

    async def create(self, record: LeaderRecord) -> None:
        created = await self._client.create(
            {
                "apiVersion": LEASE.api_version,
                "kind": LEASE.kind,
                "metadata": {
                    "name": self.name,
                    "namespace": self.namespace,
                    **({"labels": self._labels} if self._labels else {}),
                    **({"annotations": dict(found)} if (found := self._annotations()) else {}),
                },
                "spec": _spec(record),
            }
        )
        self._read(created)

    async def update(self, record: LeaderRecord) -> None:
        if self._lease is None:
            raise RuntimeError(f"{self} must be read or created before it is updated")
        metadata = dict(self._lease["metadata"])
        metadata.pop("managedFields", None)
        if self._labels:
            metadata["labels"] = {**metadata.get("labels", {}), **self._labels}
        if found := self._annotations():
            metadata["annotations"] = {**metadata.get("annotations", {}), **found}
        spec = {**(self._lease.get("spec") or {}), **_spec(record)}
        self._read(await self._client.update({**self._lease, "metadata": metadata, "spec": spec}))

    def _read(self, lease: Manifest | None) -> None:
        self._lease = lease
        if lease is not None:
            self._uid = lease["metadata"].get("uid", "")
            self._version = number(lease["metadata"].get("resourceVersion", ""))


def _record(lease: Manifest | None) -> LeaderRecord:
    spec: Mapping[str, Any] = (lease or {}).get("spec") or {}
    return LeaderRecord(
        holder=spec.get("holderIdentity") or "",
        lease_duration=spec.get("leaseDurationSeconds") or 0,
        acquire_time=_time(spec.get("acquireTime")),
        renew_time=_time(spec.get("renewTime")),
        transitions=spec.get("leaseTransitions") or 0,
    )


def _spec(record: LeaderRecord) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "holderIdentity": record.holder,
        "leaseDurationSeconds": record.lease_duration,
        "leaseTransitions": record.transitions,
    }
    if record.acquire_time is not None:
        spec["acquireTime"] = format_micro_time(record.acquire_time)
    if record.renew_time is not None:
        spec["renewTime"] = format_micro_time(record.renew_time)
    return spec


def _time(text: str | None) -> datetime | None:
    return parse_time(text) if text else None

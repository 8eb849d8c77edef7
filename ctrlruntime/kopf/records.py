"""What was handled of each object, kept in its status or in ConfigMaps beside the operator; never in annotations."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import orjson

from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import AlreadyExists, NotFound
from ctrlruntime.kopf.bodies import Body, Patch, essence_of, resolve
from ctrlruntime.kopf.handling import Attempts, Progress

__all__ = ["ConfigMapRecords", "Pending", "Record", "Records", "StatusRecords"]

CONFIG_MAP: Final = BUILTIN[GroupVersionKind("", "v1", "ConfigMap")]
KOPF_ESSENCE: Final = "kopf.zalando.org/last-handled-configuration"
LABEL: Final = "ctrlruntime.dev/kopf-records"
PARTS: Final = 16
"""ConfigMaps of records: 15 MiB of them at most."""


@dataclass(slots=True)
class Pending:
    """A cause whose handlers are not all done."""

    reason: str
    essence: dict[str, Any]
    """The object when its first handler began: a change after that is an update of its own."""
    progress: Progress = field(default_factory=dict)


@dataclass(slots=True)
class Record:
    """What was handled of one object."""

    handled: bool = False
    """Its create handlers are done."""
    essence: dict[str, Any] | None = None
    """The object as it was last handled; None where no handler compares with it."""
    pending: Pending | None = None

    def encode(self, uid: str) -> str:
        """Return a line of JSON."""
        document: dict[str, Any] = {"uid": uid, "handled": self.handled}
        if self.essence is not None:
            document["essence"] = self.essence
        if self.pending is not None:
            progress = {key: state.as_json() for key, state in self.pending.progress.items()}
            document["pending"] = [self.pending.reason, self.pending.essence, progress]
        return orjson.dumps(document).decode()

    @classmethod
    def decode(cls, text: object, uid: str) -> Record | None:
        """Return the record of an object; None if it is another's, as after a restore, or cannot be read."""
        try:
            document = orjson.loads(text) if isinstance(text, str) else {}
            if document.get("uid") != uid:
                return None
            pending = None
            if "pending" in document:
                reason, essence, progress = document["pending"]
                states = {key: Attempts(*state) for key, state in progress.items()}
                pending = Pending(reason, essence, states)
            return cls(bool(document["handled"]), document.get("essence"), pending)
        except (AttributeError, KeyError, TypeError, ValueError):
            return None


def from_kopf(body: Body) -> Record:
    """Return what kopf itself recorded in an annotation, so that nothing is handled again when it is replaced."""
    try:
        essence = orjson.loads(body.meta.annotations.get(KOPF_ESSENCE) or "null")
    except orjson.JSONDecodeError:
        essence = None
    if not isinstance(essence, Mapping):
        return Record()
    return Record(handled=True, essence=essence_of(essence))


class Records(Protocol):
    """Where records are kept."""

    async def load(self) -> None:
        """Read what an earlier process left, once: by whoever leads, when it begins. Raises APIError."""

    def read(self, body: Body) -> Record: ...

    async def save(self, body: Body, record: Record, patch: Patch) -> None:
        """Keep a record, or put it into the patch, which is written next."""

    def forget(self, uid: str) -> None:
        """Drop the record of an object that is gone."""


class StatusRecords:
    """In the field ``status.kopf.record`` of the object: written together with what handlers report."""

    async def load(self) -> None:
        """Do nothing: it comes with the object."""

    def read(self, body: Body) -> Record:
        record = Record.decode(resolve(body, ("status", "kopf", "record")), body["metadata"]["uid"])
        return record or from_kopf(body)

    async def save(self, body: Body, record: Record, patch: Patch) -> None:
        patch.status["kopf"] = {"record": record.encode(body["metadata"]["uid"])}

    def forget(self, uid: str) -> None:
        """Do nothing: it went with the object."""


class _Batch:
    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.written: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class ConfigMapRecords:
    """In ConfigMaps of the operator, by UID. What many objects record at the same time is one write."""

    def __init__(self, client: Client, name: str, *, namespace: str) -> None:
        self._client, self._name, self._namespace = client, name, namespace
        self._texts: dict[str, str] = {}
        self._made: set[str] = set()
        self._loaded, self._loading = False, asyncio.Lock()
        self._waiting: dict[int, _Batch] = {}
        self._gone: dict[int, list[str]] = {}
        self._writing: dict[int, asyncio.Task[None]] = {}

    async def load(self) -> None:
        if self._loaded:
            return
        async with self._loading:
            if self._loaded:
                return
            labels = {LABEL: self._name}
            for found in await self._client.list(CONFIG_MAP, self._namespace, labels=labels):
                self._texts |= found.get("data") or {}
                self._made.add(found["metadata"]["name"])
            self._loaded = True

    def read(self, body: Body) -> Record:
        uid = body["metadata"]["uid"]
        return Record.decode(self._texts.get(uid), uid) or from_kopf(body)

    async def save(self, body: Body, record: Record, patch: Patch) -> None:
        """Raise APIError where it cannot be written."""
        uid = body["metadata"]["uid"]
        self._texts[uid] = text = record.encode(uid)
        await self._put(uid, text)

    def forget(self, uid: str) -> None:
        if self._texts.pop(uid, None) is not None:
            self._gone.setdefault(_part_of(uid), []).append(uid)  # goes with the next write

    async def _put(self, uid: str, text: str) -> None:
        part = _part_of(uid)
        batch = self._waiting.setdefault(part, _Batch())
        batch.texts[uid] = text
        if part not in self._writing:
            self._writing[part] = asyncio.create_task(self._write(part), name="kopf records")
        await asyncio.shield(batch.written)

    async def _write(self, part: int) -> None:
        """Write what waits, and then what came meanwhile."""
        while (batch := self._waiting.pop(part, None)) is not None:
            gone = dict.fromkeys(self._gone.pop(part, ()))
            try:
                await self._patch(f"{self._name}-records-{part}", {**gone, **batch.texts})
            except Exception as error:  # noqa: BLE001 - whoever waits raises it
                batch.written.set_exception(error)
                batch.written.exception()  # retrieved, also where every waiter was cancelled
            else:
                batch.written.set_result(None)
        del self._writing[part]

    async def _patch(self, name: str, data: Mapping[str, str | None]) -> None:
        if name in self._made:
            try:
                await self._client.patch(
                    CONFIG_MAP, name, {"data": data}, namespace=self._namespace
                )
                return
            except NotFound:  # another took it away
                data = {
                    uid: self._texts[uid]
                    for uid in self._texts
                    if name.endswith(f"-{_part_of(uid)}")
                }
        await self._create(name, {key: text for key, text in data.items() if text})
        self._made.add(name)

    async def _create(self, name: str, data: Mapping[str, str]) -> None:
        metadata = {"name": name, "namespace": self._namespace, "labels": {LABEL: self._name}}
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        try:
            await self._client.create(manifest, kind=CONFIG_MAP)
        except AlreadyExists:
            await self._client.patch(CONFIG_MAP, name, {"data": data}, namespace=self._namespace)


def _part_of(uid: str) -> int:
    return zlib.crc32(uid.encode()) % PARTS

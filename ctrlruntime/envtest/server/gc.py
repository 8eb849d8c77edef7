"""The garbage collector: objects whose owners are gone go too."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final

import structlog

from ctrlruntime.envtest.server.conversion_webhook import carrier
from ctrlruntime.envtest.server.deletion import FOREGROUND, ORPHAN, DeleteOptions, Remover
from ctrlruntime.envtest.server.kinds import Kind
from ctrlruntime.envtest.server.state import State
from ctrlruntime.envtest.server.storage import Bucket, Change, Record

_LOG: Final = structlog.get_logger(__name__)
_SLICE: Final = 200
Node = tuple[str, str, str]


def owners_of(obj: dict[str, Any]) -> list[dict[str, Any]]:
    return obj["metadata"].get("ownerReferences") or []


class GarbageCollector:
    """Keeps the graph of owner references by uid and acts on every change of it.

    As upstream: a reference counts only if the object exists with that uid, in the dependent's
    namespace or cluster-scoped; a dependent is deleted once none of its owners is left.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._remover = Remover(state)
        self._dependents: dict[str, set[Node]] = {}
        self._present: dict[str, Node] = {}
        self._queue: deque[Node] = deque()
        self._queued: set[Node] = set()
        self._wake = asyncio.Event()

    async def run(self) -> None:
        for bucket in self._state.storage:
            for record in bucket.records.values():
                self._learn(bucket.resource, record)
        self._state.storage.listeners.append(self._changed)
        for nodes in list(self._dependents.values()):
            for node in nodes:
                self._add(node)
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._work()
        finally:
            self._state.storage.listeners.remove(self._changed)

    # -- the graph -------------------------------------------------------------------------

    def _changed(self, bucket: Bucket, change: Change) -> None:
        record, previous = change.record, change.previous
        node = (bucket.resource, record.namespace, record.name)
        if previous is not None:
            self._unlearn_owners(node, previous)
        if change.type == "DELETED":
            self._present.pop(record.uid, None)
            for dependent in self._dependents.get(record.uid, ()):
                self._add(dependent)
            for owner in owners_of(record.obj):
                if at := self._present.get(owner.get("uid", "")):
                    self._add(at)
            return
        self._learn(bucket.resource, record)
        metadata = record.obj["metadata"]
        if owners_of(record.obj) or metadata.get("deletionTimestamp"):
            self._add(node)
        if previous is not None and owners_of(previous.obj):
            for owner in owners_of(previous.obj):
                if at := self._present.get(owner.get("uid", "")):
                    self._add(at)

    def _learn(self, resource: str, record: Record) -> None:
        node = (resource, record.namespace, record.name)
        self._present[record.uid] = node
        for owner in owners_of(record.obj):
            self._dependents.setdefault(owner.get("uid", ""), set()).add(node)

    def _unlearn_owners(self, node: Node, previous: Record) -> None:
        for owner in owners_of(previous.obj):
            nodes = self._dependents.get(owner.get("uid", ""))
            if nodes is not None:
                nodes.discard(node)
                if not nodes:
                    del self._dependents[owner["uid"]]

    def _add(self, node: Node) -> None:
        if node not in self._queued:
            self._queued.add(node)
            self._queue.append(node)
            self._wake.set()

    # -- the work --------------------------------------------------------------------------

    async def _work(self) -> None:
        done = 0
        while self._queue:
            node = self._queue.popleft()
            self._queued.discard(node)
            try:
                self._process(node)
            except Exception:  # noqa: BLE001 - one broken object must not stop the others
                _LOG.exception("garbage_collection_failed", object="/".join(node))
            done += 1
            if done % _SLICE == 0:
                await asyncio.sleep(0)

    def _find(self, node: Node) -> tuple[Kind, Record] | None:
        resource, namespace, name = node
        plural, _, group = resource.partition(".")
        kind = self._state.catalog.resource(group, plural)
        if kind is None:
            return None
        record = self._state.storage.bucket(resource).get(namespace, name)
        return None if record is None else (kind, record)

    def _process(self, node: Node) -> None:
        found = self._find(node)
        if found is None:
            return
        kind, record = found
        metadata = record.obj["metadata"]
        if metadata.get("deletionTimestamp"):
            finalizers = metadata.get("finalizers") or []
            if ORPHAN in finalizers:
                self._orphan(kind, record)
            elif FOREGROUND in finalizers:
                self._foreground(kind, record)
            return
        if owners_of(record.obj):
            self._collect(kind, record)

    def _collect(self, kind: Kind, record: Record) -> None:
        """Delete a dependent without owners, or drop its references to owners that are gone."""
        solid, dangling, waiting = self._sort_owners(record)
        if solid:
            gone = dangling + waiting
            if gone:
                self._drop_owners(kind, record, {owner["uid"] for owner in gone})
            return
        if waiting and self._dependents_of(record):
            self._unblock(record)
            self._remover.remove(kind, record, self._options(record, "Foreground"))
            return
        self._remover.remove(kind, record, self._options(record, _policy(record)))

    @staticmethod
    def _options(record: Record, policy: str) -> DeleteOptions:
        return DeleteOptions(uid=record.uid, propagation=policy)

    def _sort_owners(
        self, record: Record
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
        """Owners that hold, those that are gone, and those waiting for their dependents."""
        solid: list[dict[str, Any]] = []
        dangling: list[dict[str, Any]] = []
        waiting: list[dict[str, Any]] = []
        for owner in owners_of(record.obj):
            found = self._owner(record, owner)
            if found is None:
                if self._known_kind(owner):
                    dangling.append(owner)
                else:
                    solid.append(owner)
            elif _deletes_dependents(found):
                waiting.append(owner)
            else:
                solid.append(owner)
        return solid, dangling, waiting

    def _known_kind(self, owner: dict[str, Any]) -> bool:
        """Owners of kinds that are not served cannot be looked up: the dependent stays."""
        group = str(owner.get("apiVersion", "")).rpartition("/")[0]
        return self._state.catalog.by_kind(group, owner.get("kind", "")) is not None

    def _owner(self, record: Record, owner: dict[str, Any]) -> Record | None:
        """Return the owner if it is where the reference points: same namespace or cluster-scoped."""
        node = self._present.get(owner.get("uid", ""))
        if node is None or (node[1] and node[1] != record.namespace):
            return None
        if node[2] != owner.get("name"):
            return None
        found = self._find(node)
        if found is None or found[0].kind != owner.get("kind"):
            return None
        return found[1]

    def _drop_owners(self, kind: Kind, record: Record, uids: set[str]) -> None:
        obj = record.load()
        kept = [owner for owner in owners_of(obj) if owner.get("uid") not in uids]
        if kept:
            obj["metadata"]["ownerReferences"] = kept
        else:
            del obj["metadata"]["ownerReferences"]
        self._store(kind, record, obj)

    def _store(self, kind: Kind, record: Record, obj: dict[str, Any]) -> None:
        bucket = self._state.bucket(kind)
        metadata = obj["metadata"]
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            self._remover.finish(kind, record, obj)
        else:
            self._state.storage.update(bucket, obj, record, record.epoch, carrier(kind, record))

    def _dependents_of(self, record: Record) -> list[tuple[Kind, Record]]:
        nodes = sorted(self._dependents.get(record.uid, ()))
        found = [self._find(node) for node in nodes]
        return [item for item in found if item is not None]

    def _orphan(self, kind: Kind, record: Record) -> None:
        for dependent_kind, dependent in self._dependents_of(record):
            self._drop_owners(dependent_kind, dependent, {record.uid})
        self._remove_finalizer(kind, record, ORPHAN)

    def _foreground(self, kind: Kind, record: Record) -> None:
        blocking = False
        for dependent_kind, dependent in self._dependents_of(record):
            metadata = dependent.obj["metadata"]
            owner = next(o for o in owners_of(dependent.obj) if o.get("uid") == record.uid)
            blocking = blocking or bool(owner.get("blockOwnerDeletion"))
            if not metadata.get("deletionTimestamp"):
                node = (dependent_kind.bucket, dependent.namespace, dependent.name)
                self._add(node)
        if not blocking:
            self._remove_finalizer(kind, record, FOREGROUND)

    def _unblock(self, record: Record) -> None:
        """Break circles: a chain of owners that wait for each other in a circle would never end."""
        for dependent_kind, dependent in self._dependents_of(record):
            if not dependent.obj["metadata"].get("deletionTimestamp"):
                continue
            finalizers = dependent.obj["metadata"].get("finalizers") or []
            if FOREGROUND not in finalizers:
                continue
            obj = dependent.load()
            for owner in owners_of(obj):
                if owner.get("uid") == record.uid:
                    owner["blockOwnerDeletion"] = False
            if obj != dependent.obj:
                self._store(dependent_kind, dependent, obj)

    def _remove_finalizer(self, kind: Kind, record: Record, name: str) -> None:
        current = self._state.bucket(kind).get(record.namespace, record.name)
        if current is None or current.uid != record.uid:
            return
        obj = current.load()
        finalizers = [item for item in obj["metadata"].get("finalizers") or [] if item != name]
        if finalizers:
            obj["metadata"]["finalizers"] = finalizers
        else:
            obj["metadata"].pop("finalizers", None)
        self._store(kind, current, obj)


def _deletes_dependents(owner: Record) -> bool:
    metadata = owner.obj["metadata"]
    waits = FOREGROUND in (metadata.get("finalizers") or ())
    return bool(metadata.get("deletionTimestamp")) and waits


def _policy(record: Record) -> str:
    finalizers = record.obj["metadata"].get("finalizers") or ()
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"

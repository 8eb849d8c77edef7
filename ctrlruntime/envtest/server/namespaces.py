"""The life of namespaces and of definitions: what a deletion still has to clear away."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Final

import structlog

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.bootstrap import put
from ctrlruntime.envtest.server.definitions import DEFINITIONS, FINALIZER, Definitions
from ctrlruntime.envtest.server.deletion import DeleteOptions, Remover
from ctrlruntime.envtest.server.kinds import Kind
from ctrlruntime.envtest.server.state import State
from ctrlruntime.envtest.server.storage import Bucket, Change, Record

_FINE: Final = (
    (
        "NamespaceDeletionDiscoveryFailure",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    (
        "NamespaceFinalizersRemaining",
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
)

_LOG: Final = structlog.get_logger(__name__)
_SLICE: Final = 200


class NamespaceController:
    """Fills new namespaces, empties terminating ones; clears away objects of deleted definitions.

    The work of the real controller manager and of the CRD finalizer. It reacts to changes at once
    and never polls.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._remover = Remover(state)
        self._definitions = Definitions(state)
        self._queue: deque[tuple[str, str]] = deque()
        self._queued: set[tuple[str, str]] = set()
        self._wake = asyncio.Event()

    async def run(self) -> None:
        self._state.storage.listeners.append(self._changed)
        for record in list(self._state.storage.bucket("namespaces").scan()):
            self._add("namespaces", record.name)
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._work()
        finally:
            self._state.storage.listeners.remove(self._changed)

    def _add(self, resource: str, name: str) -> None:
        if (resource, name) in self._queued:
            return
        self._queued.add((resource, name))
        self._queue.append((resource, name))
        self._wake.set()

    def _changed(self, bucket: Bucket, change: Change) -> None:
        record = change.record
        if bucket.resource in {"namespaces", DEFINITIONS}:
            self._add(bucket.resource, record.name)
            return
        if change.type != "DELETED":
            return
        if record.namespace and self._terminating("namespaces", record.namespace):
            self._add("namespaces", record.namespace)
        if self._terminating(DEFINITIONS, bucket.resource):
            self._add(DEFINITIONS, bucket.resource)

    def _terminating(self, resource: str, name: str) -> bool:
        record = self._state.storage.bucket(resource).get("", name)
        return record is not None and bool(record.obj["metadata"].get("deletionTimestamp"))

    async def _work(self) -> None:
        while self._queue:
            item = self._queue.popleft()
            self._queued.discard(item)
            resource, name = item
            record = self._state.storage.bucket(resource).get("", name)
            if record is None:
                continue
            try:
                if resource == "namespaces":
                    await self._namespace(record)
                else:
                    self._definition(record)
            except Exception:  # noqa: BLE001 - one broken object must not stop the others
                _LOG.exception("clean_up_failed", resource=resource, name=name)
            await asyncio.sleep(0)

    # -- namespaces ------------------------------------------------------------------------

    async def _namespace(self, record: Record) -> None:
        if not record.obj["metadata"].get("deletionTimestamp"):
            self._furnish(record.name)
            return
        left = await self._empty(record.name)
        self._set_conditions(record.name, left)
        if not left:
            self._finalize(record.name)

    def _set_conditions(self, name: str, left: Remaining) -> None:
        bucket = self._state.storage.bucket("namespaces")
        record = bucket.get("", name)
        if record is None:
            return
        obj = record.load()
        status = obj.setdefault("status", {})
        before = status.get("conditions") or []
        status["conditions"] = left.conditions(before, self._state.now())
        if status["conditions"] != before:
            self._state.storage.update(bucket, obj, record)

    def _furnish(self, namespace: str) -> None:
        options, storage = self._state.options, self._state.storage
        accounts = storage.bucket("serviceaccounts")
        if options.default_service_accounts and accounts.get(namespace, "default") is None:
            metadata = {"name": "default", "namespace": namespace}
            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
            put(self._state, "serviceaccounts", account)
        name = "kube-root-ca.crt"
        if (
            options.root_ca_config_maps
            and storage.bucket("configmaps").get(namespace, name) is None
        ):
            metadata = {"name": name, "namespace": namespace}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
            put(self._state, "configmaps", {**body, "data": {"ca.crt": ""}})

    async def _empty(self, namespace: str) -> Remaining:
        """Ask for the deletion of everything inside; what is left."""
        done = 0
        left = Remaining()
        for kind in list(self._state.catalog):
            if not kind.namespaced or kind.create_only or kind.group == "events.k8s.io":
                continue
            bucket = self._state.bucket(kind)
            for item in list(bucket.scan(namespace)):
                current = bucket.get(item.namespace, item.name)
                if current is None:
                    continue
                if not self._remove(kind, current):
                    left.note(kind, current)
                done += 1
                if done % _SLICE == 0:
                    await asyncio.sleep(0)
        return left

    def _remove(self, kind: Kind, record: Record) -> bool:
        grace = 0 if kind.resource == "pods" else None
        gone, _ = self._remover.remove(
            kind, record, DeleteOptions(grace=grace, propagation="Background")
        )
        return gone

    def _finalize(self, name: str) -> None:
        bucket = self._state.storage.bucket("namespaces")
        record = bucket.get("", name)
        if record is None:
            return
        obj = record.load()
        spec = obj.get("spec") or {}
        kept = [item for item in spec.get("finalizers") or [] if item != "kubernetes"]
        if kept == (spec.get("finalizers") or []):
            return
        obj["spec"] = {"finalizers": kept} if kept else {}
        if kept or obj["metadata"].get("finalizers"):
            self._state.storage.update(bucket, obj, record)
        else:
            self._state.storage.delete(bucket, record, obj)

    # -- definitions -----------------------------------------------------------------------

    def _definition(self, record: Record) -> None:
        if not record.obj["metadata"].get("deletionTimestamp"):
            return
        if not self._definitions.clean(record, self._remove):
            return
        bucket = self._state.storage.bucket(DEFINITIONS)
        current = bucket.get("", record.name)
        if current is None:
            return
        obj = current.load()
        finalizers = obj["metadata"].get("finalizers") or []
        if FINALIZER not in finalizers:
            return
        finalizers.remove(FINALIZER)
        if finalizers:
            self._state.storage.update(bucket, obj, current)
            return
        self._state.storage.delete(bucket, current, obj)
        self._definitions.withdraw(obj)


@dataclass(slots=True)
class Remaining:
    """Objects that a deletion left, by resource and by finalizer."""

    resources: Counter[str] = field(default_factory=Counter)
    finalizers: Counter[str] = field(default_factory=Counter)

    def note(self, kind: Kind, record: Record) -> None:
        self.resources[f"{kind.plural}.{kind.group}"] += 1
        self.finalizers.update(record.obj["metadata"].get("finalizers") or ())

    def __bool__(self) -> bool:
        return bool(self.resources)

    def conditions(self, before: list[Manifest], now: str) -> list[Manifest]:
        """Return the conditions now; one that is the same as before keeps its time."""
        said = {
            "NamespaceContentRemaining": (
                "SomeResourcesRemain",
                "Some resources are remaining: ",
                [f"{name} has {n} resource instances" for name, n in self.resources.items()],
            ),
            "NamespaceFinalizersRemaining": (
                "SomeFinalizersRemain",
                "Some content in the namespace has finalizers remaining: ",
                [f"{name} in {n} resource instances" for name, n in self.finalizers.items()],
            ),
        }
        known = {condition["type"]: condition for condition in before}
        found = []
        for type_, reason, message in _FINE:
            status = "False"
            problem, lead, items = said.get(type_, ("", "", []))
            if items:
                status, reason, message = "True", problem, lead + ", ".join(sorted(items))
            new = {"type": type_, "status": status, "reason": reason, "message": message}
            old = known.pop(type_, {})
            same = all(old.get(name) == value for name, value in new.items())
            new["lastTransitionTime"] = old["lastTransitionTime"] if same else now
            found.append(new)
        return [*known.values(), *found]

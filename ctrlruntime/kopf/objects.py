"""One pass over one object: events, indices, and the handlers of what happened since the last record."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, Final

from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.cache.entry import Entry
from ctrlruntime.cache.events import CreateEvent, Event
from ctrlruntime.client.errors import Conflict, NotFound
from ctrlruntime.controller.reconcile import Result
from ctrlruntime.kopf.bodies import Body, Memo, Patch, essence_of, logger_of
from ctrlruntime.kopf.filters import Cause, matches
from ctrlruntime.kopf.handling import Attempts, Invocation, Runner, attempt
from ctrlruntime.kopf.indices import Indices
from ctrlruntime.kopf.records import Pending, Record, Records
from ctrlruntime.kopf.registry import CHANGING, Handler
from ctrlruntime.manager.manager import Manager
from ctrlruntime.queue import Request

__all__ = ["FINALIZER", "Kind", "ObjectHandling"]

FINALIZER: Final = "kopf.zalando.org/KopfFinalizerMarker"
"""That of kopf: what it left on objects is taken away as well when operators change over."""


@dataclass(slots=True, kw_only=True)
class Kind:
    """A kind, its handlers and where its records are."""

    mapping: RESTMapping
    handlers: list[Handler]
    records: Records
    has_status: bool
    """Its status is a subresource."""

    def of(self, *reasons: str) -> list[Handler]:
        return [handler for handler in self.handlers if handler.reason in reasons]


@dataclass(slots=True)
class Seen:
    """What this process remembers of an object."""

    entry: Entry
    memo: Memo
    initial: bool
    record: Record | None = None
    """What could not be written yet, or is not to be: it wins over what is kept."""
    unwritten: Patch | None = None
    resuming: dict[str, Attempts] = field(default_factory=dict)


@dataclass(slots=True)
class ObjectHandling:
    """The reconciler of a kind. Passes of one object never overlap."""

    kind: Kind
    manager: Manager
    indices: Indices
    memo: Memo
    threads: Executor
    finalizer: str = FINALIZER
    seen: dict[Request, Seen] = field(default_factory=dict)
    listed: set[str] = field(default_factory=set)
    """UIDs of the objects that were there at the start and had no pass yet."""
    changed: Callable[[Request], None] = lambda _: None

    def note(self, event: Event) -> bool:
        """Note what is there at the start; a predicate that lets everything through."""
        if isinstance(event, CreateEvent) and event.initial:
            self.listed.add(event.new.uid)
        return True

    async def reconcile(self, request: Request) -> Result | None:
        """Raise APIError where a write fails; what was done is not done again then."""
        cache, mapping = self.manager.cache, self.kind.mapping
        await self.indices.fill()
        await self.kind.records.load()
        entry = cache.entry(mapping, request.name, namespace=request.namespace or None)
        seen = self.seen.get(request)
        if seen is not None and (entry is None or entry.uid != seen.entry.uid):
            await self._gone(request, seen)
            seen = None
        if entry is None:
            return None
        event = "MODIFIED"
        if seen is None:
            initial = entry.uid in self.listed
            self.listed.discard(entry.uid)
            seen = Seen(entry, Memo(self.memo), initial)
            self.seen[request] = seen
            event = "" if initial else "ADDED"
        seen.entry = entry
        body = Body(entry.decode())
        await self._index(body, seen)
        await self._notify(event or None, body, seen)
        self.changed(request)
        return await self._handle(body, seen)

    async def _gone(self, request: Request, seen: Seen) -> None:
        del self.seen[request]
        body = Body(seen.entry.decode())
        self.indices.discard(self.kind.of("index"), seen.entry.uid)
        self.kind.records.forget(seen.entry.uid)
        self.changed(request)
        await self._notify("DELETED", body, seen)

    async def _index(self, body: Body, seen: Seen) -> None:
        if handlers := self.kind.of("index"):
            await self.indices.update(handlers, self.cause("index", body, seen.memo))

    async def _notify(self, event: str | None, body: Body, seen: Seen) -> None:
        """Call the event handlers, once each: what fails is logged."""
        handlers = self.kind.of("event")
        if not handlers:
            return
        cause = self.cause("event", body, seen.memo)
        cause.kwargs |= {"event": {"type": event, "object": body}, "type": event}
        for handler in handlers:
            if matches(handler, cause):
                invocation = self.invocation(body)
                await invocation.call(
                    attempt(handler, Attempts(), cause.kwargs, self.threads, cause.kwargs["logger"])
                )
        patch: Patch = cause.kwargs["patch"]
        if patch and event != "DELETED":
            await self.write(body, patch)

    async def _handle(self, body: Body, seen: Seen) -> Result | None:
        kind = self.kind
        handlers = kind.of(*CHANGING)
        if not handlers:
            return None
        if seen.unwritten is not None and seen.record is not None:
            body = await self._save(body, seen, seen.record, seen.unwritten)
        is_going = bool(body["metadata"].get("deletionTimestamp"))
        held = self.finalizer in (body["metadata"].get("finalizers") or ())
        if is_going and not held:
            return None
        record = seen.record or kind.records.read(body)
        cause = self._cause_of(body, seen, record, is_going)
        holders = [h for h in kind.of("delete") if not h.options.get("optional")]
        if not is_going and holders and not held:
            ending = Cause(reason="delete", body=body, new=cause.new, kwargs=cause.kwargs)
            if any(matches(handler, ending) for handler in holders):
                body = await self._set_finalizer(body, held=True)
                cause.body = body
                cause.kwargs |= parts_of(body)
        elif held and not is_going and not holders:
            body = await self._set_finalizer(body, held=False)
        if self._compares and record.handled and record.essence is None:
            record = Record(handled=True, essence=dict(cause.new or {}), pending=record.pending)
            body = await self._save(body, seen, record, Patch())  # update handlers are new to it
        if not cause.reason:
            return None
        return await self._run(body, seen, record, cause)

    def _cause_of(self, body: Body, seen: Seen, record: Record, is_going: bool) -> Cause:
        """Return what happened; without a reason if nothing did."""
        paths = [handler.field for handler in self.kind.of(*CHANGING) if handler.field]
        old, new = record.essence, essence_of(body, paths)
        pending = record.pending
        if is_going:
            reason = "delete"
        elif pending is not None and pending.reason in ("create", "update"):
            reason = pending.reason
        elif not record.handled and self.kind.of("create", "update", "field"):
            reason = "create"
        elif self._compares and old is not None and old != new:
            reason = "update"
        else:
            reason = "resume" if seen.initial else ""
        cause = self.cause(reason, body, seen.memo)
        cause.old, cause.new, cause.initial = old, new, seen.initial
        cause.kwargs["reason"] = reason
        return cause

    @property
    def _compares(self) -> bool:
        return bool(self.kind.of("update", "field"))

    async def _run(self, body: Body, seen: Seen, record: Record, cause: Cause) -> Result | None:
        chosen = [handler for handler in self.kind.of(*CHANGING) if matches(handler, cause)]
        pending = record.pending
        if pending is None or pending.reason != cause.reason:
            pending = Pending(cause.reason, dict(cause.new or {}))
        if cause.reason == "resume":
            pending.progress = seen.resuming  # for this start alone: nothing is written
        current = Record(record.handled, record.essence, pending)
        patch: Patch = cause.kwargs["patch"]
        is_recorded = cause.reason != "resume"

        async def save() -> None:
            nonlocal body
            written = Patch(patch)
            patch.clear()
            body = await self._save(body, seen, current, written, record_it=is_recorded)
            cause.body = body
            cause.kwargs |= parts_of(body)

        runner = Runner(
            self.invocation(body), pending.progress, patch, save,
            lambda handler: cause.kwargs | cause.of_field(handler), self.threads,
            cause.kwargs["logger"],
        )  # fmt: skip
        wait = await runner.run(chosen)
        if wait is not None:
            if is_recorded or patch:
                await save()
            return Result(requeue_after=max(wait, 0.001))
        seen.initial = False
        if cause.reason == "delete":
            seen.record, seen.unwritten = current, Patch(patch) if patch else None
            await self._let_go(body, patch)  # where it fails, the next pass runs nothing again
            return None
        essence = pending.essence if self._compares else None
        done = Record(handled=True, essence=essence)
        is_recorded = is_recorded and record != done
        current = done
        if is_recorded or patch:
            await save()
        changed = self._compares and cause.new != pending.essence
        return Result(requeue_after=0.001) if changed else None  # it is an update of its own

    # -- writes ------------------------------------------------------------------------------

    async def _save(
        self, body: Body, seen: Seen, record: Record, patch: Patch, *, record_it: bool = True
    ) -> Body:
        """Write a patch and a record. Where that fails, the next pass writes them first, and runs nothing again."""
        seen.record, seen.unwritten = record, Patch(patch)
        if record_it:
            await self.kind.records.save(body, record, patch)
        body = await self.write(body, patch)
        seen.record = seen.unwritten = None
        return body

    async def write(self, body: Body, patch: Mapping[str, Any]) -> Body:
        """Write a merge patch: the status by itself where it is a subresource. Returns the object as it is then."""
        meta, client = body["metadata"], self.manager.client
        name, namespace = meta["name"], meta.get("namespace")
        rest = dict(patch)
        status = rest.pop("status", None) if self.kind.has_status else None
        found: Mapping[str, Any] = body
        try:
            if rest:
                found = await client.patch(self.kind.mapping, name, rest, namespace=namespace)
            if status:
                found = await client.patch_status(
                    self.kind.mapping, name, {"status": status}, namespace=namespace
                )
        except NotFound:
            return body  # it is gone, and what was to be written of it with it
        return Body(found)

    async def _set_finalizer(self, body: Body, *, held: bool) -> Body:
        meta = body["metadata"]
        others = [name for name in meta.get("finalizers") or () if name != self.finalizer]
        wanted = [*others, self.finalizer] if held else others
        version = {"resourceVersion": meta["resourceVersion"], "finalizers": wanted}
        return await self.write(body, {"metadata": version})

    async def _let_go(self, body: Body, patch: Patch) -> None:
        """Take the finalizer away: the record that the last delete handler is done."""
        if patch:
            body = await self.write(body, patch)
        while self.finalizer in (body["metadata"].get("finalizers") or ()):
            try:
                await self._set_finalizer(body, held=False)
                return
            except Conflict:  # another writer was faster; a new pass would run the handler again
                meta = body["metadata"]
                try:
                    found = await self.manager.cluster.live_client.get(
                        self.kind.mapping, meta["name"], namespace=meta.get("namespace")
                    )
                except NotFound:
                    return
                body = Body(found)

    # -- what handlers are given -------------------------------------------------------------

    def cause(self, reason: str, body: Body, memo: Memo) -> Cause:
        """Return a cause with what handlers of all kinds are given."""
        meta = body["metadata"]
        kwargs: dict[str, Any] = {
            "patch": Patch(),
            "memo": memo,
            "resource": self.kind.mapping,
            "logger": logger_of(meta["name"], namespace=meta.get("namespace")),
            **parts_of(body),
            **self.indices.views,
        }
        return Cause(reason=reason, body=body, kwargs=kwargs)

    def invocation(self, body: Body) -> Invocation:
        return Invocation(body, asyncio.get_running_loop(), self.manager.recorder)


def parts_of(body: Body) -> dict[str, Any]:
    """Return an object and its parts by the names of keyword arguments."""
    meta = body.meta
    return {
        "body": body,
        "meta": meta,
        "spec": body.spec,
        "status": body.status,
        "uid": meta.uid,
        "name": meta.name,
        "namespace": meta.namespace,
        "labels": meta.labels,
        "annotations": meta.annotations,
    }

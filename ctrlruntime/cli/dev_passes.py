"""What one reconcile did: its cause, the requests it sent, what they changed, and how long it took."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.cli.dev_stall import StoodStill
from ctrlruntime.client.call import Call, Execute
from ctrlruntime.client.calling import as_json
from ctrlruntime.client.errors import APIError
from ctrlruntime.client.transport import Response
from ctrlruntime.clock import perf
from ctrlruntime.controller import Reconciler, Result, reconcile_context
from ctrlruntime.controller.event_dispatch import LOW_PRIORITY
from ctrlruntime.controller.worker import describe_error
from ctrlruntime.queue import Request
from ctrlruntime.resources.field_changes import FieldChange, field_changes, masked

AGAIN: Final = 0.1
"""Seconds after which a request is looked at again that a reconcile of the former code still holds."""
LONG: Final = 5.0
"""Seconds after which such a reconcile is named: it may never end."""
LEFT_OUT: Final = frozenset(
    f"metadata.{name}"
    for name in ("managedFields", "resourceVersion", "generation", "creationTimestamp", "uid")
)
"""Fields that the server sets with each write."""
OWN_RECORDS: Final = "metadata.annotations['ctrlruntime.dev/"
"""Where a Control records what it wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A request of a reconcile, and its answer."""

    verb: str
    resource: str
    """Plural, and subresource if any: ``websites/status``."""
    object: str
    """Namespace and name."""
    answer: str
    """The status code, or the error."""
    changes: tuple[FieldChange, ...] = ()
    """What a write changed, with the data of Secrets masked; empty where the former state is not in the cache."""


@dataclass(slots=True, kw_only=True)
class Pass:
    """A reconcile, shown once it has ended."""

    controller: str
    request: Hashable
    reasons: frozenset[str]
    attempt: int
    priority: int
    requests: list[Sent] = field(default_factory=list)
    seconds: float = 0.0
    error: str = ""
    requeue_after: float | None = None

    @property
    def quiet(self) -> bool:
        """Whether it found nothing to do for an object that was only listed."""
        return not self.requests and not self.error and self.priority <= LOW_PRIORITY

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yield style and text of each line."""
        count = len(self.requests)
        word = "request" if count == 1 else "requests"
        head = f"{self.controller} {name_of(self.request)}  {self.seconds * 1000:.0f} ms, {count} {word}"
        yield "bold", f"{head}; cause: {', '.join(sorted(self.reasons)) or 'unknown'}"
        for sent in self.requests:
            yield "", f"  {sent.verb} {sent.resource} {sent.object}: {sent.answer}"
            for change in sent.changes:
                yield _shown(change)
        if self.requeue_after:
            yield "dim", f"  runs again in {self.requeue_after:g} s"
        if self.error:
            attempt = f" (attempt {self.attempt + 1})" if self.attempt else ""
            yield "red", f"  failed{attempt}: {self.error}"


def name_of(request: Hashable) -> str:
    """Return the object of a request, or the request of a type of one's own, for people."""
    if not isinstance(request, Request):
        return str(request)
    parts = (request.cluster, request.namespace, request.name)
    return "/".join(part for part in parts if part)


def _shown(change: FieldChange) -> tuple[str, str]:
    if change.before is None:
        return "green", f"    + {change.path}: {_text(change.after)}"
    if change.after is None:
        return "red", f"    - {change.path}: {_text(change.before)}"
    return "yellow", f"    ~ {change.path}: {_text(change.before)} -> {_text(change.after)}"


def _text(value: object, limit: int = 120) -> str:
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}..."


_current: ContextVar[Pass | None] = ContextVar("ctrlruntime_dev_pass", default=None)


class PassRecorder:
    """Records every reconcile of a manager, and lets none of an object begin while another of it runs.

    The queue of a controller keeps to that within one load of the code; this does over all loads.
    """

    def __init__(
        self,
        state_of: Callable[[Call, Pass], Manifest | None],
        on_end: Callable[[Pass], None],
        note: Callable[[str], None],
        *,
        clock: Callable[[], float] = perf,
    ) -> None:
        """`state_of`: an object as the cache has it, before a write. `clock` returns seconds."""
        self._state_of = state_of
        self._on_end = on_end
        self._note = note
        self._clock = clock
        self._running: dict[tuple[str, Hashable], float] = {}
        self._postponed: dict[tuple[str, Hashable], frozenset[str]] = {}
        self._may_begin = asyncio.Event()
        """Not set from a reconcile that stood still until the next load: those of other objects would, too."""
        self._code = 0
        """How often the code was replaced."""
        self._may_begin.set()

    def wrap(self, controller: str, reconciler: Reconciler[Any]) -> Reconciler[Any]:
        """Return a reconciler whose passes are recorded."""
        return _Recorded(self, controller, reconciler)

    async def intercept(self, call: Call, execute: Execute) -> Response:
        """Note a request of the current reconcile; an interceptor of clients."""
        current = _current.get()
        if current is None:
            return await execute(call)
        before = self._state_of(call, current) if call.is_write else None
        try:
            answer = await execute(call)
        except Exception as error:
            text = f"{error.code} {error.reason}" if isinstance(error, APIError) else repr(error)
            current.requests.append(_sent(call, text))
            raise
        changes = changes_of(call, before, answer)
        current.requests.append(_sent(call, str(answer.status), changes))
        return answer

    async def reconcile(
        self, controller: str, reconciler: Reconciler[Any], request: Hashable
    ) -> Result | None:
        """Run a pass, unless one of this request runs: then again soon. Raises what the reconciler raises."""
        code = self._code
        await self._may_begin.wait()
        if code != self._code:
            return None
        run, key = reconcile_context(), (controller, request)
        if key in self._running:
            self._postponed[key] = self._postponed.get(key, frozenset()) | run.reasons
            if self._clock() - self._running[key] >= LONG:
                self._running[key] = float("inf")  # one note is enough
                self._note(
                    f"{controller}: former code is still at work on {request}, and the new code waits for that; "
                    "if it never ends, end the command, and start it again"
                )
            return Result(requeue_after=AGAIN, priority=run.priority)
        current = Pass(
            controller=controller,
            request=request,
            reasons=self._postponed.pop(key, run.reasons),
            attempt=run.attempt,
            priority=run.priority,
        )
        token, began = _current.set(current), self._clock()
        self._running[key] = began
        try:
            result = await reconciler.reconcile(request)
            current.requeue_after = getattr(result, "requeue_after", None)
            return result
        except (Exception, asyncio.CancelledError) as error:
            current.error = describe_error(error)
            raise
        except StoodStill as error:
            current.error = str(error)
            self._may_begin.clear()
        finally:
            del self._running[key]
            _current.reset(token)
            current.seconds = self._clock() - began
            self._on_end(current)
        await self._may_begin.wait()
        return None

    def go_on(self, *, replaced: bool) -> None:
        """Let reconciles begin again after one that was interrupted; of `replaced` code none does."""
        self._code += replaced
        self._may_begin.set()


class _Recorded:
    def __init__(
        self, recorder: PassRecorder, controller: str, reconciler: Reconciler[Any]
    ) -> None:
        self._recorder = recorder
        self._controller = controller
        self._reconciler = reconciler

    async def reconcile(self, request: Hashable, /) -> Result | None:
        return await self._recorder.reconcile(self._controller, self._reconciler, request)


def changes_of(call: Call, before: Manifest | None, answer: Response) -> tuple[FieldChange, ...]:
    """Return what a write changed, of a new object what was sent; nothing where the former state is unknown."""
    if call.verb not in ("create", "update", "patch", "apply") or call.mapping.plural == "events":
        return ()
    if answer.status == 201 and call.body is not None:
        sent = as_json(call.body)
        return _masked(call, _empty(sent), sent)
    after = as_json(answer.body)
    if before is None or after.get("kind") == "PartialObjectMetadata":
        return ()
    if before["metadata"].get("uid") != after["metadata"].get("uid"):
        return ()
    return _masked(call, before, after)


def _masked(call: Call, before: Manifest, after: Manifest) -> tuple[FieldChange, ...]:
    shown = (
        each
        for each in field_changes(before, after)
        if each.path not in LEFT_OUT and not each.path.startswith(OWN_RECORDS)
    )
    return masked(shown, call.mapping.gvk.group_kind, {})


def _empty(value: Manifest) -> Manifest:
    """Return the empty mappings of a new object, so that each of its fields is a change."""
    return {name: _empty(each) for name, each in value.items() if isinstance(each, dict)} | {
        name: value[name] for name in ("apiVersion", "kind", "name", "namespace") if name in value
    }


def _sent(call: Call, answer: str, changes: tuple[FieldChange, ...] = ()) -> Sent:
    resource = call.mapping.resource
    place = [part for part in (call.namespace, call.name or _created_name(call)) if part]
    return Sent(
        verb=f"{call.verb} (dry run)" if call.is_dry_run else call.verb,
        resource=f"{resource}/{call.subresource}" if call.subresource else resource,
        object="/".join(place),
        answer=answer,
        changes=changes,
    )


def _created_name(call: Call) -> str:
    if call.verb != "create" or call.body is None:
        return ""
    return str(as_json(call.body).get("metadata", {}).get("name", ""))

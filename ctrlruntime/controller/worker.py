"""One reconcile: context, deadline, errors, and what becomes of the item."""

from __future__ import annotations

import asyncio
import re
import traceback
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Final

from structlog.typing import FilteringBoundLogger

from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.client.errors import APIError, TransportError
from ctrlruntime.clock import perf
from ctrlruntime.controller.aggregate_error import TransientError, UnrecoverableError, is_transient
from ctrlruntime.controller.event_dispatch import LOW_PRIORITY
from ctrlruntime.controller.last_errors import LastErrors
from ctrlruntime.controller.metrics import ControllerMetrics, Outcome
from ctrlruntime.controller.object_timer import ObjectTimer
from ctrlruntime.controller.options import Settings
from ctrlruntime.controller.reconcile import (
    InvalidResult,
    ReconcileContext,
    ReconcileError,
    Reconciler,
    Result,
    TerminalError,
    _current,
)
from ctrlruntime.fast_dataclass import fast_dataclass
from ctrlruntime.hot_keys import HotKeys
from ctrlruntime.queue import Item, PriorityQueue, Request
from ctrlruntime.sharding.ownership import current_slot
from ctrlruntime.side_by_side import as_failure
from ctrlruntime.tracing import Tracing

if TYPE_CHECKING:
    from opentelemetry.trace import Span

MAX_FRAMES = 50
"""Innermost frames written for each exception of a chain."""
_MAX_CHAIN = 10
_MAX_MESSAGE = 500
_VARYING = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d+", re.IGNORECASE)
_EXPECTED = (TerminalError, ReconcileError, TransientError, UnrecoverableError, TransportError)
_Fingerprint = tuple[tuple[str, str, str, int], ...]

WINDOW: Final = 10.0
"""Seconds in which reconciles of a request are counted."""
MANY: Final = 300
"""Reconciles of one request in that time that no wanted change explains."""
ADVICE: Final = (
    "One object is reconciled again and again. Either each reconcile writes something that the next one finds changed (a time, a "
    "field that the server or a webhook sets), or another program undoes it: a second manager with the same field manager, which "
    "leader election with one Lease prevents, or another controller of the object, which its managedFields name"
)

BUGS: tuple[type[Exception], ...] = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    BufferError,
    IndexError,
    KeyError,
    MemoryError,
    NameError,
    NotImplementedError,
    RecursionError,
    SystemError,
    TypeError,
)
"""Exceptions that mean a mistake in the program, as a panic does in Go; counted as panics."""


RETRY: Final = 10.0
"""Seconds after which an item runs again whose result could not be settled."""


class ReconcileTimeout(TimeoutError):
    """The controller's own reconciliation timeout ended a run."""


@fast_dataclass(frozen=True, slots=True)
class _Ended:
    result: Result | None = None
    error: Exception | None = None


class Worker:
    """Runs the reconciler for the items of a queue. One instance serves all tasks of a controller."""

    def __init__(
        self,
        controller: str,
        kind: GroupKind | None,
        reconciler: Reconciler[Any],
        queue: PriorityQueue[Any],
        settings: Settings,
        metrics: ControllerMetrics,
        logger: FilteringBoundLogger,
        tracing: Tracing,
        *,
        slot_of: Callable[[Any], int] | None = None,
        timer: ObjectTimer | None = None,
    ) -> None:
        """`slot_of` returns the slot of a request, of a sharded controller."""
        self._slot_of = slot_of
        self._controller = controller
        self._kind = kind
        self._reconciler = reconciler
        self._queue = queue
        self._settings = settings
        self._metrics = metrics
        self._logger = logger
        self._tracing = tracing
        self._timer = timer
        self._tracebacks = Tracebacks()
        self._errors = LastErrors(controller)
        self._hot = HotKeys(many=MANY, window=WINDOW)

    def close(self) -> None:
        """Forget the errors of its requests."""
        self._errors.clear()

    async def process(self, item: Item[Any]) -> None:
        """Reconcile ``item`` and decide when it runs again.

        Raises only what must stop the controller: cancellation, and a bug in the reconciler when
        recovery is off.
        """
        if self._timer is not None and self._timer.is_over(item):
            self._queue.forget(item.request)
            return
        run = self._begin(item)
        token = _current.set(run)
        slot = None if self._slot_of is None else current_slot.set(self._slot_of(item.request))
        self._metrics.active(+1)
        started = perf()
        if self._hot.is_hot(item.request, started):
            text = f"at least {MANY} times within {WINDOW:g} s"
            run.logger.warning(ADVICE, often=text, reasons=sorted(item.reasons))
        outcome: Outcome = "error"
        try:
            if self._tracing.enabled:
                outcome = await self._traced(item, run)
            else:
                outcome = self._settled(item, run, await self._call(run, None))
        finally:
            self._metrics.active(-1)
            self._metrics.reconciled(outcome, perf() - started)
            if slot is not None:
                current_slot.reset(slot)
            _current.reset(token)

    async def _traced(self, item: Item[Any], run: ReconcileContext) -> Outcome:
        """Settle within the span too: a retry continues the trace of the reconcile that failed."""
        name = f"reconcile {self._controller}"
        with self._tracing.reconcile(name, item.links, _attributes(run)) as span:
            return self._settled(item, run, await self._call(run, span))

    def _begin(self, item: Item[Any]) -> ReconcileContext:
        request = item.request
        timeout = self._settings.reconciliation_timeout
        return ReconcileContext(
            controller=self._controller,
            request=request,
            reasons=item.reasons,
            priority=item.priority,
            attempt=self._queue.retries(request),
            deadline=None if timeout is None else asyncio.get_running_loop().time() + timeout,
            _bind=self._bound_logger,
        )

    def _bound_logger(self, request: Hashable, reconcile_id: str) -> FilteringBoundLogger:
        return self._logger.bind(**_bound(request, self._kind), reconcileID=reconcile_id)

    async def _call(self, run: ReconcileContext, span: Span | None) -> _Ended:
        scope = None if run.deadline is None else asyncio.timeout_at(run.deadline)
        try:
            if scope is None:
                result = await self._reconciler.reconcile(run.request)
            else:
                async with scope:
                    result = await self._reconciler.reconcile(run.request)
            if result is None or isinstance(result, Result):
                return _Ended(result=result)
            error: Exception = InvalidResult(result)
        except asyncio.CancelledError as cancelled:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            error = RuntimeError("the reconcile was cancelled from within")
            error.__cause__ = cancelled
        except BUGS as bug:
            self._metrics.panicked()
            if not self._settings.recover_panic:
                raise
            error = bug
        except TimeoutError as timeout:
            error = timeout
            if scope is not None and scope.expired():
                self._metrics.timed_out()
                error = ReconcileTimeout(
                    f"reconcile took longer than {self._settings.reconciliation_timeout:g} s"
                )
        except Exception as ordinary:  # noqa: BLE001 - whatever it raises is the reconciler's answer
            error = ordinary
        except BaseException as panic:
            error = as_failure(panic)
            self._metrics.panicked()
            if not self._settings.recover_panic:
                raise error from panic
        self._tracing.failed(span, error)
        return _Ended(error=error)

    def _settled(self, item: Item[Any], run: ReconcileContext, ended: _Ended) -> Outcome:
        """Settle an item. Where that fails, which no reconciler should be able to make happen, it runs again."""
        try:
            outcome = self._settle(item, run, ended)
            self._wait_for_timer(item.request)
            return outcome
        except Exception:
            run.logger.exception("The result of a reconcile could not be settled; it runs again")
            self._metrics.failed(terminal=False)
            self._queue.add(item.request, after=RETRY, reason="retried after an error")
            return "error"

    def _settle(self, item: Item[Any], run: ReconcileContext, ended: _Ended) -> Outcome:
        if ended.error is not None:
            self._fail(item, run, ended.error)
            return "error"
        self._tracebacks.forget(item.request)
        self._errors.forget(item.request)
        request, result = item.request, ended.result
        self._queue.forget(request)
        if result is None or not result.requeue_after or result.requeue_after < 0:
            return "success"
        self._queue.add(
            request,
            after=result.requeue_after,
            priority=item.priority if result.priority is None else result.priority,
            reason="requeued by the reconciler",
            scheduled=True,
        )
        return "requeue_after"

    def _wait_for_timer(self, request: Hashable) -> None:
        if self._timer is None or not isinstance(request, Request):
            return
        if (after := self._timer.next_pass(request)) is not None:
            self._queue.add(
                request,
                after=after,
                priority=LOW_PRIORITY,
                reason=self._timer.reason,
                scheduled=True,
            )

    def _fail(self, item: Item[Any], run: ReconcileContext, error: Exception) -> None:
        terminal = isinstance(error, TerminalError)
        self._metrics.failed(terminal=terminal)
        details: dict[str, object] = {"reasons": sorted(item.reasons), "terminal": terminal}
        if (exception := self._tracebacks.report(item.request, error)) is not None:
            details["exception"] = exception  # text, so that no renderer adds local variables
        text = describe_error(error)
        self._errors.record(item.request, text)
        run.logger.error("Reconciler error", error=text, **details)
        if terminal:
            self._queue.forget(item.request)
            return
        priority = item.priority
        if isinstance(error, ReconcileError):
            if error.result.requeue_after:
                run.logger.warning(
                    "requeue_after is ignored when the reconcile fails: the retry delay grows with "
                    "each failure"
                )
            if error.result.priority is not None:
                priority = error.result.priority
        self._queue.add(
            item.request,
            rate_limited=True,
            priority=priority,
            reason="retried after an error",
            link=self._tracing.cause(),
            scheduled=True,
        )


def describe_error(error: BaseException) -> str:
    """Return the error and its causes in one line: ``TypeError: ...; caused by ...``."""
    parts = [f"{type(error).__name__}: {error}"]
    cause = error.__cause__
    while cause is not None and len(parts) < 5:
        parts.append(f"{type(cause).__name__}: {cause}")
        cause = cause.__cause__
    return "; caused by ".join(parts)


def _bound(request: Hashable, kind: GroupKind | None) -> dict[str, str]:
    """Return the fields of a log line that say which request it is about."""
    if not isinstance(request, Request):
        return {"request": str(request)}
    bound = {"namespace": request.namespace, "name": request.name}
    if request.cluster:
        bound["cluster"] = request.cluster
    if kind is not None:
        bound[kind.kind] = request.log_key()
    return bound


def _object_attributes(request: Hashable) -> dict[str, str]:
    if not isinstance(request, Request):
        return {"request": str(request)}
    return {
        "k8s.namespace.name": request.namespace,
        "k8s.object.name": request.name,
        "k8s.cluster": request.cluster,
    }


def _attributes(run: ReconcileContext) -> dict[str, str | int]:
    return {
        "controller": run.controller,
        "reconcileID": run.reconcile_id,
        **_object_attributes(run.request),
        "attempt": run.attempt,
        "reasons": ", ".join(sorted(run.reasons)),
    }


class Tracebacks:
    """Decides which failures of a controller are logged with a traceback."""

    def __init__(self) -> None:
        self._last: dict[Hashable, _Fingerprint] = {}

    def report(self, request: Hashable, error: BaseException) -> str | None:
        """Return the traceback of ``error``, without local variables.

        None for an expected error, and for the exception that the last failure of ``request`` had: the
        same type, place and message, numbers and UUIDs in it aside.
        """
        if is_expected(error):
            self.forget(request)
            return None
        fingerprint = _fingerprint(error)
        if self._last.get(request) == fingerprint:
            return None
        self._last[request] = fingerprint
        return format_traceback(error)

    def forget(self, request: Hashable) -> None:
        """Clear what is kept of ``request``, whose next failure is a new one."""
        if self._last:  # seldom: no hash of the request where nothing fails
            self._last.pop(request, None)


def is_expected(error: BaseException) -> bool:
    """Return whether the message of an error is enough: raised as a verdict, or an answer that retries resolve."""
    return isinstance(error, _EXPECTED) or (isinstance(error, APIError) and is_transient(error))


def format_traceback(error: BaseException) -> str:
    """Return the traceback of an exception and its causes, without local variables."""
    lines = traceback.TracebackException.from_exception(
        error, limit=-MAX_FRAMES, capture_locals=False, compact=True
    ).format()
    return "".join(lines).rstrip()


def _fingerprint(error: BaseException) -> _Fingerprint:
    found: list[tuple[str, str, str, int]] = []
    pending: list[BaseException] = [error]
    while pending and len(found) < _MAX_CHAIN:
        each = pending.pop(0)
        file, line = _raised_at(each)
        message = _VARYING.sub("#", str(each)[:_MAX_MESSAGE])
        found.append((type(each).__qualname__, message, file, line))
        if isinstance(each, BaseExceptionGroup):
            pending += each.exceptions
        cause = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
        if cause is not None:
            pending.append(cause)
    return tuple(found)


def _raised_at(error: BaseException) -> tuple[str, int]:
    """Return file and line of the innermost frame."""
    place = error.__traceback__
    if place is None:
        return "", 0
    while place.tb_next is not None:
        place = place.tb_next
    return place.tb_frame.f_code.co_filename, place.tb_lineno

"""One reconcile: context, deadline, errors, and what becomes of the item."""

from __future__ import annotations

import asyncio
import time
import uuid
from dataclasses import dataclass

from opentelemetry.trace import Span
from structlog.typing import FilteringBoundLogger

from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.controller.metrics import ControllerMetrics, Outcome
from ctrlruntime.controller.options import Settings
from ctrlruntime.controller.reconcile import (
    ReconcileError,
    Reconciler,
    Result,
    Run,
    TerminalError,
    _current,
)
from ctrlruntime.queue import Item, PriorityQueue
from ctrlruntime.tracing import Tracing

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


class ReconcileTimeout(TimeoutError):
    """The controller's own reconciliation timeout ended a run."""


@dataclass(frozen=True, slots=True)
class _Ended:
    result: Result | None = None
    error: Exception | None = None


class Worker:
    """Runs the reconciler for the items of a queue. One instance serves all tasks of a controller."""

    def __init__(
        self,
        controller: str,
        kind: GroupKind | None,
        reconciler: Reconciler,
        queue: PriorityQueue,
        settings: Settings,
        metrics: ControllerMetrics,
        logger: FilteringBoundLogger,
        tracing: Tracing,
    ) -> None:
        self._controller = controller
        self._kind = kind
        self._reconciler = reconciler
        self._queue = queue
        self._settings = settings
        self._metrics = metrics
        self._logger = logger
        self._tracing = tracing

    async def process(self, item: Item) -> None:
        """Reconciles ``item`` and decides when it runs again.

        Raises only what must stop the controller: cancellation, and a bug in the reconciler when
        recovery is off.
        """
        run = self._begin(item)
        token = _current.set(run)
        self._metrics.active(+1)
        started = time.perf_counter()
        outcome: Outcome = "error"
        try:
            with self._tracing.reconcile(
                f"reconcile {self._controller}", item.links, _attributes(run)
            ) as span:
                ended = await self._call(run, span)
            outcome = self._settle(item, run, ended)
        finally:
            self._metrics.active(-1)
            self._metrics.reconciled(outcome, time.perf_counter() - started)
            _current.reset(token)

    def _begin(self, item: Item) -> Run:
        request = item.request
        reconcile_id = str(uuid.uuid4())
        timeout = self._settings.reconciliation_timeout
        bound = {"namespace": request.namespace, "name": request.name, "reconcileID": reconcile_id}
        if request.cluster:
            bound["cluster"] = request.cluster
        if self._kind is not None:
            bound[self._kind.kind] = str(request)
        return Run(
            reconcile_id=reconcile_id,
            controller=self._controller,
            request=request,
            reasons=item.reasons,
            priority=item.priority,
            attempt=self._queue.retries(request),
            deadline=None if timeout is None else asyncio.get_running_loop().time() + timeout,
            logger=self._logger.bind(**bound),
        )

    async def _call(self, run: Run, span: Span | None) -> _Ended:
        scope = asyncio.timeout_at(run.deadline)
        try:
            async with scope:
                return _Ended(result=await self._reconciler.reconcile(run.request))
        except asyncio.CancelledError as cancelled:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            error: Exception = RuntimeError("the reconcile was cancelled from within")
            error.__cause__ = cancelled
        except BUGS as bug:
            self._metrics.panicked()
            if not self._settings.recover_panic:
                raise
            run.logger.exception("Reconciler has a bug; it goes on with the next item")
            error = bug
        except TimeoutError as timeout:
            error = timeout
            if scope.expired():
                self._metrics.timed_out()
                error = ReconcileTimeout(
                    f"reconcile took longer than {self._settings.reconciliation_timeout:g} s"
                )
        except Exception as ordinary:  # noqa: BLE001 - whatever it raises is the reconciler's answer
            error = ordinary
        self._tracing.failed(span, error)
        return _Ended(error=error)

    def _settle(self, item: Item, run: Run, ended: _Ended) -> Outcome:
        if ended.error is not None:
            self._fail(item, run, ended.error)
            return "error"
        request, result = item.request, ended.result
        self._queue.forget(request)
        if result is None or not result.requeue_after or result.requeue_after < 0:
            return "success"
        self._queue.add(
            request,
            after=result.requeue_after,
            priority=item.priority if result.priority is None else result.priority,
            reason="requeued by the reconciler",
        )
        return "requeue_after"

    def _fail(self, item: Item, run: Run, error: Exception) -> None:
        terminal = isinstance(error, TerminalError)
        self._metrics.failed(terminal=terminal)
        run.logger.error(
            "Reconciler error",
            error=describe_error(error),
            reasons=sorted(item.reasons),
            terminal=terminal,
        )
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
            item.request, rate_limited=True, priority=priority, reason="retried after an error"
        )


def describe_error(error: BaseException) -> str:
    """The error and its causes in one line: ``TypeError: ...; caused by ...``."""
    parts = [f"{type(error).__name__}: {error}"]
    cause = error.__cause__
    while cause is not None and len(parts) < 5:
        parts.append(f"{type(cause).__name__}: {cause}")
        cause = cause.__cause__
    return "; caused by ".join(parts)


def _attributes(run: Run) -> dict[str, str | int]:
    return {
        "controller": run.controller,
        "reconcileID": run.reconcile_id,
        "k8s.namespace.name": run.request.namespace,
        "k8s.object.name": run.request.name,
        "k8s.cluster": run.request.cluster,
        "attempt": run.attempt,
        "reasons": ", ".join(sorted(run.reasons)),
    }

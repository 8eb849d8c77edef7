"""What a reconciler is given and what it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from structlog.typing import FilteringBoundLogger

from ctrlruntime.queue import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The answer of a reconcile that did not fail. The empty result means: done until something changes."""

    requeue_after: float | None = None
    """Seconds after which to run again; the failure count is cleared. ``None`` or 0: not again."""
    priority: int | None = None
    """Priority of the next run this one asks for; by default that of this run is kept."""


class TerminalError(Exception):
    """An error that trying again cannot mend: it is counted and logged, the item is not requeued.

    Use ``raise TerminalError("...") from error`` to keep the cause.
    """


class ReconcileError(Exception):
    """An ordinary error that also carries ``result``.

    Only ``result.priority`` has an effect: with an error the retry delay is the limiter's.
    """

    def __init__(self, message: str, *, result: Result | None = None) -> None:
        super().__init__(message)
        self.result = result if result is not None else Result()


@runtime_checkable
class Reconciler(Protocol):
    """Brings the world one step closer to what the object named by ``request`` asks for.

    Runs never overlap for one request. Raising means: try again later with growing delay.
    """

    async def reconcile(self, request: Request) -> Result | None: ...


ReconcileFunc = Callable[[Request], Awaitable[Result | None]]


class FuncReconciler:
    """A plain coroutine function as a reconciler."""

    def __init__(self, func: ReconcileFunc) -> None:
        self._func = func

    async def reconcile(self, request: Request) -> Result | None:
        return await self._func(request)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The reconcile in progress, as :func:`current` gives it."""

    reconcile_id: str
    """Unique per run (UUID 4); also in every log line and span of the run."""
    controller: str
    request: Request
    reasons: frozenset[str]
    """What put the item into the queue, for people to read."""
    priority: int
    attempt: int
    """0, or the number of failures in a row before this run."""
    deadline: float | None
    """The loop's time at which the run is cancelled; None without a reconciliation timeout."""
    logger: FilteringBoundLogger


_current: ContextVar[Run] = ContextVar("ctrlruntime_run")


def current() -> Run:
    """The reconcile this code runs in. Raises LookupError outside of one."""
    try:
        return _current.get()
    except LookupError:
        raise LookupError(
            "there is no reconcile in progress: current() only works in code that a controller runs"
        ) from None

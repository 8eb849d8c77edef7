"""What a reconciler is given and what it answers."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, cast, runtime_checkable

import structlog
from structlog.typing import FilteringBoundLogger
from typing_extensions import TypeVar

from ctrlruntime.api.resource import TypedKindRef
from ctrlruntime.cache.entry import KindT
from ctrlruntime.clock import new_uid
from ctrlruntime.controller.object_change import ObjectChange, Versions
from ctrlruntime.fast_dataclass import fast_dataclass
from ctrlruntime.queue import Request, RequestT

RequestT_contra = TypeVar("RequestT_contra", contravariant=True, default=Request)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The answer of a reconcile that did not fail. The empty result means: done until something changes."""

    requeue_after: float | None = None
    """Seconds after which to run again; the failure count is cleared. ``None`` or 0: not again."""
    priority: int | None = None
    """Priority of the next run that this one requests; by default that of this run is kept."""

    def __post_init__(self) -> None:
        """Raise TypeError or ValueError, naming the fix, for values that are no seconds or no priority."""
        after, priority = self.requeue_after, self.priority
        if after is not None and (isinstance(after, bool) or not isinstance(after, int | float)):
            raise TypeError(f"requeue_after is a number of seconds, not {_show(after)}")
        if after is not None and not math.isfinite(after):
            raise ValueError(f"requeue_after is a finite number of seconds, not {after}")
        if priority is not None and (isinstance(priority, bool) or not isinstance(priority, int)):
            raise TypeError(f"priority is an int, not {_show(priority)}")


class TerminalError(Exception):
    """An error that trying again cannot mend: it is counted and logged, the item is not requeued.

    Use ``raise TerminalError("...") from error`` to keep the cause.
    """


class InvalidResult(TypeError):
    """A reconcile returned neither None nor a Result. It counts as failed, and is retried."""

    def __init__(self, result: object) -> None:
        super().__init__(
            f"the reconciler returned {_show(result)}: return None when there is nothing to do until "
            "something changes, or Result(requeue_after=seconds)"
        )


class ReconcileError(Exception):
    """An ordinary error that also carries ``result``.

    Only ``result.priority`` has an effect: with an error the retry delay is the limiter's.
    """

    def __init__(self, message: str, *, result: Result | None = None) -> None:
        if result is not None and not isinstance(result, Result):
            raise TypeError(f"the result of a ReconcileError is a Result, not {_show(result)}")
        super().__init__(message)
        self.result = result if result is not None else Result()


@runtime_checkable
class Reconciler(Protocol[RequestT_contra]):
    """Bring the actual state one step closer to the spec of the object named by ``request``.

    Runs never overlap for one request. Raising means: try again later with growing delay.
    """

    async def reconcile(self, request: RequestT_contra, /) -> Result | None: ...


@runtime_checkable
class BlockingReconciler(Protocol[RequestT_contra]):
    """Like a `Reconciler`, with a plain method, which runs in a thread: see `ThreadReconciler`."""

    def reconcile(self, request: RequestT_contra, /) -> Result | None: ...


def check_reconciler(reconciler: object) -> None:
    """Raise TypeError, naming the fix, for what cannot reconcile a request."""
    if inspect.isclass(reconciler):
        raise TypeError(
            f"{reconciler.__name__} is a class: pass an instance, {reconciler.__name__}()"
        )
    method = reconciler.reconcile if isinstance(reconciler, Reconciler) else reconciler
    if not callable(method):
        raise TypeError(
            f"a controller needs a reconciler, not {reconciler!r}: pass a coroutine function of one "
            "request, a plain function (it runs in a thread), or an object with such a method `reconcile`"
        )
    name = getattr(method, "__qualname__", repr(method))
    if inspect.isasyncgenfunction(method) or inspect.isgeneratorfunction(method):
        raise TypeError(f"{name} is a generator: return None or a Result, and yield nothing")
    try:
        inspect.signature(method).bind(None)
    except TypeError as error:
        raise TypeError(
            f"{name} cannot be called with one argument, the request: {error}"
        ) from None
    except ValueError:
        return  # a callable without a signature, as some built in C are


def is_asynchronous(fn: Callable[..., object]) -> bool:
    """Whether a callable is a coroutine function, or marked as one, also within partials and wrappers."""
    unwrapped = inspect.unwrap(fn)
    while isinstance(unwrapped, functools.partial):
        unwrapped = inspect.unwrap(unwrapped.func)
    called = getattr(type(unwrapped), "__call__", None)  # noqa: B004 - the method itself
    marked = (fn, unwrapped, called)
    return any(each is not None and inspect.iscoroutinefunction(each) for each in marked)


def _show(value: object) -> str:
    """Return a value of a wrong type for a message: its type alone where its text may be long."""
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    return f"an object of type {type(value).__name__}"


AsyncReconcileFunc = Callable[[RequestT], Awaitable[Result | None]]
ReconcileFunc = AsyncReconcileFunc[RequestT] | Callable[[RequestT], Result | None]
"""A plain function runs in a thread."""


class FuncReconciler(Generic[RequestT]):
    """A plain coroutine function as a reconciler."""

    def __init__(self, func: AsyncReconcileFunc[RequestT]) -> None:
        self.reconcile = cast("Callable[[RequestT], Coroutine[Any, Any, Result | None]]", func)
        """The function itself: no coroutine around it."""


@fast_dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileContext:
    """The reconcile in progress, as :func:`reconcile_context` gives it."""

    controller: str
    request: Any
    """A :class:`Request`, or of the type that the controller was built for."""
    reasons: frozenset[str]
    """What put the item into the queue, for people to read."""
    priority: int
    attempt: int
    """0, or the number of failures in a row before this run."""
    deadline: float | None
    """The loop's time at which the run is cancelled; None without a reconciliation timeout."""
    _bind: Callable[[Any, str], FilteringBoundLogger] = field(repr=False)
    """Makes the logger of a run of this request with this ID."""
    _reconcile_id: str = field(default="", init=False, repr=False, compare=False)
    _logger: FilteringBoundLogger | None = field(
        default=None, init=False, repr=False, compare=False
    )

    _versions: Versions | None = field(default=None, init=False, repr=False, compare=False)

    def change(self, kind: TypedKindRef[KindT]) -> ObjectChange[KindT]:
        """Return the object as the last successful reconcile found it, as this one does, and what differs.

        ``kind`` is the one given to `for_`, where ``keep_old=True`` has it kept. Raises LookupError without that, or for
        another kind.
        """
        if self._versions is None:
            raise LookupError(
                f"controller {self.controller!r} keeps no former objects: pass keep_old=True to for_()"
            )
        return self._versions.read_as(kind)

    def show(self, versions: Versions) -> None:
        """Set what `change` returns."""
        object.__setattr__(self, "_versions", versions)

    @property
    def reconcile_id(self) -> str:
        """Unique per run (UUID 4); also in every log line and span of the run. Made when first read."""
        if not self._reconcile_id:
            object.__setattr__(self, "_reconcile_id", new_uid())
        return self._reconcile_id

    @property
    def logger(self) -> FilteringBoundLogger:
        """The logger of the run. Made when first read: most reconciles log nothing."""
        logger = self._logger
        if logger is None:
            logger = self._bind(self.request, self.reconcile_id)
            object.__setattr__(self, "_logger", logger)
        return logger


_current: ContextVar[ReconcileContext] = ContextVar("ctrlruntime_run")


def logger_from_context() -> FilteringBoundLogger:
    """Return the logger of the reconcile in progress, or structlog's own outside of one.

    Its lines have the controller, the namespace and name of the request, and the reconcileID.
    """
    run = _current.get(None)
    if run is not None:
        return run.logger
    logger: FilteringBoundLogger = structlog.get_logger()
    return logger


def reconcile_context() -> ReconcileContext:
    """Return the reconcile this code runs in. Raises LookupError outside of one.

    It has what the request does not: `reasons` (what enqueued it, for people), `attempt` (failures in a row
    before it), `priority`, `deadline` (the loop's time at which it is cancelled, or None), `controller`,
    `reconcile_id` and `logger`. Tasks that the reconciler starts are in the same reconcile.

        context = reconcile_context()
        if context.attempt > 3:
            context.logger.warning("Still failing", reasons=sorted(context.reasons))
    """
    try:
        return _current.get()
    except LookupError:
        raise LookupError(
            "there is no reconcile in progress: reconcile_context() works in code that a controller runs"
        ) from None

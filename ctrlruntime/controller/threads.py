"""Reconcilers that block: a plain function runs in a thread, and its pass ends when the thread's work does."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Final, cast

from ctrlruntime.controller.reconcile import (
    AsyncReconcileFunc,
    FuncReconciler,
    Reconciler,
    Result,
    is_asynchronous,
    logger_from_context,
)

WORKS_ON: Final = "Reconcile cancelled; its thread works on, and the pass lasts until that ends"


@dataclass(frozen=True, slots=True)
class _Ended:
    answer: object = None
    error: BaseException | None = None


async def in_thread(
    func: Callable[[], object],
    threads: Executor | None = None,
    waits: Callable[[], object] = lambda: None,
) -> object:
    """Call a function in a thread, with the context of the caller; return or raise what it does.

    A cancellation is raised once the function has returned; one that still waits for a free thread is not called any
    more. `waits` is called at the first cancellation of one that runs.
    """
    begun = threading.Lock()  # whoever takes it decides: the thread, or a cancellation before it

    def call() -> _Ended:
        if not begun.acquire(blocking=False):
            return _Ended()
        try:
            return _Ended(func())
        except BaseException as error:  # noqa: BLE001 - raised again by the caller
            return _Ended(error=error)  # a future refuses some exceptions, as StopIteration

    context = contextvars.copy_context()
    work = asyncio.get_running_loop().run_in_executor(threads, context.run, call)
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait((work,))
        except asyncio.CancelledError as error:
            if cancelled is None and begun.acquire(blocking=False):
                raise
            if cancelled is None and not work.done():
                waits()
            cancelled = cancelled or error
    if cancelled is not None:
        raise cancelled
    ended = work.result()
    if ended.error is not None:
        raise ended.error
    return ended.answer


class ThreadReconciler:
    """A function that blocks, as a reconciler: called in a thread of the loop, with the context of the pass.

    A cancellation or a timeout ends the pass when the function has returned, not before: until then no other
    pass of the object begins, and a manager that stops keeps its Lease. A function that still waits for a
    free thread is not called any more.
    """

    def __init__(self, func: Callable[[Any], object]) -> None:
        self._func = func

    async def reconcile(self, subject: object, /) -> Result | None:
        """Raise what the function raises; the cancellation, whatever it returns, if there was one."""

        def warn() -> None:
            logger_from_context().warning(WORKS_ON)

        answer = await in_thread(lambda: self._checked(self._func(subject)), waits=warn)
        return cast("Result | None", answer)

    def _checked(self, answer: object) -> object:
        if not inspect.isawaitable(answer):
            return answer
        if isinstance(answer, Coroutine):
            answer.close()
        name = getattr(self._func, "__qualname__", repr(self._func))
        raise TypeError(
            f"{name} is a plain function and returned an awaitable: write `async def`, or mark it by "
            "inspect.markcoroutinefunction"
        )


def as_asynchronous(reconciler: object) -> Reconciler[Any]:
    """Return the reconciler of what `check_reconciler` accepts: a plain function or method runs in a thread."""
    if isinstance(reconciler, Reconciler):
        is_plain = not is_asynchronous(reconciler.reconcile)
        return ThreadReconciler(reconciler.reconcile) if is_plain else reconciler
    func = cast("AsyncReconcileFunc[Any]", reconciler)
    return FuncReconciler(func) if is_asynchronous(func) else ThreadReconciler(func)

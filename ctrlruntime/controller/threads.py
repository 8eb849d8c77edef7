"""Reconcilers that block: a plain function runs in a thread, and its pass ends when the thread's work does."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable, Coroutine
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
        begun = (
            threading.Lock()
        )  # whoever takes it decides: the thread, or a cancellation before it
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(None, context.run, self._call, subject, begun)
        cancelled: asyncio.CancelledError | None = None
        while not work.done():
            try:
                await asyncio.wait((work,))
            except asyncio.CancelledError as error:
                if cancelled is None and begun.acquire(blocking=False):
                    raise
                if cancelled is None and not work.done():
                    logger_from_context().warning(WORKS_ON)
                cancelled = cancelled or error
        if cancelled is not None:
            raise cancelled
        ended = work.result()
        if ended.error is not None:
            raise ended.error
        return cast("Result | None", ended.answer)

    def _call(self, subject: object, begun: threading.Lock) -> _Ended:
        """Return what the function raises as well: a future refuses some exceptions, as StopIteration."""
        if not begun.acquire(blocking=False):
            return _Ended()
        try:
            return _Ended(self._checked(self._func(subject)))
        except BaseException as error:  # noqa: BLE001 - raised again in the pass
            return _Ended(error=error)

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

"""Calls handlers: one after the other, again after errors, with what they return and what they cost recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Executor
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from ctrlruntime.clock import wall
from ctrlruntime.controller.reconcile import is_asynchronous
from ctrlruntime.controller.threads import in_thread
from ctrlruntime.kopf.bodies import Body, Logger, Patch, put_result
from ctrlruntime.kopf.errors import (
    ErrorsMode,
    HandlerRetriesError,
    HandlerTimeoutError,
    NotOffered,
    PermanentError,
    TemporaryError,
)
from ctrlruntime.kopf.on import make_handler
from ctrlruntime.kopf.registry import Handler

if TYPE_CHECKING:
    from ctrlruntime.events.recorder import EventRecorder

__all__ = ["Attempts", "Invocation", "Runner", "call", "current_invocation", "execute", "register"]

T = TypeVar("T")


@dataclass(slots=True)
class Attempts:
    """What became of one handler so far. Times are seconds of the epoch."""

    started: float = 0.0
    retries: int = 0
    delayed: float = 0.0
    done: bool = False
    failed: bool = False
    """It is done because it failed for good; not recorded."""

    def as_json(self) -> list[Any]:
        return [round(self.started, 3), self.retries, round(self.delayed, 3), self.done]


Progress = dict[str, Attempts]


@dataclass(slots=True)
class Invocation:
    """The call of a handler in progress: what `kopf.adopt`, `kopf.event` and `kopf.subhandler` refer to."""

    body: Body | None
    loop: asyncio.AbstractEventLoop
    recorder: EventRecorder | None = None
    handler: Handler | None = None
    subhandlers: list[Handler] = field(default_factory=list)
    run: Callable[[list[Handler]], Awaitable[None]] | None = None

    async def call(self, work: Awaitable[T]) -> T:
        """Await a handler's work as this invocation."""
        token = _current.set(self)
        try:
            return await work
        finally:
            _current.reset(token)


_current: ContextVar[Invocation] = ContextVar("ctrlruntime_kopf_invocation")


def current_invocation() -> Invocation:
    """Return the call in progress. Raises LookupError outside of a handler."""
    try:
        return _current.get()
    except LookupError:
        raise LookupError("this works in a handler of kopf alone: none is running") from None


async def call(fn: Callable[..., Any], kwargs: dict[str, Any], threads: Executor | None) -> Any:  # noqa: ANN401 - the user's own
    """Call a function and return what it returns; a plain one in a thread, see `in_thread`."""
    if is_asynchronous(fn):
        return await fn(**kwargs)
    return await in_thread(lambda: fn(**kwargs), threads)


async def attempt(
    handler: Handler,
    state: Attempts,
    kwargs: dict[str, Any],
    threads: Executor | None,
    logger: Logger,
) -> Any:  # noqa: ANN401 - the user's own
    """Call a handler once and note in `state` whether it is done, or when it is to be called again.

    Returns what it returned; None if it failed. Raises no error of the handler.
    """
    now = wall()
    state.started = state.started or now
    runtime, delay = now - state.started, handler.backoff
    given = {
        "retry": state.retries,
        "started": datetime.fromtimestamp(state.started, UTC),
        "runtime": timedelta(seconds=runtime),
        "param": handler.param,
    }
    try:
        if handler.timeout is not None and runtime >= handler.timeout:
            raise HandlerTimeoutError(f"it has taken {runtime:.1f} s")
        result = await call(handler.fn, kwargs | given, threads)
    except (PermanentError, NotOffered) as error:
        logger.error("Handler %r failed permanently: %s", handler.id, error)
        state.done = state.failed = True
        return None
    except TemporaryError as error:
        logger.error("Handler %r failed temporarily: %s", handler.id, error)
        delay = error.delay or 0.0
    except Exception as error:
        ignored = handler.errors is ErrorsMode.IGNORED
        state.done = handler.errors is not ErrorsMode.TEMPORARY
        text = "Handler %r failed with an exception%s: %s"
        detail = " and is ignored" if ignored else ""
        logger.error(text, handler.id, detail, error, exc_info=error)
        if state.done:
            state.failed = not ignored
            return None
    else:
        state.done = True
        return result
    state.retries += 1
    state.delayed = wall() + delay
    if handler.retries is not None and state.retries >= handler.retries:
        state.done = state.failed = True
        reason = HandlerRetriesError(f"{state.retries} attempts were made")
        logger.error("Handler %r failed permanently: %s", handler.id, reason)
    return None


@dataclass(slots=True)
class Runner:
    """Runs the handlers of one cause of one object. `save` records `progress` and writes `patch`."""

    invocation: Invocation
    progress: Progress
    patch: Patch
    save: Callable[[], Awaitable[None]]
    kwargs_of: Callable[[Handler], dict[str, Any]]
    threads: Executor | None
    logger: Logger
    _unsaved: bool = False

    async def run(self, handlers: Iterable[Handler]) -> float | None:
        """Call what is not done yet. Returns the seconds until one has to be called again; None if all are done.

        What was done is saved before the next handler begins; what the last one did is left to the caller,
        as it may be written together with the end.
        """
        waits: list[float] = []
        for handler in handlers:
            state = self.progress.setdefault(handler.id, Attempts())
            if not state.done and state.delayed <= wall():
                if self._unsaved:
                    await self.save()
                    self._unsaved = False
                put_result(self.patch, handler.id, await self._call(handler, state))
                self._unsaved = True
            if not state.done:
                waits.append(max(0.0, state.delayed - wall()))
        return min(waits) if waits else None

    async def _call(self, handler: Handler, state: Attempts) -> object:
        parent = self.invocation

        async def run_subhandlers(subhandlers: list[Handler]) -> None:
            pending = list(subhandlers)
            subhandlers.clear()
            wait = await self.run(pending)
            if wait is not None:
                raise TemporaryError("sub-handlers are not done yet", delay=wait)

        current = Invocation(
            parent.body, parent.loop, parent.recorder, handler, run=run_subhandlers
        )

        async def with_subhandlers(**kwargs: object) -> object:
            result: object = await call(handler.fn, kwargs, self.threads)
            if current.subhandlers:
                await run_subhandlers(current.subhandlers)
            return result

        wrapped = replace(handler, fn=with_subhandlers)
        kwargs = self.kwargs_of(handler)
        return await current.call(attempt(wrapped, state, kwargs, self.threads, self.logger))


def register(fn: Callable[..., Any], **options: object) -> Callable[..., Any]:
    """Have a function run as a sub-handler once the present handler returns, or calls `execute`.

    Options are those of a decorator. Sub-handlers are called again alone; what they return is stored too.
    """
    current = current_invocation()
    if current.handler is None:
        raise LookupError(
            "sub-handlers belong to create, update, delete, resume and field handlers"
        )
    prefix = current.handler.id
    current.subhandlers.append(
        make_handler(fn, current.handler.reason, None, dict(options), prefix)
    )
    return fn


def subhandler(**options: object) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that calls `register`."""
    return lambda fn: register(fn, **options)


async def execute(*, fns: Iterable[Callable[..., Any]] = ()) -> None:
    """Run the sub-handlers that were registered, and these functions, now.

    Raises TemporaryError while one of them has to be called again.
    """
    current = current_invocation()
    for fn in fns:
        register(fn)
    if current.run is not None:
        await current.run(current.subhandlers)

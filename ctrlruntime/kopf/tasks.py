"""Daemons and timers: for each object a task that runs those whose filters it passes."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, Final

from ctrlruntime.clock import monotonic, wall
from ctrlruntime.kopf.bodies import Body, essence_of, put_result
from ctrlruntime.kopf.filters import matches
from ctrlruntime.kopf.handling import Attempts, attempt
from ctrlruntime.kopf.objects import ObjectHandling, Seen
from ctrlruntime.kopf.registry import SPAWNING, Handler
from ctrlruntime.manager.running import outlast
from ctrlruntime.queue import Request

__all__ = ["DaemonStopped", "ObjectTasks"]

GRACE: Final = 5.0
"""Seconds from the flag to the cancellation of a daemon that names neither. kopf waits without a limit."""


class _Wait:
    """Waits when it is awaited; otherwise `wait` has waited already, in its thread."""

    def __init__(self, stopped: DaemonStopped, timeout: float | None) -> None:
        self._stopped, self._timeout = stopped, timeout

    def __bool__(self) -> bool:
        return bool(self._stopped)

    def __await__(self) -> Generator[Any, None, bool]:
        return self._stopped.wait_async(self._timeout).__await__()


class DaemonStopped:
    """The flag of a daemon that is to end: true or false, and to be waited for in threads and coroutines."""

    def __init__(self) -> None:
        self._flag = threading.Event()
        self._event = asyncio.Event()

    def __bool__(self) -> bool:
        return self._flag.is_set()

    is_set = __bool__

    def set(self) -> None:
        """Set the flag; on the loop alone."""
        self._flag.set()
        self._event.set()

    def wait(self, timeout: float | None = None) -> _Wait:
        """Return once the flag is set, or after seconds. A coroutine awaits what this returns."""
        if not _on_a_loop():
            self._flag.wait(timeout)
        return _Wait(self, timeout)

    async def wait_async(self, timeout: float | None) -> bool:
        """Wait on the loop; true if the flag is set."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._event.wait()
        return bool(self)


def _on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@dataclass(slots=True)
class _Task:
    stopped: DaemonStopped
    task: asyncio.Task[None]


@dataclass(slots=True)
class ObjectTasks:
    """The daemons and timers of the objects of a kind: what `daemon` of a builder's `for_` is given."""

    handling: ObjectHandling
    _changes: dict[Request, asyncio.Event] = field(default_factory=dict)
    _idle_since: dict[Request, tuple[object, float]] = field(default_factory=dict)

    def notify(self, request: Request) -> None:
        """Have the filters of an object looked at again."""
        if (event := self._changes.get(request)) is not None:
            event.set()

    async def follow(self, request: Request) -> None:
        """Run what is for an object until cancelled; all of it has ended when this returns."""
        handlers = self.handling.kind.of(*SPAWNING)
        changed = self._changes[request] = asyncio.Event()
        running: dict[str, _Task] = {}
        try:
            while True:
                changed.clear()
                self._start_and_stop(request, handlers, running)
                await changed.wait()
        finally:
            self._changes.pop(request, None)
            ends = [self._end(each, running[each.id]) for each in handlers if each.id in running]
            await outlast(asyncio.gather(*ends))
            self._idle_since.pop(request, None)

    def _start_and_stop(
        self, request: Request, handlers: list[Handler], running: dict[str, _Task]
    ) -> None:
        seen = self.handling.seen.get(request)
        if seen is None:
            return  # its first pass begins in a moment, and notifies
        body = Body(seen.entry.decode())
        essence = essence_of(body)
        if self._idle_since.get(request, (None, 0.0))[0] != essence:
            self._idle_since[request] = (essence, monotonic())
        for handler in handlers:
            cause = self.handling.cause(handler.reason, body, seen.memo)
            task = running.get(handler.id)
            if matches(handler, cause):
                if task is None:
                    stopped = DaemonStopped()
                    work = self._run(request, handler, seen, stopped)
                    name = f"{handler.id} of {request}"
                    running[handler.id] = _Task(stopped, asyncio.create_task(work, name=name))
            elif task is not None:
                if not task.stopped:
                    ending = asyncio.create_task(self._end(handler, task))
                    ending.add_done_callback(lambda _: self.notify(request))
                elif task.task.done():
                    del running[handler.id]

    async def _run(
        self, request: Request, handler: Handler, seen: Seen, stopped: DaemonStopped
    ) -> None:
        options = handler.options
        if await stopped.wait(options.get("initial_delay") or 0.0):
            return
        work = self._daemon if handler.reason == "daemon" else self._timer
        await work(request, handler, seen, stopped)

    async def _daemon(
        self, request: Request, handler: Handler, seen: Seen, stopped: DaemonStopped
    ) -> None:
        state = Attempts()
        while not stopped and not state.done:
            await self._once(handler, state, seen, stopped)
            await stopped.wait(max(0.0, state.delayed - wall()))

    async def _timer(
        self, request: Request, handler: Handler, seen: Seen, stopped: DaemonStopped
    ) -> None:
        options = handler.options
        interval, idle, sharp = (options.get(name) for name in ("interval", "idle", "sharp"))
        state = Attempts()
        while not stopped:
            while idle and (left := self._idle_since[request][1] + idle - monotonic()) > 0:
                if await stopped.wait(left):
                    return
            begun = monotonic()
            await self._once(handler, state, seen, stopped)
            if not state.done:
                delay = max(0.0, state.delayed - wall())
            elif interval is None or state.failed:
                return
            else:
                spent = monotonic() - begun
                delay = interval - (spent % interval if sharp else 0.0)
                state = Attempts()
            await stopped.wait(delay)

    async def _once(
        self, handler: Handler, state: Attempts, seen: Seen, stopped: DaemonStopped
    ) -> None:
        """Call a handler with the object as it is, and write what it left in the patch."""
        handling = self.handling
        body = Body(seen.entry.decode())
        cause = handling.cause(handler.reason, body, seen.memo)
        kwargs = cause.kwargs | {"stopped": stopped}
        logger, patch = kwargs["logger"], kwargs["patch"]
        try:
            work = attempt(handler, state, kwargs, handling.threads, logger)
            put_result(patch, handler.id, await handling.invocation(body).call(work))
        finally:
            if patch:
                await handling.write(body, patch)

    async def _end(self, handler: Handler, task: _Task) -> None:
        """Set the flag; then, as the options say, cancel, and give up."""
        task.stopped.set()
        options, logger = handler.options, self.handling.manager.logger
        patience = options.get("cancellation_timeout")
        grace = options.get("cancellation_backoff", GRACE if patience is None else 0.0)
        await asyncio.wait({task.task}, timeout=grace)
        if not task.task.done():
            task.task.cancel()
            await asyncio.wait({task.task}, timeout=patience)
        if not task.task.done():
            logger.warning("Daemon did not end and is left alone", handler=handler.id)
        elif not task.task.cancelled() and (error := task.task.exception()):
            logger.error("Daemon failed", handler=handler.id, exc_info=error)

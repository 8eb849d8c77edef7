"""One watch stream on its way to the client."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from ctrlruntime.envtest.proxy.framing import LAST_CHUNK, chunk
from ctrlruntime.envtest.proxy.requests import RequestInfo
from ctrlruntime.envtest.proxy.rules import ActiveRule, RuleSet
from ctrlruntime.envtest.proxy.watchfilter import End, Pass, Step, Wait, WatchFilter


class WatchStream:
    """Passes payload on under the watch faults; delayed steps keep their order."""

    def __init__(
        self,
        info: RequestInfo,
        rules: RuleSet,
        *,
        write: Callable[[bytes], None],
        cut: Callable[[], None],
        shut: Callable[[], None],
        fired: Callable[[ActiveRule, RequestInfo], None],
        chunked: bool,
    ) -> None:
        self.info = info
        self._filter = WatchFilter(info, rules)
        self._write, self._cut, self._shut, self._fired = write, cut, shut, fired
        self._chunked = chunked
        self._waiting: deque[Step] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._silent = False
        self._over = False
        silencer = rules.silences(info)
        if silencer is not None:
            self._silent = True
            fired(silencer, info)

    def feed(self, payload: bytes) -> None:
        """Take payload from the server."""
        if self._silent or self._over or not payload:
            return
        steps = self._filter.feed(payload)
        for rule in self._filter.fired:
            self._fired(rule, self.info)
        self._filter.fired.clear()
        if self._timer is not None:
            self._waiting.extend(steps)
        else:
            self._run(deque(steps))

    def ended(self) -> None:
        """End: the server ended the stream."""
        if self._silent or self._over:
            return
        if self._timer is not None:
            self._waiting.append(End(clean=True))
        elif self._chunked:
            self._over = True
            self._write(LAST_CHUNK)

    def silence(self) -> None:
        self._silent = True

    def end(self, *, clean: bool) -> None:
        if not self._over:
            self._end(clean)

    def close(self) -> None:
        """End: the connection is gone."""
        self._over = True
        if self._timer is not None:
            self._timer.cancel()

    def _run(self, steps: deque[Step]) -> None:
        while steps and not self._over:
            match steps.popleft():
                case Pass(data=data):
                    if data:
                        self._write(chunk(data) if self._chunked else data)
                case End(clean=clean):
                    self._end(clean)
                case Wait(seconds=seconds):
                    self._waiting = steps
                    self._timer = asyncio.get_running_loop().call_later(seconds, self._go_on)
                    return

    def _go_on(self) -> None:
        self._timer = None
        if not self._silent:
            self._run(self._waiting)

    def _end(self, clean: bool) -> None:
        self._over = True
        if not clean:
            self._cut()
            return
        if self._chunked:
            self._write(LAST_CHUNK)
        self._shut()

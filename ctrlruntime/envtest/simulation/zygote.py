"""Forks of a process that has everything imported and warm: each run begins in the same state, in a millisecond.

What a run leaves behind goes with its process. Nothing is collected in one: a collection would run the
clean-up of tasks that were killed.
"""

from __future__ import annotations

import gc
import os
import pickle
import selectors
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

T = TypeVar("T")
_PIECE: Final = 2**16
_LOOK: Final = 1.0
"""Seconds between two looks at the clock."""


class ChildFailed(RuntimeError):
    """A child ended without a result, or raised."""


@dataclass(slots=True)
class _Child(Generic[T]):
    number: int
    pid: int
    pipe: int
    until: float
    data: bytearray = field(default_factory=bytearray)

    def result(self) -> T:
        """Wait for its end. Raises ChildFailed."""
        _, status = os.waitpid(self.pid, 0)
        os.close(self.pipe)
        if not self.data:
            raise ChildFailed(f"a run ended with status {status}, without a result")
        error, result = pickle.loads(self.data)  # noqa: S301 - of a child of this process
        if error:
            raise ChildFailed(error)
        found: T = result
        return found


def in_child(function: Callable[[], T], *, timeout: float = 3600.0) -> T:
    """Return what a function returns, called in a fork. Raises ChildFailed."""
    ((_, result),) = in_children(iter([function]), workers=1, timeout=timeout)
    return result


def in_children(
    functions: Iterator[Callable[[], T]], *, workers: int, timeout: float = 300.0
) -> Iterator[tuple[int, T]]:
    """Call each function in a fork of its own, some at a time; yield number and result as they end.

    Raises ChildFailed for one that raises, or that has no result after `timeout` seconds.
    """
    with selectors.DefaultSelector() as selector:
        children: dict[int, _Child[T]] = {}
        numbered = enumerate(functions)
        try:
            while True:
                while len(children) < workers and (found := next(numbered, None)) is not None:
                    child: _Child[T] = _start(*found, timeout)
                    children[child.pipe] = child
                    selector.register(child.pipe, selectors.EVENT_READ)
                if not children:
                    return
                for child in _ended(selector, children):
                    yield child.number, child.result()
        finally:
            for child in children.values():
                os.kill(child.pid, signal.SIGKILL)
                os.waitpid(child.pid, 0)
                os.close(child.pipe)


def _ended(selector: selectors.BaseSelector, children: dict[int, _Child[T]]) -> Iterator[_Child[T]]:
    for key, _ in selector.select(_LOOK):
        child = children[key.fd]
        if data := os.read(child.pipe, _PIECE):
            child.data += data
            continue
        selector.unregister(child.pipe)
        del children[child.pipe]
        yield child
    now = time.monotonic()
    for child in children.values():
        if now > child.until:
            raise ChildFailed("a run takes too long")


def _start(number: int, function: Callable[[], T], timeout: float) -> _Child[T]:
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads: only this one goes on
        pid = os.fork()
    if pid:
        os.close(writing)
        return _Child(number, pid, reading, time.monotonic() + timeout)
    try:
        os.close(reading)
        gc.disable()
        try:
            data = pickle.dumps(("", function()))
        except BaseException:  # noqa: BLE001 - the parent raises it
            data = pickle.dumps((traceback.format_exc(), None))
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(data)
    finally:
        os._exit(0)

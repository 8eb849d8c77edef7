"""The border to user code: a function of the user that raises costs one object, never an informer."""

import inspect
from collections.abc import Callable
from typing import Final

EXITS: Final = (KeyboardInterrupt, SystemExit)
"""What ends the process. Everything else that a synchronous user function raises is its failure, a
``CancelledError`` included: such a function cannot be cancelled."""


def is_coroutine_function(fn: object) -> bool:
    """Whether calling ``fn``, a function or an object, makes a coroutine."""
    called = fn if inspect.isroutine(fn) else getattr(fn, "__call__", fn)  # noqa: B004 - the method itself
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(called)


def check_synchronous(fn: Callable[..., object], role: str) -> None:
    """Raise TypeError if ``fn`` is a coroutine function: its result would never be awaited."""
    if is_coroutine_function(fn):
        name = getattr(fn, "__qualname__", repr(fn))
        raise TypeError(
            f"{role} ({name}) is a coroutine function, but is called without await: make it a "
            "plain `def`, and do asynchronous work in the reconciler"
        )

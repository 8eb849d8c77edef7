"""Wait in a test for what nothing signals. What an API server holds is better awaited by `ctrlruntime.envtest.eventually`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias, TypeVar, overload

from ctrlruntime.api import Resource

TIMEOUT = 120.0
"""Seconds. Only a test that fails waits so long; a busy machine takes a while for what is well."""
INTERVAL = 0.02
T = TypeVar("T")
Errors: TypeAlias = type[Exception] | tuple[type[Exception], ...]
"""What an `except` takes."""


@overload
async def eventually(
    look: Callable[[], Coroutine[Any, Any, T]],
    holds: Callable[[T], object] = ...,
    *,
    despite: Errors = ...,
    timeout: float = ...,
) -> T: ...
@overload
async def eventually(
    look: Callable[[], T],
    holds: Callable[[T], object] = ...,
    *,
    despite: Errors = ...,
    timeout: float = ...,
) -> T: ...
async def eventually(
    look: Callable[[], Any],
    holds: Callable[[Any], object] = bool,
    *,
    despite: Errors = (),
    timeout: float = TIMEOUT,
) -> Any:
    """Call `look` until what it returns `holds`, and return that. Errors of `despite` mean: not yet.

    AssertionError shows what was seen last.
    """
    seen: Any = "nothing yet"
    try:
        async with asyncio.timeout(timeout):
            while True:
                try:
                    answer = look()
                    seen = await answer if inspect.isawaitable(answer) else answer
                    if holds(seen):
                        return seen
                except despite as error:
                    seen = error
                await asyncio.sleep(INTERVAL)
    except TimeoutError:
        raise AssertionError(f"not within {timeout:g} s; last seen: {_shown(seen)}") from None


def _shown(seen: object) -> str:
    """Return what an error shows: of an object of a typed kind the status, which says what is missing."""
    return repr(seen.status.to_wire() if isinstance(seen, Resource) else seen)


async def eventually_succeeds(
    call: Callable[[], Coroutine[Any, Any, T]], *, despite: Errors, timeout: float = TIMEOUT
) -> T:
    """Call until it raises no error of `despite`, and return the answer, whatever it is."""
    return await eventually(call, lambda _answer: True, despite=despite, timeout=timeout)


async def eventually_raises(
    error: type[Exception],
    call: Callable[[], Coroutine[Any, Any, object]],
    *,
    despite: Errors = (),
    timeout: float = TIMEOUT,
) -> None:
    """Call until it raises `error`. Answers, and errors of `despite`, mean: not yet."""

    async def raises() -> bool:
        try:
            await call()
        except error:
            return True
        return False

    await eventually(raises, despite=despite, timeout=timeout)


def let_pass(seconds: float) -> None:
    """Let the running loop's clock be so much later at once: what it waits for until then is due in its next turn."""
    loop = asyncio.get_running_loop()
    earlier = loop.time
    loop.time = lambda: earlier() + seconds  # type: ignore[method-assign]

"""Wait in a test for what nothing signals. What an API server holds is better awaited by `ctrlruntime.envtest.eventually`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, overload

TIMEOUT = 120.0
"""Seconds. Only a test that fails waits so long; a busy machine takes a while for what is well."""
INTERVAL = 0.02
T = TypeVar("T")


@overload
async def eventually(
    look: Callable[[], Coroutine[Any, Any, T]],
    holds: Callable[[T], object] = ...,
    *,
    timeout: float = ...,
) -> T: ...
@overload
async def eventually(
    look: Callable[[], T], holds: Callable[[T], object] = ..., *, timeout: float = ...
) -> T: ...
async def eventually(
    look: Callable[[], Any], holds: Callable[[Any], object] = bool, *, timeout: float = TIMEOUT
) -> Any:
    """Call `look` until what it returns `holds`, and return that. AssertionError shows what was seen last."""
    seen: Any = "nothing yet"
    try:
        async with asyncio.timeout(timeout):
            while True:
                answer = look()
                seen = await answer if inspect.isawaitable(answer) else answer
                if holds(seen):
                    return seen
                await asyncio.sleep(INTERVAL)
    except TimeoutError:
        raise AssertionError(f"not within {timeout:g} s; last seen: {seen!r}") from None

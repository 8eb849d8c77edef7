"""Waits until applied objects are ready, by the rules of their kinds."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from ctrlruntime.client import Client
from ctrlruntime.client.errors import NotFound
from ctrlruntime.resources.readiness import Phase, assess
from internal.cloud.tasks.kubernetes.applying import Located
from internal.cloud.tasks.task import TaskError

_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait, and how often to look. Seconds."""

    within: float
    every: float = 2.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic


async def until_ready(
    client: Client,
    located: Iterable[Located],
    patience: Patience,
    progress: Callable[[str], None] = lambda _text: None,
) -> None:
    """Raises TaskError for an object that failed, and for those that are not ready in time."""
    end = patience.clock() + patience.within
    left = list(located)
    while True:
        waiting = []
        for each in left:
            phase, reason = await _look(client, each)
            if phase is Phase.FAILED:
                raise TaskError(f"{each.ref}: {reason}")
            if phase is Phase.NOT_READY:
                waiting.append((each, reason))
        if not waiting:
            return
        left = [each for each, _ in waiting]
        said = [f"{each.ref}: {reason}" for each, reason in waiting]
        more = f" (and {len(said) - _SHOWN} more)" if len(said) > _SHOWN else ""
        text = "; ".join(said[:_SHOWN]) + more
        if patience.clock() + patience.every > end:
            raise TaskError(f"not ready within {patience.within:g} s: {text}")
        progress(f"waits for {text}")
        await patience.sleep(patience.every)


async def until_gone(client: Client, located: Iterable[Located], patience: Patience) -> list[str]:
    """What is still there after that time, in words; empty if all is gone."""
    end = patience.clock() + patience.within
    left = list(located)
    while True:
        left = [each for each in left if await _exists(client, each)]
        if not left or patience.clock() + patience.every > end:
            return [str(each.ref) for each in left]
        await patience.sleep(patience.every)


async def _look(client: Client, each: Located) -> tuple[Phase, str]:
    try:
        live = await client.get(each.mapping, each.ref.name, namespace=each.ref.namespace or None)
    except NotFound:
        return Phase.FAILED, "it was deleted while it was waited for"
    readiness = assess(live, binds_on_first_use=True)
    return readiness.phase, readiness.reason


async def _exists(client: Client, each: Located) -> bool:
    try:
        await client.get(
            each.mapping, each.ref.name, namespace=each.ref.namespace or None, metadata_only=True
        )
    except NotFound:
        return False
    return True

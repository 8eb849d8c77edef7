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
class PollOptions:
    """How long to wait and how often to read, in seconds."""

    timeout: float
    interval: float = 2.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic


async def until_ready(
    client: Client,
    located: Iterable[Located],
    poll: PollOptions,
    progress: Callable[[str], None] = lambda _text: None,
) -> None:
    """Raise TaskError for an object that failed, and for those that are not ready in time."""
    end = poll.clock() + poll.timeout
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
        reasons = [f"{each.ref}: {reason}" for each, reason in waiting]
        more = f" (and {len(reasons) - _SHOWN} more)" if len(reasons) > _SHOWN else ""
        text = "; ".join(reasons[:_SHOWN]) + more
        if poll.clock() + poll.interval > end:
            raise TaskError(f"not ready within {poll.timeout:g} s: {text}")
        progress(f"waits for {text}")
        await poll.sleep(poll.interval)


async def until_gone(client: Client, located: Iterable[Located], poll: PollOptions) -> list[str]:
    """Return what still exists after that time; empty if all is gone."""
    end = poll.clock() + poll.timeout
    left = list(located)
    while True:
        left = [each for each in left if await _exists(client, each)]
        if not left or poll.clock() + poll.interval > end:
            return [str(each.ref) for each in left]
        await poll.sleep(poll.interval)


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

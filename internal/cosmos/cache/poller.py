"""The background task of one set of nodes."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from internal.cosmos.cache.pods import Target

Repeat = Callable[[Target], Coroutine[Any, Any, None]]
"""Polls one node until cancelled."""


class Poller:
    """Polls the nodes of one set, each at its own pace. Make it on the loop; it runs until it is stopped."""

    def __init__(self, name: str, repeats: Callable[[Target], Iterable[Repeat]]) -> None:
        """`repeats`: what a node is asked, all of it at the same time."""
        self._repeats = repeats
        self._targets: frozenset[Target] = frozenset()
        self._changed = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=name)

    def follow(self, targets: Iterable[Target]) -> None:
        """From now on these are asked and no others. Those that are asked already are not asked anew."""
        wanted = frozenset(targets)
        if wanted != self._targets:
            self._targets = wanted
            self._changed.set()

    async def stop(self) -> None:
        """Ask no more; return when nothing is under way."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        asked: dict[Target, list[asyncio.Task[None]]] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                for target in asked.keys() - self._targets:
                    for task in asked.pop(target):
                        task.cancel()
                for target in sorted(self._targets - asked.keys(), key=_by_pod):
                    asked[target] = [
                        group.create_task(repeat(target)) for repeat in self._repeats(target)
                    ]
                self._changed.clear()
                await self._changed.wait()


def _by_pod(target: Target) -> tuple[str, str]:
    return target.pod, target.uid

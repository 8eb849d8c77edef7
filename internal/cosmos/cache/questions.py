"""One kind of question, put to node after node, again and again."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

import structlog

from internal.cosmos.cache.memory import Memory, Record
from internal.cosmos.cache.metrics import CacheMetrics
from internal.cosmos.cache.pace import Pace
from internal.cosmos.cache.pods import Target
from internal.cosmos.cache.pool import Pool
from internal.cosmos.comet.failures import Failure, NodeError

T = TypeVar("T")

_log = structlog.get_logger("cosmos.cache")


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions(Generic[T]):
    """How to ask, how often, and what was answered."""

    name: str
    """Label of the metrics."""
    ask: Callable[[Target], Awaitable[T]]
    """Raises NodeError."""
    pace: Pace
    pool: Pool
    metrics: CacheMetrics
    now: Callable[[], datetime]
    """The time that answers are stamped with, in UTC."""
    memory: Memory[T] = field(default_factory=Memory)

    async def repeat(self, target: Target, answered: Callable[[], None]) -> None:
        """Ask a node for as long as it is there; `answered` is called after each answer that counts."""
        overdue = 0
        while True:
            failure, counts = await self._once(target, suspect=overdue > 0)
            overdue = overdue + 1 if failure is Failure.DEADLINE else 0
            if counts:
                answered()
                await asyncio.sleep(self.pace.pause(len(self.memory), overdue))

    async def _once(self, target: Target, *, suspect: bool) -> tuple[Failure | None, bool]:
        """What went wrong, and whether the answer counts."""
        async with self.pool.turn(suspect=suspect):
            ticket, at, began = self.memory.begin(), self.now(), time.monotonic()
            record, failure = await self._record(target, at)
        self.metrics.asked(self.name, time.monotonic() - began, failure)
        counts = self.memory.settle(target.uid, ticket, record)
        if not counts:
            self.metrics.discarded.labels(self.name).inc()
        return failure, counts

    async def _record(self, target: Target, at: datetime) -> tuple[Record[T], Failure | None]:
        try:
            return Record(at, await self.ask(target), ""), None
        except NodeError as error:
            return Record(at, None, str(error)), error.failure
        except Exception:  # noqa: BLE001 - one node must not end the questions to all others
            _log.exception("a node could not be asked", pod=target.pod, question=self.name)
            return Record(
                at, None, "The question failed; the manager's log has more."
            ), Failure.INVALID

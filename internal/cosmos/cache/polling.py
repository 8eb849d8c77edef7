"""One kind of question, put to node after node, again and again."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

import structlog

from ctrlruntime.clock import monotonic
from internal.cosmos.cache.memory import Memory, Record
from internal.cosmos.cache.metrics import QuestionMetrics
from internal.cosmos.cache.pace import Pace
from internal.cosmos.cache.pods import Target
from internal.cosmos.cache.pool import Pool
from internal.cosmos.comet.failures import Failure, NodeError

T = TypeVar("T")

_log = structlog.get_logger("cosmos.cache")


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions(Generic[T]):
    """How to ask, how often, and what was answered."""

    ask: Callable[[Target], Awaitable[T]]
    """Raises NodeError."""
    pace: Pace
    pool: Pool
    metrics: QuestionMetrics
    now: Callable[[], datetime]
    """The time that answers are stamped with, in UTC."""
    memory: Memory[T] = field(default_factory=Memory)

    async def repeat(
        self, target: Target, answered: Callable[[Record[T], Record[T]], None]
    ) -> None:
        """Poll a node for as long as it exists; `answered` receives each answer that counts, and the one before."""
        overdue = 0
        while True:
            before = self.memory.get(target.uid)
            failure, record = await self._once(target, suspect=overdue > 0)
            overdue = overdue + 1 if failure is Failure.DEADLINE else 0
            if record is not None:
                answered(before, record)
                await asyncio.sleep(self.pace.pause(len(self.memory), overdue))

    async def _once(
        self, target: Target, *, suspect: bool
    ) -> tuple[Failure | None, Record[T] | None]:
        """Return what went wrong, and the answer if it counts."""
        async with self.pool.turn(suspect=suspect):
            ticket, at, began = self.memory.begin(), self.now(), monotonic()
            record, failure = await self._record(target, at, began)
        self.metrics.asked(monotonic() - began, failure)
        if self.memory.settle(target.uid, ticket, record):
            return failure, record
        self.metrics.discarded.inc()
        return failure, None

    async def _record(
        self, target: Target, at: datetime, began: float
    ) -> tuple[Record[T], Failure | None]:
        try:
            return Record(at, await self.ask(target), "", began=began), None
        except NodeError as error:
            return Record(at, None, str(error), error.failure, began), error.failure
        except Exception:  # noqa: BLE001 - one node must not end the questions to all others
            _log.exception("a node could not be asked", pod=target.pod)
            words = "The question failed; the manager's log has more."
            return Record(at, None, words, began=began), Failure.INVALID

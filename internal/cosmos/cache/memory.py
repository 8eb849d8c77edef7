"""What was last answered, by UID of the Pod. Pure: a poll takes a ticket before, and settles it after."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from internal.cosmos.comet.failures import Failure

T = TypeVar("T")

NOT_ASKED = "It has not been asked yet."
"""What is said of a Pod before there is an answer."""


@dataclass(frozen=True, slots=True)
class Record(Generic[T]):
    """One answer. It is never changed, only replaced."""

    at: datetime | None = None
    """When it was asked for; None: not polled yet, or the answer is no longer valid."""
    answer: T | None = None
    error: str = NOT_ASKED
    """Why there is no answer; empty if there is one."""
    failure: Failure | None = None
    """The kind of that; None: there is an answer, or it was not asked."""
    began: float = 0.0
    """When it was asked for, in seconds of a clock that is never set."""


@dataclass(slots=True)
class _Slot(Generic[T]):
    record: Record[T]
    since: int
    """Answers to questions that began before do not count."""


class Memory(Generic[T]):
    """The last answers of those Pods that are kept in it."""

    def __init__(self) -> None:
        self._slots: dict[str, _Slot[T]] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._slots)

    def records(self) -> Iterable[Record[T]]:
        """All of them, in no order that means anything."""
        return [slot.record for slot in self._slots.values()]

    def get(self, uid: str) -> Record[T]:
        """Return the last answer of a Pod; that it was not asked, if there is none."""
        slot = self._slots.get(uid)
        return Record() if slot is None else slot.record

    def add(self, uid: str) -> None:
        """Keep the answers of this Pod from now on."""
        if uid not in self._slots:
            self._slots[uid] = _Slot(Record(), self._next())

    def drop(self, uid: str) -> None:
        """Forget a Pod that is gone, and its answers, those under way too."""
        self._slots.pop(uid, None)

    def invalidate(self, uid: str) -> None:
        """Forget what the Pod said, and what it may be saying to a question already under way."""
        if uid in self._slots:
            self._slots[uid] = _Slot(Record(), self._next())

    def begin(self) -> int:
        """Return a ticket for a question that begins now."""
        return self._next()

    def settle(self, uid: str, ticket: int, record: Record[T]) -> bool:
        """Keep an answer. False if it came too late: something that has happened since is not in it."""
        slot = self._slots.get(uid)
        if slot is None or ticket < slot.since:
            return False
        self._slots[uid] = _Slot(record, ticket)
        return True

    def _next(self) -> int:
        self._count += 1
        return self._count

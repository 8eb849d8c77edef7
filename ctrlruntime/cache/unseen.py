"""Deletes of objects that a selective informer did not have, in memory that does not grow."""

from array import array
from zlib import crc32

from ctrlruntime.cache.entry import Key

SLOTS = 1024
"""How many numbers are kept. Keys that share a slot share its number."""


class UnseenDeletes:
    """For each slot of keys, the number of its newest delete, or 0.

    A delete is *passed* once the watch has reached a version that a read begun after the delete returned: no
    event from before the delete can follow. Only one such read is awaited at a time; the next one covers what
    was deleted meanwhile.
    """

    def __init__(self) -> None:
        self._slots = array("Q")
        self._newest = 0
        self._read: tuple[int, int] | None = None

    def __len__(self) -> int:
        """Return how many slots have a number."""
        return sum(1 for number in self._slots if number)

    @property
    def awaiting(self) -> bool:
        """Whether a read is recorded whose version the watches have not reached."""
        return self._read is not None

    def add(self, key: Key, sequence: int) -> None:
        """Record a delete of ``key`` that was answered at ``sequence``."""
        if not self._slots:
            self._slots = array("Q", bytes(8 * SLOTS))
        self._slots[_slot(key)] = self._newest = sequence

    def newest(self, key: Key) -> int:
        """Return the number of the newest delete that may have been of ``key``, or 0."""
        return self._slots[_slot(key)] if self._newest else 0

    def read(self, sequence: int, version: int) -> None:
        """Record that a read begun at ``sequence`` returned the server's ``version``."""
        if version and self._read is None:
            self._read = (sequence, version)

    def reached(self, version: int) -> int:
        """Take in that every watch has reached ``version``.

        Return the number before which deletes are passed since the last call, or 0.
        """
        if self._read is None or version < self._read[1]:
            return 0
        sequence, self._read = self._read[0], None
        self.passed(sequence)
        return sequence

    def passed(self, sequence: int) -> None:
        """Drop the deletes from before ``sequence``."""
        if self._newest <= sequence:
            self._slots = array("Q")
            self._newest = 0
            return
        for slot, number in enumerate(self._slots):
            if number <= sequence:
                self._slots[slot] = 0

    def clear(self) -> None:
        """Drop everything."""
        self.passed(self._newest)
        self._read = None


def _slot(key: Key) -> int:
    return crc32("/".join(key).encode()) % SLOTS

"""Numbered instances: the third of five Pods is identified by its number, not by the order of creation."""

from typing import Final

from ctrlruntime.cache.entry import Entry

ORDINAL: Final = "ctrlruntime.dev/ordinal"
"""Annotation: the number of the instance that an object belongs to, in decimal."""


def ordinal_of(entry: Entry) -> int:
    """Return the number of the instance that `entry` belongs to; 0 if none, or no number, is recorded."""
    recorded = entry.annotations.get(ORDINAL, "")
    return int(recorded) if recorded.isascii() and recorded.isdigit() else 0


def ordinals(start: int, replicas: int) -> range:
    """Return the numbers of `replicas` instances, `start` the first. ValueError if either is below 0."""
    if start < 0 or replicas < 0:
        raise ValueError(f"there are no {replicas} instances from number {start} on")
    return range(start, start + replicas)

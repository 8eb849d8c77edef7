"""Slots: every root object is of one of 64, for ever, and its objects with it. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from typing import Final

SLOTS: Final = 64
"""How many there are. It never changes: every object carries the number of its slot."""
SLOT_LABEL: Final = "ctrlruntime.dev/slot"
"""The label of a root object, and of all that is made for it."""
ALL_SLOTS: Final = frozenset(range(SLOTS))
"""Their numbers."""
_VALUES: Final[Mapping[str, int]] = {str(slot): slot for slot in range(SLOTS)}
_RANGE: Final = re.compile(r"\s*([0-9]{1,4})\s*(?:-\s*([0-9]{1,4})\s*)?")


class BadSlots(ValueError):
    """A text that names no slots; the message has one to write instead."""


def slot_of(name: str, *, namespace: str) -> int:
    """Return the slot of a root object; the namespace is empty for one of the whole cluster."""
    return hashlib.blake2b(f"{namespace}/{name}".encode()).digest()[0] >> 2


def slot_of_labels(labels: Mapping[str, str] | None) -> int | None:
    """Return the slot that an object's labels name; None if none of them names one as ``str`` writes it."""
    return _VALUES.get((labels or {}).get(SLOT_LABEL, ""))


def slot_selector(slots: Collection[int]) -> str:
    """Return the label selector of objects of these slots. Raises BadSlots where there are none: it would mean all."""
    checked = _checked(slots)
    if not checked:
        raise BadSlots("a selector of no slots would select every object: watch nothing instead")
    return f"{SLOT_LABEL} in ({','.join(map(str, sorted(checked)))})"


def parse_slots(text: str) -> frozenset[int]:
    """Return the slots of a text such as ``0-31`` or ``0,5,9-12``. Raises BadSlots."""
    found: set[int] = set()
    for part in text.split(","):
        matched = _RANGE.fullmatch(part)
        if matched is None:
            raise BadSlots(f"slots {text!r}: {part.strip()!r} is neither a slot nor a range{_HINT}")
        first, last = int(matched[1]), int(matched[2] or matched[1])
        if first > last:
            raise BadSlots(f"slots {text!r}: write {last}-{first} for {part.strip()!r}{_HINT}")
        if last >= SLOTS:
            raise BadSlots(
                f"slots {text!r}: {part.strip()!r} goes past the last slot, {SLOTS - 1}{_HINT}"
            )
        twice = found & {*range(first, last + 1)}
        if twice:
            raise BadSlots(f"slots {text!r}: {min(twice)} is named twice{_HINT}")
        found |= {*range(first, last + 1)}
    return frozenset(found)


_HINT: Final = f"; slots are numbers from 0 to {SLOTS - 1}, such as 0-31 or 0,5,9-12"


def format_slots(slots: Collection[int]) -> str:
    """Return the shortest text that ``parse_slots`` reads as these slots; empty for none. Raises BadSlots."""
    return ",".join(
        str(first) if first == last else f"{first}-{last}"
        for first, last in _runs(sorted(_checked(slots)))
    )


def _runs(ordered: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last number of each run of numbers that follow one another."""
    if not ordered:
        return
    first = ordered[0]
    for one, next_one in pairwise(ordered):
        if next_one != one + 1:
            yield first, one
            first = next_one
    yield first, ordered[-1]


def _checked(slots: Collection[int]) -> frozenset[int]:
    outside = sorted({*slots} - ALL_SLOTS)
    if outside:
        raise BadSlots(f"{outside[0]} is no slot{_HINT}")
    return frozenset(slots)

"""Conditions in a status: what is so, since when, and why (metav1.Condition).

Pure: the clock is passed in. A condition is written only if something of it changed, and its
transition time only if its status did, so that a reconcile without news writes nothing.
Messages are cut between words, and never within what to do, which a message has after its last semicolon.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from .kinds import Manifest
from .markers import ListMap, RequiredOnWire
from .model import ApiModel
from .printable import printable
from .scalars import Time

__all__ = [
    "LONGEST_MESSAGE",
    "Condition",
    "ConditionStatus",
    "Conditions",
    "conditions_of",
    "conditions_to_wire",
    "find_condition",
    "is_condition_false",
    "is_condition_true",
    "list_sentences",
    "new_condition",
    "remove_condition",
    "set_condition",
    "shorten",
    "shorten_before_remedy",
]

ConditionStatus = Literal["True", "False", "Unknown"]
"""The three values of a condition's status."""

_TYPE_PATTERN = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
_MESSAGE_LIMIT = 32768
LONGEST_MESSAGE: Final = 1024
"""Characters of a message that `new_condition` writes."""

_ELLIPSIS = "…"
_BEFORE_REMEDY = "; "


class Condition(ApiModel):
    """One aspect of an object's current state."""

    type: Annotated[str, Field(max_length=316, pattern=_TYPE_PATTERN)]
    """The aspect, in CamelCase: Ready, Progressing, Degraded."""
    status: ConditionStatus
    """True, False, or Unknown."""
    reason: Annotated[
        str,
        Field(min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
    ]
    """Why the condition last changed, as one CamelCase word for programs."""
    message: Annotated[str, RequiredOnWire()] = ""
    """Why the condition last changed, for people. It may be empty."""
    last_transition_time: Annotated[Time | None, RequiredOnWire()] = None
    """When the status last changed."""
    observed_generation: Annotated[int | None, Field(ge=0)] = None
    """The metadata.generation that the condition was set for."""


Conditions = Annotated[list[Condition], ListMap("type")]
"""The type of a status field ``conditions: Conditions = []``."""


def new_condition(
    type: str,  # noqa: A002
    status: bool | ConditionStatus,
    reason: str,
    message: str,
    *,
    generation: int | None = None,
) -> Condition:
    """Return a condition whose message has at most LONGEST_MESSAGE characters, and no control characters.

    `generation` is that of the object the condition was computed for. Raises ValidationError for a type
    or reason that the API server would not accept.
    """
    condition = Condition(
        type=type,
        status=status if isinstance(status, str) else "True" if status else "False",
        reason=reason,
        message=shorten(printable(message)),
    )
    if generation is not None:
        condition.observed_generation = generation
    return condition


def conditions_of(status: Mapping[str, Any]) -> list[Condition]:
    """Return the conditions of a status as it is stored, such as that of an object that is not readable."""
    return [Condition.model_validate(item) for item in status.get("conditions") or ()]


def conditions_to_wire(conditions: list[Condition]) -> list[Manifest]:
    """Return conditions as they stand in a status, defaults included."""
    return [item.to_wire(exclude_unset=False) for item in conditions]


def find_condition(conditions: list[Condition], type: str) -> Condition | None:  # noqa: A002
    """Return the condition of that type, or None."""
    return next((item for item in conditions if item.type == type), None)


def is_condition_true(conditions: list[Condition], type: str) -> bool:  # noqa: A002
    """Whether the condition is there and True."""
    found = find_condition(conditions, type)
    return found is not None and found.status == "True"


def is_condition_false(conditions: list[Condition], type: str) -> bool:  # noqa: A002
    """Whether the condition is there and False."""
    found = find_condition(conditions, type)
    return found is not None and found.status == "False"


def set_condition(conditions: list[Condition], new: Condition, now: datetime) -> bool:
    """Put ``new`` into the list in place; True if that changed anything.

    As in apimachinery's meta.SetStatusCondition, ``last_transition_time`` is taken over while the
    status stays the same; otherwise it is the one given, or ``now``. A message beyond the
    32,768 characters that the server accepts is cut. A new type goes in so that the list stays in
    the order of types; an unchanged list is never reordered.
    """
    old = find_condition(conditions, new.type)
    same_status = old is not None and old.status == new.status
    since = old.last_transition_time if old is not None and same_status else None
    condition = new.model_copy(
        update={
            "message": _cut(new.message),
            "last_transition_time": since or new.last_transition_time or now.replace(microsecond=0),
        }
    )
    if old is None:
        conditions.append(condition)
        conditions.sort(key=lambda item: item.type)
        return True
    if old == condition:
        return False
    conditions[conditions.index(old)] = condition
    return True


def remove_condition(conditions: list[Condition], type: str) -> bool:  # noqa: A002
    """Take the condition of that type out of the list; True if it was there."""
    old = find_condition(conditions, type)
    if old is not None:
        conditions.remove(old)
    return old is not None


def _cut(message: str) -> str:
    return message if len(message) <= _MESSAGE_LIMIT else f"{message[: _MESSAGE_LIMIT - 1]}…"


def shorten(text: str, limit: int = LONGEST_MESSAGE) -> str:
    """Return the text with at most `limit` characters, cut between words and ended by an ellipsis."""
    if len(text) <= limit:
        return text
    cut = text[: max(0, limit - len(_ELLIPSIS))]
    if not text[len(cut)].isspace():
        head, _, tail = cut.rpartition(" ")
        cut = head if head.strip() and len(tail) < limit // 2 else cut
    return f"{cut.rstrip(' ,;:.')}{_ELLIPSIS}"


def shorten_before_remedy(text: str, limit: int = LONGEST_MESSAGE) -> str:
    """Return the text with at most `limit` characters, cut before its last semicolon if there is room."""
    if len(text) <= limit:
        return text
    head, separator, remedy = text.rpartition(_BEFORE_REMEDY)
    room = limit - len(separator) - len(remedy)
    if not separator or room < limit // 4:
        return shorten(text, limit)
    return f"{shorten(head, room)}{separator}{remedy}"


def list_sentences(head: str, sentences: Sequence[str], limit: int = LONGEST_MESSAGE) -> str:
    """Return `head: first; second; and 3 more.` with whole sentences, as many as fit; empty for none.

    A first sentence that does not fit is cut before its remedy.
    """
    if not sentences:
        return ""
    start = f"{head}: " if head else ""
    # As many as could fit are tried: to join all that there are, again and again, takes minutes for 100,000.
    most, room = 0, limit
    while most < len(sentences) and room >= 0:
        room -= len(sentences[most].rstrip(".")) + 2
        most += 1
    for shown in range(most, 0, -1):
        more = len(sentences) - shown
        end = f"; and {more} more." if more else "."
        text = "; ".join(sentences[place].rstrip(".") for place in range(shown))
        room = limit - len(start) - len(end)
        if shown == 1:
            text = shorten_before_remedy(text, room)
        if len(text) <= room:
            return f"{start}{text}{end}"
    return ""

"""Conditions in a status: what is so, since when, and why (metav1.Condition).

Pure: the clock is passed in. A condition is written only if something of it changed, and its
transition time only if its status did, so that a reconcile without news writes nothing.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from .markers import ListMap, RequiredOnWire
from .model import ApiModel
from .scalars import Time

__all__ = [
    "Condition",
    "ConditionStatus",
    "Conditions",
    "find_condition",
    "is_condition_false",
    "is_condition_true",
    "remove_condition",
    "set_condition",
]

ConditionStatus = Literal["True", "False", "Unknown"]
"""The three values of a condition's status."""

_TYPE_PATTERN = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
_MESSAGE_LIMIT = 32768


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


def find_condition(conditions: list[Condition], type: str) -> Condition | None:  # noqa: A002
    """The condition of that type, or None."""
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

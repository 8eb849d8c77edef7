"""In what order stacks get a new image: one first, and twice as many with each wave that is healthy. Pure.

Nothing is stored: who has the image is read from the workloads, and who is healthy from what was found out last.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import IntEnum


class Health(IntEnum):
    """What is known of a stack, in the order in which stacks get a new image."""

    HEALTHY = 0
    UNAVAILABLE = 1
    """Its Pods, or its controllers, are missing; also while a roll is under way."""
    FAILING = 2
    """Its data plane, its kubeconfig or the hub does not let it work: no image is to blame."""
    UNKNOWN = 3
    """It was not looked at since the operator started."""


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack that is deployed."""

    name: str
    """Its target namespace."""
    images: frozenset[str]
    """Of its workloads."""
    health: Health


def waits_for(name: str, stacks: Collection[Stack], image: str) -> str:
    """Return why a stack does not get an image yet, in a sentence; empty where it is its turn, or has the image."""
    due = [each for each in stacks if each.images and image not in each.images]
    if name not in {each.name for each in due}:
        return ""
    unknown = [each.name for each in stacks if each.health is Health.UNKNOWN]
    if unknown:
        return f"the new image waits until {min(unknown)} was looked at"
    having = [each for each in stacks if image in each.images]
    unproved = [each.name for each in having if each.health is Health.UNAVAILABLE]
    if unproved:
        return f"the new image waits until {min(unproved)} is healthy with it"
    healthy = sum(each.health is Health.HEALTHY for each in having)
    wave = sorted(due, key=lambda each: (each.health, each.name))[: max(1, healthy)]
    if name in {each.name for each in wave}:
        return ""
    return f"the new image goes to {wave[0].name} first"

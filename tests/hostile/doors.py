"""Every door of the product that a hostile input is sent through, and the table of them."""

from __future__ import annotations

from typing import Final

from tests.hostile.documents import (
    ANNOTATIONS,
    KUBECONFIG,
    LISTS,
    MANIFESTS,
    TEMPLATE,
    WATCHES,
    WEBHOOKS,
)
from tests.hostile.every_field import FIELDS
from tests.hostile.health_answers import HEALTH
from tests.hostile.measure import Door
from tests.hostile.peers import DATABASES, NODES, TOKEN
from tests.hostile.plane_answers import LIST, PLANE, WATCH

DOORS: Final[tuple[Door, ...]] = (
    *(PLANE, WATCH, LIST, LISTS, WATCHES),
    *FIELDS,
    *(KUBECONFIG, MANIFESTS, ANNOTATIONS, WEBHOOKS, TEMPLATE, DATABASES, NODES, HEALTH, TOKEN),
)


def table() -> list[tuple[str, ...]]:
    """Return the rows of the table of doors, its head first."""
    found = [
        (door.name, door.limits, str(len(door.shapes)), f"`make hostile DOOR='{door.name}'`")
        for door in DOORS
    ]
    return [("door", "limits", "shapes", "tried by"), *found]

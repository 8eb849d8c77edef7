"""The model of a tenant's page: its resources as a graph, and what each waits for. Pure: no values, no contents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apis.tenancy import Tenant, resource_lists
from internal.tenancy.objects.drawing import Drawing, Mark
from internal.tenancy.shared.naming import entry_id
from manager.commands.tenant import resource_rows

WAITING: Final = "Waiting"
APPLIED: Final = frozenset({"Applied", "Available"})
"""States of resources that nothing waits for."""
DRAWN: Final = 60
"""Resources up to which the graph is drawn; larger ones are listed only."""
BOX: Final = (170, 46)
GAP: Final = (30, 44)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One resource of a tenant."""

    id: str
    kind: str
    state: str
    why: str
    level: int
    needs: tuple[str, ...]
    waits_for: tuple[str, ...]
    """Those of `needs` that were not applied yet, or failed."""


@dataclass(frozen=True, slots=True)
class Box:
    """Where a node is drawn."""

    node: Node
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Picture:
    """The drawn graph."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    lines: tuple[str, ...]
    """Paths from what is needed to what needs it."""


def nodes_of(tenant: Tenant) -> list[Node]:
    """Return the resources in the order of applying; those in a cycle in the order of the spec."""
    drawing = Drawing.of([item for _, item in resource_lists(tenant.spec)], tenant.status)
    states = states_of(tenant)
    needs: dict[str, list[str]] = {name: [] for name in drawing.kinds}
    for needed, name in drawing.edges:
        needs[name].append(needed)
    levels = {name: depth for depth, names in enumerate(drawing.levels) for name in names}
    order = [name for names in drawing.levels for name in names] or list(drawing.kinds)
    return [
        Node(
            id=name,
            kind=drawing.kinds[name],
            state=_state(states, name, drawing.marks),
            why=states.get(name, ("", ""))[1],
            level=levels.get(name, 0),
            needs=tuple(needs[name]),
            waits_for=tuple(
                each for each in needs[name] if states.get(each, (WAITING, ""))[0] not in APPLIED
            ),
        )
        for name in order
    ]


def states_of(tenant: Tenant) -> dict[str, tuple[str, str]]:
    """Return state and reason of each entry of the template, by its id: of several objects, those of the worst."""
    found: dict[str, tuple[str, str]] = {}
    for row in resource_rows(tenant):
        name = entry_id(row["resource"].rpartition("@")[2])
        found.setdefault(name, (row["state"], row["why"]))
    return found


def picture_of(nodes: Sequence[Node]) -> Picture | None:
    """Return the drawing of a graph; None for one that is too large to be read."""
    if not nodes or len(nodes) > DRAWN:
        return None
    columns: dict[int, int] = {}
    boxes: dict[str, Box] = {}
    for node in nodes:
        column = columns.get(node.level, 0)
        columns[node.level] = column + 1
        x, y = column * (BOX[0] + GAP[0]) + 2, node.level * (BOX[1] + GAP[1]) + 2
        boxes[node.id] = Box(node, x, y)
    lines = tuple(_line(boxes[needed], boxes[node.id]) for node in nodes for needed in node.needs)
    width = max(columns.values()) * (BOX[0] + GAP[0]) + 4
    height = (max(columns) + 1) * (BOX[1] + GAP[1]) - GAP[1] + 4
    return Picture(width, height, tuple(boxes.values()), lines)


def _line(needed: Box, dependent: Box) -> str:
    """Return a straight line to the next level; to a further one a curve beside the boxes between."""
    x1, y1 = needed.x + BOX[0] // 2, needed.y + BOX[1]
    x2, y2 = dependent.x + BOX[0] // 2, dependent.y
    if dependent.node.level <= needed.node.level + 1:
        return f"M{x1} {y1}L{x2} {y2}"
    aside = (BOX[0] + GAP[0]) * 2 // 3
    return f"M{x1} {y1}C{x1 + aside} {y1} {x2 + aside} {y2} {x2} {y2}"


def _state(states: Mapping[str, tuple[str, str]], name: str, marks: Mapping[str, Any]) -> str:
    if marks.get(name) is Mark.CYCLE:
        return "Cycle"
    return states.get(name, (WAITING, ""))[0]

"""The parts of a parsed expression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

__all__ = [
    "Binary",
    "Call",
    "Conditional",
    "Has",
    "Ident",
    "Index",
    "ListOf",
    "Literal",
    "Macro",
    "MapOf",
    "Node",
    "Select",
    "Unary",
]


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, text, boolean or null."""

    value: str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Ident:
    """A variable."""

    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """A field of a map: `operand.field`."""

    operand: Node
    field: str


@dataclass(frozen=True, slots=True)
class Has:
    """Whether a map has a field: `has(operand.field)`."""

    operand: Node
    field: str


@dataclass(frozen=True, slots=True)
class Index:
    """An item of a list, or a value of a map: `operand[key]`."""

    operand: Node
    key: Node


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list: `[1, 2]`."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map: `{'a': 1}`."""

    pairs: tuple[tuple[Node, Node], ...]


@dataclass(frozen=True, slots=True)
class Unary:
    """`!` or `-` before an operand."""

    operator: str
    operand: Node


@dataclass(frozen=True, slots=True)
class Binary:
    """An operator between two operands, `&&`, `||` and `in` included."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Conditional:
    """`condition ? chosen : other`."""

    condition: Node
    chosen: Node
    other: Node


@dataclass(frozen=True, slots=True)
class Call:
    """A function: `size(x)`, or `x.size()` with x as the first argument."""

    name: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Macro:
    """`all`, `exists`, `exists_one`, `map` or `filter` over the items of a list or the keys of a map.

    `condition` is the third argument's place in `map(x, condition, body)`.
    """

    name: str
    operand: Node
    variable: str
    condition: Node | None
    body: Node


Node: TypeAlias = (
    Literal
    | Ident
    | Select
    | Has
    | Index
    | ListOf
    | MapOf
    | Unary
    | Binary
    | Conditional
    | Call
    | Macro
)

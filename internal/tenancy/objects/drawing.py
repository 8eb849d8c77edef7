"""Drawings of a template's dependency graph, as text: Mermaid for pages, DOT for Graphviz.

Pure. Arrows lead from a dependency to its dependents, in the direction of applying.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from apis.tenancy import TenantStatus, TResource
from internal.tenancy.objects.graph import cycles, dependencies_of, digraph, levels
from internal.tenancy.shared.naming import entry_id


class Mark(StrEnum):
    """Why a resource is drawn in a colour."""

    CYCLE = "cycle"
    FAILED = "failed"
    CONFLICTED = "conflicted"
    SKIPPED = "skipped"


COLOURS = {
    Mark.CYCLE: ("#f8d7da", "#b02a37"),
    Mark.FAILED: ("#f8d7da", "#b02a37"),
    Mark.CONFLICTED: ("#ffe5d0", "#ca6510"),
    Mark.SKIPPED: ("#e9ecef", "#6c757d"),
}
"""Fill and line of a marked resource."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """What is drawn: the kind of each id, the edges, and what stands out.

    `levels` is empty for resources that cannot be put in order. An edge is in `optional` if the
    dependent is applied even when the dependency failed.
    """

    kinds: Mapping[str, str]
    edges: Sequence[tuple[str, str]]
    levels: Sequence[Sequence[str]] = ()
    optional: frozenset[tuple[str, str]] = frozenset()
    marks: Mapping[str, Mark] = field(default_factory=dict)

    @classmethod
    def of(cls, resources: Iterable[TResource], status: TenantStatus | None = None) -> Drawing:
        """Return the drawing of a template's resources, or of a Tenant's with what its status reports."""
        items = list(resources)
        graph = digraph(dependencies_of(items))
        found = cycles(graph)
        proceeding = {item.id for item in items if not item.skip_on_dependency_failure}
        edges = tuple(graph.edges)
        return cls(
            kinds={item.id: str(item.spec.get("kind", "")) for item in items},
            edges=edges,
            levels=() if found else levels(graph),
            optional=frozenset(edge for edge in edges if edge[1] in proceeding),
            marks={
                **(_reported(status) if status is not None else {}),
                **{name: Mark.CYCLE for path in found for name in path},
            },
        )


def _reported(status: TenantStatus) -> dict[str, Mark]:
    return {
        **dict.fromkeys(map(entry_id, status.skipped_resource_ids), Mark.SKIPPED),
        **dict.fromkeys(map(entry_id, status.conflicted_resource_ids), Mark.CONFLICTED),
        **dict.fromkeys(map(entry_id, status.failed_resource_ids), Mark.FAILED),
    }


def mermaid(drawing: Drawing) -> str:
    """Return the drawing as a Mermaid flowchart."""
    names = {name: f"n{number}" for number, name in enumerate(drawing.kinds)}
    lines = ["flowchart TD"]
    for number, level in enumerate(drawing.levels):
        lines.append(f'    subgraph level{number}["level {number}"]')
        lines += (f"        {_mermaid_node(drawing, names, name)}" for name in level)
        lines.append("    end")
    if not drawing.levels:
        lines += (f"    {_mermaid_node(drawing, names, name)}" for name in drawing.kinds)
    for edge in drawing.edges:
        arrow = "-.->" if edge in drawing.optional else "-->"
        lines.append(f"    {names[edge[0]]} {arrow} {names[edge[1]]}")
    for mark in Mark:
        marked = [names[name] for name in drawing.kinds if drawing.marks.get(name) is mark]
        if marked:
            fill, line = COLOURS[mark]
            lines.append(f"    classDef {mark} fill:{fill},stroke:{line}")
            lines.append(f"    class {','.join(marked)} {mark}")
    return "\n".join(lines) + "\n"


def _mermaid_node(drawing: Drawing, names: Mapping[str, str], name: str) -> str:
    shown = "<br/>".join(_entities(text) for text in _texts(drawing, name))
    return f'{names[name]}["{shown}"]'


def _entities(text: str) -> str:
    """Text in which nothing is markup: Mermaid writes other characters as #code;."""
    return "".join(each if each.isalnum() or each in " ._-" else f"#{ord(each)};" for each in text)


def dot(drawing: Drawing) -> str:
    """Return the drawing in the language of Graphviz."""
    lines = [
        "digraph template {",
        "    node [shape=box];",
        *map("    {}".format, _dot_body(drawing)),
    ]
    return "\n".join([*lines, "}"]) + "\n"


def _dot_body(drawing: Drawing) -> Iterator[str]:
    for name in drawing.kinds:
        shown = "\\n".join(_escaped(text) for text in _texts(drawing, name))
        colour = ""
        if mark := drawing.marks.get(name):
            fill, line = COLOURS[mark]
            colour = f', style=filled, fillcolor="{fill}", color="{line}"'
        yield f'{_quoted(name)} [label="{shown}"{colour}];'
    for level in drawing.levels:
        yield f"{{ rank=same; {' '.join(f'{_quoted(name)};' for name in level)} }}"
    for edge in drawing.edges:
        style = " [style=dashed]" if edge in drawing.optional else ""
        yield f"{_quoted(edge[0])} -> {_quoted(edge[1])}{style};"


def _texts(drawing: Drawing, name: str) -> list[str]:
    """Return the lines of a box: id, kind, and why it is marked."""
    return [text for text in (name, drawing.kinds[name], drawing.marks.get(name, "")) if text]


def _quoted(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    return " ".join(text.split()).replace("\\", "\\\\").replace('"', '\\"')

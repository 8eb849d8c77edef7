"""A row of the reference's field tables: where its field is here, and what is seen of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ctrlruntime.json import Json

ITEM, VALUE = "[]", "{}"
"""Ends of a step: one item of the array, one value of the map."""

Given = Mapping[str, Any]
"""Changes to the small object that a table is about."""


@dataclass(frozen=True, slots=True)
class Row:
    """One field of the reference, and what has to be so of it here."""

    table: str
    """The table: A1.3."""
    path: str
    """Path of the field, the same there and here: `chain.config.peers`, `versions[].image`."""
    seen: Callable[[Given], Json]
    """What an object shows that is made with such changes."""
    given: Given
    """Changes that set the field."""
    shows: Json
    """What is seen then."""
    usual: Json = None
    """What is seen without the field."""
    besides: Given = field(default_factory=dict)
    """Changes that are made in both cases."""
    rules: Mapping[str, Json] = field(default_factory=dict)
    """What the schema has of it: default, minimum, enum and so on."""
    required: bool = False
    """Whether an object without it is refused."""
    differs: str = ""
    """What is different here on purpose, and why; empty: nothing is."""
    ignored: bool = False
    """Whether the field changes nothing, there as here."""
    name: str = ""
    """The field's name in the documents, if that is not the last step of its path."""

    @property
    def id(self) -> str:
        """Table and field."""
        return f"{self.table} {self.path}"

    @property
    def documented_name(self) -> str:
        """The name by which the documents list what is different."""
        last = self.path.rpartition(".")[2]
        return self.name or last.removesuffix(ITEM).removesuffix(VALUE)


def schema_at(schema: Json, path: str) -> tuple[Json, bool]:
    """Return the schema of a field and whether it is required. Raises KeyError if there is no such field."""
    required = False
    for step in path.split("."):
        name = step.removesuffix(ITEM).removesuffix(VALUE)
        required = name in schema.get("required", [])
        schema = schema["properties"][name]
        if step.endswith(ITEM):
            schema = schema["items"]
        elif step.endswith(VALUE):
            schema = schema["additionalProperties"]
    return schema, required


def at(document: Json, path: str) -> Json:
    """Return what is at a path, or None. A step into a list is the number of an item, or its name."""
    for step in path.split(".") if path else []:
        if isinstance(document, list):
            document = _item(document, step)
        else:
            document = (document or {}).get(step.replace("~", "."))
    return document


def _item(items: list[Json], step: str) -> Json:
    if step.isdigit():
        return items[int(step)] if int(step) < len(items) else None
    return next((each for each in items if each.get("name") == step), None)

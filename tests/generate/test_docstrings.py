"""Texts under attributes become descriptions, read from the source when they are asked for."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from ctrlruntime.api import ApiModel
from ctrlruntime.generate.jsonschema import json_schema_of


class Base(ApiModel):
    size: int = 1
    """How large."""
    color: str = ""
    """Which color,
    in lower case."""


class Derived(Base):
    size: int = 2
    """How large it is to become."""
    plain: int = 0
    told: int = Field(default=0, description="By the field itself.")
    """Not this."""


class Silent(Base):
    model_config = ConfigDict(use_attribute_docstrings=False)

    depth: int = 0
    """How deep."""


class Outer(ApiModel):
    inner: Base
    """What is within."""


def described(model: type[ApiModel]) -> dict[str, Any]:
    properties = json_schema_of(model)["properties"]
    return {name: wire.get("description") for name, wire in properties.items()}


def test_a_text_belongs_to_the_attribute_above_it() -> None:
    assert described(Base) == {"size": "How large.", "color": "Which color,\nin lower case."}


def test_those_of_base_classes_are_inherited_and_replaced_and_a_field_speaks_for_itself() -> None:
    assert described(Derived) == {
        "size": "How large it is to become.",
        "color": "Which color,\nin lower case.",
        "plain": None,
        "told": "By the field itself.",
    }


def test_an_object_is_described_where_it_is_used() -> None:
    assert described(Outer) == {"inner": "What is within."}


def test_they_can_be_switched_off_as_in_pydantic() -> None:
    assert described(Silent)["depth"] is None


def test_without_source_there_are_none() -> None:
    space: dict[str, Any] = {"ApiModel": ApiModel, "__name__": "nowhere"}
    exec('class Made(ApiModel):\n    size: int = 1\n    """How large."""\n', space)
    assert described(space["Made"]) == {"size": None}

"""A class is built as a whole before the loop serves others, not piece by piece by the first objects."""

from __future__ import annotations

from ctrlruntime.api.model import ApiModel


class Leaf(ApiModel):
    value: str = ""
    more: list[Leaf] | None = None


class Branch(ApiModel):
    leaves: dict[str, Leaf] | None = None


class Tree(ApiModel):
    branches: list[Branch] | None = None


class Other(ApiModel):
    value: str = ""


def test_every_model_within_is_built_and_nothing_else() -> None:
    built = (Tree, Branch, Leaf)
    assert not any(each.__pydantic_complete__ for each in built)
    Tree.prepare()
    assert all(each.__pydantic_complete__ for each in built)
    assert not Other.__pydantic_complete__

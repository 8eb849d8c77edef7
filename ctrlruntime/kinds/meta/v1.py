"""Typed kinds of meta/v1. Made by `make kinds`; changes here are lost."""

from __future__ import annotations

from pydantic import Field

from ctrlruntime.api.scalars import Time
from ctrlruntime.kinds.base import BuiltinModel

__all__ = ["Condition", "FieldSelectorRequirement", "LabelSelector", "LabelSelectorRequirement"]


class LabelSelectorRequirement(BuiltinModel):
    """LabelSelectorRequirement of meta/v1."""

    key: str
    operator: str
    values: list[str] = Field(default_factory=list)


class LabelSelector(BuiltinModel):
    """LabelSelector of meta/v1."""

    match_expressions: list[LabelSelectorRequirement] = Field(default_factory=list)
    match_labels: dict[str, str] = Field(default_factory=dict)


class Condition(BuiltinModel):
    """Condition of meta/v1."""

    last_transition_time: Time
    message: str
    observed_generation: int | None = None
    reason: str
    status: str
    type: str


class FieldSelectorRequirement(BuiltinModel):
    """FieldSelectorRequirement of meta/v1."""

    key: str
    operator: str
    values: list[str] = Field(default_factory=list)

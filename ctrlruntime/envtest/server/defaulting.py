"""The engine of defaults: trees of values that are filled in where nothing was sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ctrlruntime.json import Json

Rule = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Defaults:
    """Defaults of one object.

    `values` are set where absent; `within` are the defaults of its members (objects, or lists of
    objects) where present; `rules` run last, for what depends on other fields.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    within: Mapping[str, Defaults] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()

    def fill(self, obj: object) -> None:
        if isinstance(obj, list):
            for item in obj:
                self.fill(item)
            return
        if not isinstance(obj, dict):
            return
        for name, value in self.values.items():
            if obj.get(name) is None:
                obj[name] = _fresh(value)
        for name, inner in self.within.items():
            member = obj.get(name)
            if member or (isinstance(member, dict) and inner.values):
                inner.fill(member)
        for rule in self.rules:
            rule(obj)


def _fresh(value: object) -> Json:
    """Return a copy: defaults are shared, objects are not."""
    if isinstance(value, dict):
        return {key: _fresh(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_fresh(item) for item in value]
    return value

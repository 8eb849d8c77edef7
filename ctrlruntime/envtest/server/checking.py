"""The engine of validation: trees of checks over built-in objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ctrlruntime.envtest.server.errors import FieldError, bad_value, not_supported, required

Check = Callable[[Any, str], Iterable[FieldError]]


@dataclass(frozen=True, slots=True)
class Rules:
    """Checks of one object.

    `required` maps a member to the detail of the message ("" for none); `enums` to its values;
    `minimum` to the least number; `within` to the rules of a member, an object or a list of
    objects. `checks` see the whole object and its path.
    """

    required: Mapping[str, str] = field(default_factory=dict)
    enums: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    minimum: Mapping[str, int] = field(default_factory=dict)
    within: Mapping[str, Rules] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()

    def run(self, obj: object, path: str = "") -> list[FieldError]:
        if isinstance(obj, list):
            found: list[FieldError] = []
            for index, item in enumerate(obj):
                found += self.run(item, f"{path}[{index}]")
            return found
        if not isinstance(obj, dict):
            return []
        return list(self._object(obj, f"{path}." if path else ""))

    def _object(self, obj: dict[str, Any], prefix: str) -> Iterable[FieldError]:
        for name, detail in self.required.items():
            if obj.get(name) in (None, "", [], {}):
                yield required(prefix + name, detail)
        for name, allowed in self.enums.items():
            value = obj.get(name)
            if value not in (None, "") and value not in allowed:
                yield not_supported(prefix + name, value, allowed)
        for name, least in self.minimum.items():
            value = obj.get(name)
            if isinstance(value, int) and value < least:
                yield bad_value(prefix + name, value, f"must be greater than or equal to {least}")
        for name, rules in self.within.items():
            if obj.get(name) is not None:
                yield from rules.run(obj[name], prefix + name)
        for check in self.checks:
            yield from check(obj, prefix)

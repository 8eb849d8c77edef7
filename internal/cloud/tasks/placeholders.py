"""Places in texts of a spec that are filled when a task runs: `${instance}`, `${outputs.NAME}`."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ctrlruntime.json import Json
from internal.cloud.tasks.task import TaskRejected

_PLACE: Final = re.compile(r"\$\$\{|\$\{([^{}]*)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """What stands in for what. `$${` is a literal `${`.

    A name whose value is None is known, and has no value for this instance.
    """

    values: Mapping[str, str | bool | None]
    """By name, such as `version`."""
    outputs: Mapping[str, str] = field(default_factory=dict)
    """Of other tasks; `${outputs.NAME}`."""

    def fill(self, text: str, *, keep_unknown: bool = False) -> str:
        """Return the text with its places filled; booleans are `true` and `false`.

        With `keep_unknown`, unknown names stay as they are (a shell's `${HOME}`). An output or a
        value that is missing is an error in any case. Raises TaskRejected.
        """

        def value(match: re.Match[str]) -> str:
            if match.group() == "$${":
                return "${"
            name = match.group(1)
            if keep_unknown and not self._ours(name):
                return match.group()
            return _written(self._value(name))

        return _PLACE.sub(value, text)

    def fill_data(self, data: object, *, keep_unknown: bool = False, typed: bool = False) -> Json:
        """JSON data with the places in all its texts filled, names of fields excepted.

        With `typed`, a text that is nothing but one place becomes the value itself: `"${alerting}"`
        becomes `true`. Raises TaskRejected.
        """
        return _mapped(data, lambda text: self._filled(text, keep_unknown, typed))

    def _filled(self, text: str, keep_unknown: bool, typed: bool) -> Json:
        whole = _PLACE.fullmatch(text) if typed else None
        if whole is not None and whole.group(1) and self._ours(whole.group(1)):
            return self._value(whole.group(1))
        return self.fill(text, keep_unknown=keep_unknown)

    def _ours(self, name: str) -> bool:
        return name in self.values or name.startswith("outputs.")

    def _value(self, name: str) -> str | bool:
        if name.startswith("outputs."):
            return self._output(name.removeprefix("outputs."))
        if name not in self.values:
            raise TaskRejected(
                f"nothing is known as ${{{name}}}: there are {self._names()}"
                " and outputs.NAME; a literal ${ is written $${"
            )
        value = self.values[name]
        if value is None:
            raise TaskRejected(f"${{{name}}} is used, and the instance has no {name}: set it")
        return value

    def _output(self, name: str) -> str:
        if name not in self.outputs:
            there = ", ".join(sorted(self.outputs)) or "none"
            raise TaskRejected(
                f"${{outputs.{name}}} is used, and no task has such an output; there are: {there}"
            )
        return self.outputs[name]

    def _names(self) -> str:
        return ", ".join(sorted(self.values))


def _written(value: str | bool) -> str:
    return value if isinstance(value, str) else str(value).lower()


def _mapped(data: object, change: Callable[[str], Any]) -> Json:
    if isinstance(data, str):
        return change(data)
    if isinstance(data, Mapping):
        return {key: _mapped(value, change) for key, value in data.items()}
    if isinstance(data, list):
        return [_mapped(value, change) for value in data]
    return data

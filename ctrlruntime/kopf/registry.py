"""Which functions handle what: handlers, as the decorators collect them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.kopf.bodies import FieldPath
from ctrlruntime.kopf.errors import BACKOFF, ErrorsMode, NotOffered

__all__ = ["ABSENT", "PRESENT", "Handler", "OperatorRegistry", "Selector", "default_registry"]

Function: TypeAlias = Callable[..., Any]


class _Token:
    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


PRESENT: Final = _Token("PRESENT")
"""In a filter: whatever the value."""
ABSENT: Final = _Token("ABSENT")
"""In a filter: without a value."""


@dataclass(frozen=True, slots=True)
class Selector:
    """Which kind: by plural, kind, singular or short name, and the group and version where given."""

    name: str
    group: str | None = None
    version: str | None = None

    @classmethod
    def of(cls, *names: str) -> Selector:
        """Read ``("group", "version", "plural")``, ``("group/version", "plural")`` or ``("plural.group")``.

        Raises NotOffered for what selects more than one kind.
        """
        if len(names) == 3:
            return cls(names[2], names[0], names[1])
        if len(names) == 2:
            group, _, version = names[0].rpartition("/")
            return cls(names[1], group, version) if "/" in names[0] else cls._in(*names)
        if len(names) != 1 or not isinstance(names[0], str):
            raise NotOffered(
                "handlers here are for one kind each: name it by its plural, as "
                "kopf.on.event('pods'), instead of kopf.EVERYTHING, a category or a function"
            )
        text = names[0]
        if "/" in text:
            before, _, name = text.rpartition("/")
            group, _, version = before.rpartition("/")
            return cls(name, group, version)
        name, _, group = text.partition(".")
        return cls(name, group or None)

    @classmethod
    def _in(cls, group: str, name: str) -> Selector:
        return cls(name, "", "v1") if group == "v1" else cls(name, group)

    def selects(self, mapping: RESTMapping, names: Sequence[str] = ()) -> bool:
        """Whether a kind is meant; `names` are its singular and short ones."""
        gvk = mapping.gvk
        return (
            self.name in (mapping.plural, gvk.kind, gvk.kind.lower(), *names)
            and self.group in (None, gvk.group)
            and self.version in (None, gvk.version)
        )


Filter: TypeAlias = Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """A function, what it is for, and how often it is tried."""

    fn: Function
    id: str
    reason: str
    """create, update, delete, resume, field, event, timer, daemon, index, validate, mutate, or of the operator:
    startup, cleanup, probe."""
    selector: Selector | None = None
    errors: ErrorsMode = ErrorsMode.TEMPORARY
    timeout: float | None = None
    retries: int | None = None
    backoff: float = BACKOFF
    param: Any = None
    labels: Filter = None
    annotations: Filter = None
    when: Function | None = None
    field: FieldPath = ()
    value: Any = None
    old: Any = None
    new: Any = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Of one decorator alone: `interval` of a timer, `deleted` of a resume handler, and so on."""

    @property
    def needs_change(self) -> bool:
        """Whether its field has to differ."""
        return self.reason in ("update", "field")


CHANGING: Final = frozenset({"create", "update", "delete", "resume", "field"})
SPAWNING: Final = frozenset({"timer", "daemon"})
ADMISSION: Final = frozenset({"validate", "mutate"})


class OperatorRegistry:
    """The handlers of an operator, in the order of their declaration."""

    def __init__(self) -> None:
        self.handlers: list[Handler] = []

    def add(self, handler: Handler) -> None:
        self.handlers.append(handler)

    def of(self, *reasons: str) -> list[Handler]:
        """Return the handlers of these reasons."""
        return [handler for handler in self.handlers if handler.reason in reasons]


_default = [OperatorRegistry()]


def default_registry() -> OperatorRegistry:
    """Return what decorators add to that name no registry."""
    return _default[0]


def set_default_registry(registry: OperatorRegistry) -> None:
    """Have decorators add to another registry from now on."""
    _default[0] = registry

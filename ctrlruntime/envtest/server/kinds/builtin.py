"""What only a built-in kind has: defaults, rules, a table's columns, and what its writes lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.checking import Rules
from ctrlruntime.envtest.server.defaulting import Defaults
from ctrlruntime.envtest.server.errors import FieldError
from ctrlruntime.envtest.server.printers.column import NAME_AND_AGE, Printer

UpdateCheck = Callable[[Any, Any], Iterable[FieldError]]
Hook = Callable[[Manifest], None]
Warnings = Callable[[Manifest, Manifest | None], Iterable[str]]


def _nothing(obj: Manifest) -> None:
    """Leave the object as it is."""


def _no_warnings(new: Manifest, old: Manifest | None) -> Iterable[str]:
    """Find nothing to warn of."""
    del new, old
    return ()


def _nothing_more(new: Manifest, old: Manifest, subresource: str) -> None:
    """Leave the update as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Builtin:
    """How a built-in kind is defaulted, checked and shown; the hooks are called in this order."""

    defaults: Defaults = field(default_factory=Defaults)
    status: Mapping[str, Any] | None = field(default_factory=dict)
    """The status of a new object; None keeps what was sent."""
    rules: Rules = field(default_factory=Rules)
    updates: tuple[UpdateCheck, ...] = ()
    """Checks of a new object against the stored one."""
    deprecated: str = ""
    """The warning that every request for the kind gets."""
    warnings: Warnings = _no_warnings
    """What the writer of an object is warned of; without a stored one it is new."""
    printer: Printer = NAME_AND_AGE
    before_tracking: Hook = _nothing
    """Defaults that the sender of a new object owns."""
    admit: Hook = _nothing
    """What upstream's default admission plugins add to new objects."""
    before_create: Hook = _nothing
    """After field managers were recorded, before validation."""
    before_update: Callable[[Manifest, Manifest, str], None] = _nothing_more
    """Of an update: the new object, the stored one and the subresource, never `status`."""
    after_tracking: Callable[[Manifest, Manifest], None] | None = None
    """Changes that an update makes without the writer owning them."""

    def errors(self, new: Manifest, old: Manifest | None, subresource: str) -> list[FieldError]:
        """Return the findings on an object; `old` is the stored one of an update."""
        if subresource == "status":
            return []
        if "spec" in self.rules.within and "spec" not in new:
            new = {**new, "spec": {}}  # in Go it is a struct, and always there
        found = self.rules.run(new)
        if old is not None and subresource not in {"binding", "ephemeralcontainers", "resize"}:
            for check in self.updates:
                found += check(new, old)
        return found

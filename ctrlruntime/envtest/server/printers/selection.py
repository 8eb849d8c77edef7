"""Which printer a kind has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlruntime.envtest.server.printers.column import Printer
from ctrlruntime.envtest.server.printers.custom import custom_printer

if TYPE_CHECKING:
    from ctrlruntime.envtest.server.kinds import Kind


def printer_for(kind: Kind, version: str) -> Printer:
    """Return the printer of a kind: upstream's for what people look at, else name and age."""
    return custom_printer(kind.version_entry(version)) if kind.custom else kind.builtin.printer

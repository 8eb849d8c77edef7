"""What `kubectl get` shows of each kind: the columns, and the cells of an object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlruntime.envtest.server.printers.column import Column, Printer
from ctrlruntime.envtest.server.printers.custom import custom_printer

if TYPE_CHECKING:
    from ctrlruntime.envtest.server.kinds import Kind

__all__ = ["Column", "Printer", "printer_for"]


def printer_for(kind: Kind, version: str) -> Printer:
    """Return the printer of a kind: upstream's for what people look at, else name and age."""
    return custom_printer(kind.version_entry(version)) if kind.custom else kind.builtin.printer

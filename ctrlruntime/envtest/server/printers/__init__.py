"""What `kubectl get` shows of each kind: the columns, and the cells of an object."""

from ctrlruntime.envtest.server.printers.column import Column, Printer
from ctrlruntime.envtest.server.printers.selection import printer_for

__all__ = ["Column", "Printer", "printer_for"]

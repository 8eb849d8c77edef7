"""The console as part of a manager, if its options have it on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from manager.console.options import ConsoleOptions

if TYPE_CHECKING:
    from ctrlruntime.manager import Manager


def serve_console(manager: Manager, options: ConsoleOptions) -> None:
    """Add the console to a manager that has its controllers, if it is on. Raises AddressError."""
    if options.enabled:
        from manager.console.server import add_console  # what only a console needs

        add_console(manager, options)

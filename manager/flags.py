"""Groups of flags, so that a command with many stays readable."""

from collections.abc import Callable
from typing import Any

Command = Callable[..., Any]


def with_options(command: Command, *options: Callable[[Command], Command]) -> Command:
    """The command with the options, shown in this order."""
    for option in reversed(options):
        command = option(command)
    return command

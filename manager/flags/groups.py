"""Groups of flags, so that a command with many stays readable."""

from collections.abc import Callable, Sequence
from typing import Any

import click

Command = Callable[..., Any]


def with_options(command: Command, *options: Callable[[Command], Command]) -> Command:
    """Return the command with the options, shown in this order."""
    for option in reversed(options):
        command = option(command)
    return command


def check_allowed_addresses() -> None:
    """Raise UsageError for an environment variable that lists no networks, before anything is read by it."""
    from ctrlruntime.outbound_addresses import ALLOWED, allowed_networks

    try:
        allowed_networks()
    except ValueError as error:
        raise click.UsageError(
            f"{ALLOWED}: {error}; write networks with commas between them, such as 127.0.0.0/8"
        ) from error


class LateHelp(click.Option):
    """An option whose help is computed when it is shown, since it imports much."""

    def __init__(
        self, names: Sequence[str], *, late_help: Callable[[], str], **settings: object
    ) -> None:
        self._late_help = late_help
        checked_by_click: dict[str, Any] = {**settings}
        super().__init__(names, **checked_by_click)

    def _shown_help(self) -> str:
        return self._late_help()

    def _ignore(self, _value: str | None) -> None:
        """Drop what click sets."""

    help = property(_shown_help, _ignore)


def default_option(
    flag: str, name: str, defaults: object, kind: click.ParamType[Any], text: str
) -> Callable[[Command], Command]:
    """Return an option with the default that `defaults` has of that name."""
    return click.option(flag, name, type=kind, default=getattr(defaults, name), help=text)

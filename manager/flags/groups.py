"""Groups of flags, so that a command with many stays readable."""

from collections.abc import Callable, Sequence
from dataclasses import Field, fields
from typing import Any, Final

import click

Command = Callable[..., Any]
POSITIVE: Final = click.IntRange(min=1)


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


def flag(name: str, text: str, **settings: object) -> dict[str, Any]:
    """Return metadata of a dataclass field that a flag sets: its name, its help, and what click.option takes besides."""
    return {"flag": (name, {"help": text, **settings})}


def described_options(options: type[Any]) -> tuple[Callable[[Command], Command], ...]:
    """Return the flags of the fields of a dataclass that have one, in their order, each with its field's default."""
    return tuple(map(_option, _flagged(options)))


def described(options: type[Any]) -> Callable[[Command], Command]:
    """Return a decorator that adds these flags to a command."""
    return lambda command: with_options(command, *described_options(options))


def take_described(options: type[Any], given: dict[str, Any], *others: str) -> dict[str, Any]:
    """Take what the flags of a dataclass set out of `given`, and what those that stand elsewhere set, by the names of fields."""
    names = [field.name for field in _flagged(options)]
    return {name: given.pop(name) for name in (*names, *others)}


def _flagged(options: type[Any]) -> list[Field[Any]]:
    return [field for field in fields(options) if "flag" in field.metadata]


def _option(field: Field[Any]) -> Callable[[Command], Command]:
    """Return the flag of a field; click has no default for one that may be repeated, that has no value, or that is None."""
    name, settings = field.metadata["flag"]
    if field.default is False:
        settings = {"is_flag": True, **settings}
    elif field.default not in (None, ()):
        settings = {"default": field.default, **settings}
    return click.option(name, field.name, **settings)

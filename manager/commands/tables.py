"""Output of commands that list objects: tables for people, JSON and YAML for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click
import yaml

from ctrlruntime.api.printable import printable
from manager.commands.output import echo
from manager.flags.groups import with_options

FORMATS: Final = ("table", "wide", "json", "yaml")
_UNLIMITED: Final = 100_000
"""Columns of output that is no terminal: nothing is cut."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its title, the key of a row that it shows, and whether only `wide` has it."""

    title: str
    key: str
    wide: bool = False


def output_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option of the output's format."""
    return with_options(
        command,
        click.option(
            "-o",
            "--output",
            type=click.Choice(FORMATS),
            default="table",
            help="Format of the output.",
        ),
    )


def print_fields(fields: Mapping[str, Any]) -> None:
    """Print one field a line, lists in one, without control characters; then an empty line."""
    for key, value in fields.items():
        shown = ", ".join(value) if isinstance(value, list) else value
        echo(printable(f"{key}: {shown}"))
    echo("")


def print_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], output: str) -> None:
    """Print rows in a format: those of tables show the columns, the others all that a row has."""
    if output == "json":
        echo(json.dumps([dict(row) for row in rows], indent=2))
    elif output == "yaml":
        echo(yaml.safe_dump([dict(row) for row in rows], sort_keys=False), nl=False)
    else:
        shown = [item for item in columns if output == "wide" or not item.wide]
        _print_table(rows, shown)


def _print_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    stream = sys.stdout
    width = None if stream.isatty() else _UNLIMITED
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for column in columns:
        table.add_column(column.title, no_wrap=width is not None, overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(row.get(column.key))) for column in columns))
    Console(file=stream, width=width, highlight=False).print(table)


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    return "" if value is None else printable(str(value))

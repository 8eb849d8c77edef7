"""What commands print: the one place, since names, values, messages and logs come from outside."""

from __future__ import annotations

import click

from ctrlruntime.api.printable import printable


def echo(text: str, *, nl: bool = True, err: bool = False) -> None:
    """Print a text without what moves the cursor, sets titles, or changes the direction of reading."""
    click.echo(printable(text), nl=nl, err=err)
